"""Batches: rows padded on the right, frames in the order of their slots."""

import pytest
import torch

from tests.sequence.cases import encode, say, stream
from vlm_tsi.sequence.collate import Sample, collate
from vlm_tsi.sequence.interleave import IGNORE, InterleavedSequence, Scheme, interleave


def row(count: int, frames: list[float]) -> InterleavedSequence:
    return interleave([say(100, count, 0.0, 1.0)], frames, stream(2), encode, Scheme())


def features(frames: int, value: float) -> torch.Tensor:
    return torch.full((frames, 2, 4), value)


def test_rows_are_padded_on_the_right() -> None:
    short, long = row(1, [0.0]), row(5, [0.0, 0.5, 1.0])
    batch = collate([Sample(short, features(1, 1.0)), Sample(long, features(3, 2.0))])
    n = len(short)
    assert batch["input_ids"].shape == (2, len(long))
    assert batch["input_ids"][0, :n].tolist() == short.ids_L.tolist()
    assert (batch["labels"][0, n:] == IGNORE).all()
    assert (batch["label_weights"][0, n:] == 0).all()
    assert not batch["frame_mask"][0, n:].any()
    assert batch["label_weights"].dtype == torch.float32


def test_frames_of_all_rows_follow_their_slots() -> None:
    a, b = row(1, [0.0]), row(2, [0.0, 0.5])
    batch = collate([Sample(a, features(1, 1.0)), Sample(b, features(2, 2.0))])
    assert batch["frame_features"][:, 0, 0].tolist() == [1.0, 2.0, 2.0]
    assert int(batch["frame_mask"].sum()) == batch["frame_features"].shape[0] * 2


def test_pixels_stay_bytes() -> None:
    pixels = torch.zeros(1, 8, 8, 3, dtype=torch.uint8)
    batch = collate([Sample(row(1, [0.0]), pixels_FHWC=pixels)])
    assert batch["pixels"].dtype == torch.uint8 and "frame_features" not in batch


def test_features_and_pixels_do_not_mix() -> None:
    pixels = torch.zeros(1, 8, 8, 3, dtype=torch.uint8)
    mixed = [Sample(row(1, [0.0]), features(1, 1.0)), Sample(row(1, [0.0]), pixels_FHWC=pixels)]
    with pytest.raises(AssertionError):
        collate(mixed)
