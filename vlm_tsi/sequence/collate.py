"""Sequences -> batch tensors.

Input: samples (an `InterleavedSequence` and its frames, as features [F, T, D] or as
pixels [F, H, W, 3] uint8). Output: the keyword arguments of `VlmTsiModel.forward`.
Invariant: rows are padded on the right only, so that causal attention needs no mask; the
frames of all rows stand in one tensor, in the order of their slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from vlm_tsi.sequence.interleave import IGNORE, InterleavedSequence


@dataclass(frozen=True, slots=True)
class Sample:
    """One training row; exactly one of `features_FTD` and `pixels_FHWC` is given."""

    sequence: InterleavedSequence
    features_FTD: torch.Tensor | None = None
    pixels_FHWC: torch.Tensor | None = None


def collate(samples: Sequence[Sample]) -> dict[str, torch.Tensor]:
    """Pad ids (0), labels (-100) and weights (0); concatenate the frames of all rows."""
    rows = [s.sequence for s in samples]
    batch = {
        "input_ids": _pad([r.ids_L for r in rows], 0),
        "labels": _pad([r.labels_L for r in rows], IGNORE),
        "label_weights": _pad([r.weights_L for r in rows], 0.0),
        "frame_mask": _pad([r.frame_idx_L >= 0 for r in rows], False),
    }
    features = [s.features_FTD for s in samples if s.features_FTD is not None]
    pixels = [s.pixels_FHWC for s in samples if s.pixels_FHWC is not None]
    assert not (features and pixels), "a batch holds features or pixels, not both"
    if features:
        batch["frame_features"] = torch.cat(features).float()
    if pixels:
        batch["pixels"] = torch.cat(pixels)
    return batch


def _pad(rows: Sequence[np.ndarray], value: float) -> torch.Tensor:
    length = max(len(row) for row in rows)
    out = np.full((len(rows), length), value, dtype=rows[0].dtype)
    for padded, row in zip(out, rows, strict=True):
        padded[: len(row)] = row
    return torch.from_numpy(out)
