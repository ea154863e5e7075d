"""The filter's commands with tiny networks and a made-up embedder, also as a process of its own.

    python -m tests.data_prep.pbp_tiny train-filter --labels DIR --out DIR

Input: a step and its options. Output: what the step writes. Invariant: only sizes and the
embedder differ from the real command.
"""

import sys
from functools import partial
from typing import Any

import numpy as np

from data_prep.soccernet import __main__ as cli
from data_prep.soccernet import pbp_filter, pbp_train
from data_prep.soccernet.pbp_fit import ContextRecipe, LstmRecipe, Recipes
from vlm_tsi.scoring import embed

TINY = Recipes(
    lstm=LstmRecipe(hidden=4, most_epochs=1),
    context=ContextRecipe(
        hidden=8, epochs=6, members=1, chunk=12, batch_size=2, learning_rate=0.02
    ),
)


class MadeUpEmbedder:
    """Each letter pair has a place; enough to tell the made-up sentences apart."""

    source, is_local, is_papers = "made-up", False, False

    def __init__(self, name: str = "made-up", cache: Any = None) -> None:
        self.name = self.source = name or "made-up"

    def __call__(self, texts: list[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 16), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for a, b in zip(text, text[1:], strict=False):
                row[(ord(a) * 7 + ord(b)) % 16] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def main() -> int:
    """Run one step, or all of them."""
    for module in (pbp_train, pbp_filter, embed):
        module.find_embedder = MadeUpEmbedder  # type: ignore[assignment, misc]
    pbp_train.run = partial(pbp_train.run, recipes=TINY)
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
