"""Orders and datasets: what an epoch sees, and what is counted as left out."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.lessons import Lessons
from vlm_tsi.errors import UserError
from vlm_tsi.sequence.interleave import Scheme
from vlm_tsi.sequence.tokens import StreamTokens
from vlm_tsi.training.data import EpochOrder, FrameSource, StoreFrames, StreamDataset, VideoFrames
from vlm_tsi.video.features import FeatureStore, content_key

TOKENS = StreamTokens(1, 2, 3, {"system": [4], "user": [5], "assistant": [6]})


def dataset_of(folder: Path, source: FrameSource, longest: int = 8192) -> StreamDataset:
    def encode(text: str) -> list[int]:
        return [7] * len(text.split())

    paths = [str(folder / "train.jsonl")]
    return StreamDataset(paths, source, TOKENS, encode, Scheme(), max_positions=longest)


def test_a_batch_holds_samples_of_similar_length_and_each_sample_comes_once():
    lengths = [10, 500, 12, 480, 11, 490, 13, 470]
    order = list(EpochOrder(8, 4, seed=1, lengths=lengths))
    assert sorted(order) == list(range(8))
    spans = [sorted(lengths[i] for i in order[k : k + 4]) for k in (0, 4)]
    assert sorted(spans) == [[10, 11, 12, 13], [470, 480, 490, 500]]


def test_an_epochs_order_is_seeded_and_of_whole_batches() -> None:
    order = EpochOrder(10, 4, seed=3)
    first = list(order)
    assert len(order) == len(first) == len(set(first)) == 8
    assert first == list(EpochOrder(10, 4, seed=3))
    order.set_epoch(1)
    assert list(order) != first


def test_a_set_smaller_than_a_batch_is_given_whole() -> None:
    assert sorted(EpochOrder(3, 8, seed=0)) == [0, 1, 2]


def test_a_sequence_too_long_is_counted(lessons: Lessons) -> None:
    dataset = dataset_of(lessons.folder, VideoFrames(2.0, 32), longest=12)
    assert 0 < len(dataset) < 10
    assert dataset.left_out.counts == {"longer than 12 positions": 10 - len(dataset)}
    sample = dataset[0]
    assert sample.pixels_FHWC is not None and sample.pixels_FHWC.shape == (6, 32, 32, 3)
    assert int((sample.sequence.frame_idx_L >= 0).sum()) == 6


@pytest.fixture
def half_stored(lessons: Lessons, tmp_path: Path) -> FeatureStore:
    """Features of `0.mp4` alone, whose timelines are every second one of the ten."""
    store = FeatureStore(tmp_path / "store", "an encoder")
    key = content_key(lessons.folder / "0.mp4")
    store.put(key, np.arange(6) / 2, torch.zeros(6, 1, 4))
    return store


def test_a_video_without_features_leaves_its_timelines_out(
    lessons: Lessons, half_stored: FeatureStore
) -> None:
    dataset = dataset_of(lessons.folder, StoreFrames(half_stored))
    assert len(dataset) == 5
    reason = f"whose video has no features in {half_stored.root}"
    assert dataset.left_out.counts == {reason: 5}
    assert str(dataset.left_out) == f"5 {reason} (first: {lessons.folder / '1.mp4'})"


def test_a_store_without_any_of_the_videos_names_the_first(
    lessons: Lessons, tmp_path: Path
) -> None:
    source = StoreFrames(FeatureStore(tmp_path, "another encoder"))
    with pytest.raises(UserError, match=r"0\.mp4: has no features in .*data_prep\.encode_frames"):
        dataset_of(lessons.folder, source)


def test_a_damaged_store_is_named_and_stops(lessons: Lessons, half_stored: FeatureStore) -> None:
    path = next(half_stored.root.rglob("*.feat"))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match=r"\.feat: damaged features"):
        dataset_of(lessons.folder, StoreFrames(half_stored))


@pytest.mark.parametrize("stored", [False, True])
def test_a_bad_video_leaves_its_timelines_out(
    lessons: Lessons, half_stored: FeatureStore, tmp_path: Path, stored: bool
) -> None:
    for name in ("train.jsonl", "0.mp4"):
        shutil.copy(lessons.folder / name, tmp_path)
    source = StoreFrames(half_stored) if stored else VideoFrames(2.0, 32)
    dataset = dataset_of(tmp_path, source)
    assert len(dataset) == 5
    assert dataset.left_out.counts == {"whose video No such file or directory": 5}
