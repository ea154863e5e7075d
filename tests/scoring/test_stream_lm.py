"""Teacher-forced measures: against plain loops, and over videos."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.stream_lm_reference import reference
from vlm_tsi.scoring.stream_lm import MEASURES, TurnReading, means, measure, video_means

flags = st.lists(st.booleans(), max_size=6)
losses = st.lists(st.floats(0, 30), max_size=6)


@st.composite
def readings(draw):
    opens, later = draw(flags), draw(flags)
    later = later if opens and not any(opens) else []
    gaps = draw(st.lists(st.floats(0.1, 2), min_size=12, max_size=12))
    times = np.cumsum(gaps)
    said = draw(losses)
    right = draw(st.lists(st.booleans(), min_size=len(said), max_size=len(said)))
    return TurnReading(
        np.array(opens, dtype=bool), times[: len(opens)],
        np.array(later, dtype=bool), times[len(opens) : len(opens) + len(later)],
        np.array(said), np.array(right, dtype=bool),
    )  # fmt: skip


@given(readings())
def test_measures_are_those_of_plain_loops(turn):
    found = measure(turn)
    lists = [getattr(turn, name).tolist() for name in TurnReading.__slots__]
    for name, wanted in reference(*lists).items():
        got = getattr(found, name)
        assert got is None if wanted is None else got == pytest.approx(wanted, rel=1e-9)


def turn(opens, later=(), losses=(0.0,), right=(True,)):
    times = np.arange(len(opens) + len(later)) * 0.5
    return TurnReading(
        np.array(opens, dtype=bool), times[: len(opens)], np.array(later, dtype=bool),
        times[len(opens) :], np.array(losses), np.array(right, dtype=bool),
    )  # fmt: skip


def test_what_is_perfect_has_perplexity_one_no_delay_and_full_shares():
    found = measure(turn([False, False, True]))
    assert (found.perplexity, found.correctness, found.fluency) == (1, 1, 1)
    assert (found.frame_diff, found.time_diff, found.never) == (0, 0, False)


def test_early_and_late_count_alike_and_end_the_fluency_there():
    early, late = measure(turn([False, True, False])), measure(turn([False] * 3, [True, False]))
    assert early.frame_diff == late.frame_diff == 1 and early.time_diff == late.time_diff == 0.5
    assert early.fluency == 1 / 4 and late.fluency == 2 / 4


def test_silence_is_late_by_all_the_frames_looked_at_and_is_counted():
    never = measure(turn([False] * 3, [False, False]))
    assert never.frame_diff == 2 and never.never and never.fluency == 2 / 4
    alone = measure(turn([False]))
    assert alone.frame_diff == 0 and alone.never and alone.fluency == 0


def test_a_turn_without_streamed_frames_has_no_timing_and_one_without_text_no_words():
    heard = measure(turn([]))
    assert heard.frame_diff is None and heard.fluency is None and heard.perplexity == 1
    empty = measure(turn([True], losses=[], right=[]))
    assert empty.perplexity is None and empty.fluency is None and empty.frame_diff == 0


def test_a_loss_past_all_bounds_leaves_a_finite_perplexity_and_is_told():
    found = measure(turn([True], losses=[1e30], right=[False]))
    assert np.isfinite(found.perplexity) and found.is_cut


@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), st.lists(readings(), max_size=3)))
def test_means_are_of_turns_and_of_videos_whatever_their_order(by_video):
    measured = {v: [measure(t) for t in turns] for v, turns in by_video.items()}
    found = means(measured, resamples=20)
    assert found == means(dict(reversed(measured.items())), resamples=20)
    for name in MEASURES:
        each = [[x for t in ts if (x := getattr(t, name)) is not None] for ts in measured.values()]
        values = [x for some in each for x in some]
        if not values:
            assert found["micro"][name] is None and found["macro"][name] is None
            continue
        assert found["micro"][name].value == pytest.approx(np.mean(values))
        of_videos = [np.mean(some) for some in each if some]
        assert found["macro"][name].value == pytest.approx(np.mean(of_videos))
        for pool in ("micro", "macro"):
            mean = found[pool][name]
            assert mean.turns == len(values)
            assert min(of_videos) - 1e-9 <= mean.low <= mean.high <= max(of_videos) * (1 + 1e-9)


def test_a_videos_means_are_over_its_own_turns():
    pair = [measure(turn([True])), measure(turn([False], [], [1.0], [False]))]
    found = video_means(pair)
    assert found["correctness"] == 0.5 and found["perplexity"] == pytest.approx((1 + np.e) / 2)
    assert video_means([]) == dict.fromkeys(MEASURES)
