"""Weighted cross entropy on labelled positions only.

Input: hidden states [B, L, D], the output head, labels and weights [B, L] (labels already
shifted, -100 for none). Output: a scalar. Invariant: logits are computed for labelled
positions alone, never [B, L, V].
"""

from collections.abc import Callable

import torch
from torch.nn import functional

from vlm_tsi.sequence.interleave import IGNORE


def labelled_loss(
    hidden_BLD: torch.Tensor,
    head: Callable[[torch.Tensor], torch.Tensor],
    labels_BL: torch.Tensor,
    weights_BL: torch.Tensor | None = None,
    total_weight: torch.Tensor | float | None = None,
) -> torch.Tensor:
    """Sum of weighted cross entropies over `total_weight` (default: this batch's own)."""
    labelled = labels_BL != IGNORE
    logits_NV = head(hidden_BLD[labelled]).float()
    losses_N = functional.cross_entropy(logits_NV, labels_BL[labelled], reduction="none")
    if weights_BL is None:
        weights_N = torch.ones_like(losses_N)
    else:
        weights_N = weights_BL[labelled].to(losses_N.dtype)
    total = weights_N.sum() if total_weight is None else total_weight
    return (losses_N * weights_N).sum() / torch.as_tensor(total).clamp(min=1e-8)
