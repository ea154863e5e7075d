"""Orders and datasets: what an epoch sees, and what is counted as left out."""

from tests.training.lessons import Lessons
from vlm_tsi.sequence.interleave import Scheme
from vlm_tsi.sequence.tokens import StreamTokens
from vlm_tsi.training.data import EpochOrder, StreamDataset, VideoFrames


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
    tokens = StreamTokens(1, 2, 3, {"system": [4], "user": [5], "assistant": [6]})
    source = VideoFrames(2.0, 32)
    dataset = StreamDataset(
        [str(lessons.folder / "train.jsonl")], source, tokens, lambda text: [7] * len(text.split()),
        Scheme(), max_positions=12,
    )  # fmt: skip
    assert 0 < len(dataset) < 10
    assert dataset.left_out == {"longer than 12 positions": 10 - len(dataset)}
    sample = dataset[0]
    assert sample.pixels_FHWC is not None and sample.pixels_FHWC.shape == (6, 32, 32, 3)
    assert int((sample.sequence.frame_idx_L >= 0).sum()) == 6
