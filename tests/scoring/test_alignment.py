"""The alignment of many videos at once, against one made pair by pair."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.hash_embedder import hash_similarity
from tests.reference.trace_reference import align_by_solver, trace_reference
from tests.scoring.test_trace_score import WORDS, random_params, run
from vlm_tsi.scoring import alignment, swaps
from vlm_tsi.scoring.spans import overlap_seconds


def crowded(rng: np.random.Generator, videos: str, most: int, length: float) -> dict:
    """Many utterances in a short time, some at the same moment."""
    spans = {}
    for video in videos:
        starts = np.round(rng.uniform(0, length, rng.integers(0, most + 1)), 1).tolist()
        texts = [" ".join(rng.choice(WORDS, 2)) for _ in starts]
        spans[video] = [
            (s, s + i / 7, t) for i, (s, t) in enumerate(zip(starts, texts, strict=True))
        ]
    return spans


@pytest.mark.parametrize("narrow", [0, 3, 10_000])
@pytest.mark.parametrize("rule", ["four", "new_pairs"])
def test_crowded_videos_agree_with_the_slow_reference(monkeypatch, narrow, rule):
    monkeypatch.setattr(swaps, "NARROW", narrow)
    rng = np.random.default_rng(11)
    for length in (3.0, 20.0, 80.0):
        refs, gens = crowded(rng, "abc", 30, length), crowded(rng, "abc", 30, length)
        params = random_params(rng) | {"swap_rule": rule, "max_passes": 100}
        wanted = trace_reference(refs, gens, hash_similarity, align=align_by_solver, **params)
        assert run(refs, gens, **params).micro == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("passes", [0, 1, 2, 100])
def test_passes_are_counted_as_the_slow_reference_counts_them(passes):
    rng = np.random.default_rng(5)
    for _ in range(20):
        refs, gens = crowded(rng, "a", 12, 8), crowded(rng, "a", 12, 8)
        wanted = trace_reference(
            refs, gens, hash_similarity, max_passes=passes, align=align_by_solver
        )
        assert run(refs, gens, max_passes=passes).micro == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("cells, rows", [(1, 10**9), (10**9, 1), (40, 10**9), (10**9, 15)])
def test_how_videos_are_put_together_changes_nothing(monkeypatch, cells, rows):
    rng = np.random.default_rng(2)
    refs, gens = crowded(rng, "abcdefgh", 9, 30), crowded(rng, "acdefghx", 9, 30)
    whole = run(refs, gens)
    monkeypatch.setattr(alignment, "MOST_CELLS", cells)
    monkeypatch.setattr(alignment, "MOST_ROWS", rows)
    again = run(refs, gens)
    assert [p[:9] for p in again.pairs] == [p[:9] for p in whole.pairs]
    assert again.micro == pytest.approx(whole.micro, abs=1e-9)


def test_a_video_scores_the_same_alone_and_among_others():
    rng = np.random.default_rng(3)
    refs, gens = crowded(rng, "abcdef", 12, 25), crowded(rng, "abcdef", 12, 25)
    together = run(refs, gens).video_scores()
    for video in together:
        alone = run({video: refs[video]}, {video: gens[video]}).micro
        assert together[video] == pytest.approx(dict(alone), abs=1e-9)


SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 12)), max_size=25
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(SPANS)
def test_overlap_is_what_each_shares_with_each_other_of_its_video(spans):
    video = np.array([v for v, *_ in spans], dtype=int)
    times = np.array([(s / 2, (s + d) / 2) for _, s, d in spans]).reshape(-1, 2)
    wanted = [
        math.fsum(
            max(0.0, min(times[i, 1], times[j, 1]) - max(times[i, 0], times[j, 0]))
            for j in range(len(spans))
            if j != i and video[j] == video[i]
        )
        for i in range(len(spans))
    ]
    assert overlap_seconds(times, video).tolist() == pytest.approx(wanted, abs=1e-9)
