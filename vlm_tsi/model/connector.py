"""Two-layer MLP from vision to text features: [..., D_vision] -> [..., D_text].

Linear-GELU-Linear, as in VideoLLM-Online; its weights are `0.*` and `2.*` there as here.

Input: the two widths. Output: a module. Invariant: each vector is mapped for itself, whatever
the leading dimensions.
"""

from torch import nn


def connector(vision_size: int, text_size: int) -> nn.Sequential:
    """Build the connector."""
    return nn.Sequential(
        nn.Linear(vision_size, text_size), nn.GELU(), nn.Linear(text_size, text_size)
    )
