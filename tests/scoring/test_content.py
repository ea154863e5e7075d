"""Content words in matched pairs."""

from dataclasses import dataclass

import pytest

from vlm_tsi.scoring.content import content_accuracy


@dataclass
class Texts:
    ref_text: str
    gen_text: str


def test_micro_over_pairs_as_multisets():
    pairs = [Texts("Red and red, left!", "red LEFT left"), Texts("blue", "green")]
    got = content_accuracy(pairs, {"red", "blue", "green", "left"})
    assert (got.n_right, got.n_ref, got.n_gen) == (2, 4, 4)
    assert got.f1 == got.precision == got.recall == 50


def test_whole_words_and_longest_phrases():
    got = content_accuracy(
        [Texts("reddish top left", "top-left top left")], {"red", "top left", "left", "top"}
    )
    assert (got.n_ref, got.n_gen, got.n_right) == (1, 3, 1)
    assert got.precision == pytest.approx(100 / 3) and got.recall == 100


def test_slots():
    words = {"colour": {"red", "blue"}, "place": {"left", "right"}}
    got = content_accuracy([Texts("red left", "blue left")], words)
    assert got.f1 == 50 and got.slots["colour"].f1 == 0 and got.slots["place"].f1 == 100


@pytest.mark.parametrize(
    "pairs, words, f1",
    [
        ([], {"red"}, None),
        ([Texts("a", "b")], {"red"}, None),
        ([Texts("red", "b")], {"red"}, 0),
        ([Texts("a", "red")], {"red"}, 0),
        ([Texts("red", "red")], set(), None),
        ([Texts("red", "red")], {""}, None),
        ([Texts("red", "red")], {}, None),
    ],
)
def test_nothing_to_judge_is_none_and_nothing_right_is_0(pairs, words, f1):
    got = content_accuracy(pairs, words)
    assert got.f1 == got.precision == got.recall == f1
