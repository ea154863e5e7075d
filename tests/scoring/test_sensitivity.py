"""The parameter grid against scoring each point by itself."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.hash_embedder import hash_embed
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.sensitivity import ALPHAS, AXES, SHOWN, remembered, sensitivity
from vlm_tsi.scoring.trace_score import score
from vlm_tsi.timeline import Generated, Utterance

WORDS = ["red", "blue", "lamp", "left", "right"]


def sets(seed: int):
    rng = np.random.default_rng(seed)

    def spans(most: int):
        starts = rng.uniform(0, 20, rng.integers(0, most + 1))
        return [(s, s + rng.uniform(0, 4), " ".join(rng.choice(WORDS, 2))) for s in starts.tolist()]

    references = {v: [Utterance("assistant", t, s, e) for s, e, t in spans(5)] for v in "abc"}
    generated = {v: [Generated(v, s, e, t) for s, e, t in spans(6)] for v in "abx"}
    return references, generated


@settings(max_examples=6, deadline=None)
@given(
    st.integers(0, 2**31), st.sampled_from(["all", "matched"]), st.sampled_from(["count", "ignore"])
)
def test_each_point_is_what_scoring_gives_there(seed, overlap, unknown):
    references, generated = sets(seed)
    params = TraceParams(overlap=overlap, unknown_videos=unknown, alpha=0.3)
    found = sensitivity(references, generated, hash_embed, params)
    assert len(found.points) == 3 * 3 * 3 * (len(ALPHAS) + 1)
    for point in found.points[::3]:
        there = replace(params, **{axis: point[axis] for axis in AXES})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = score(references, generated, hash_embed, there).micro
        assert {n: point[n] for n in SHOWN} == pytest.approx(
            {n: wanted[n] for n in SHOWN}, abs=1e-9
        )


def test_slices_pass_through_the_parameters_given():
    references, generated = sets(1)
    params = TraceParams(tau_win=4.0, alpha=0.4)
    slices = sensitivity(references, generated, hash_embed, params).slices(params)
    assert list(slices) == list(AXES)
    assert list(slices["tau_win"]) == [2.0, 4.0, 8.0]
    assert list(slices["alpha"]) == [0.0, 0.25, 0.4, 0.5, 0.75, 1.0]
    assert len({slices[axis][getattr(params, axis)] for axis in AXES}) == 1


def test_a_wider_penalty_scale_never_lowers_trace():
    for seed in range(5):
        slices = sensitivity(*sets(seed), hash_embed).slices(TraceParams())
        values = list(slices["tau_pen"].values())
        assert values == sorted(values)


def test_texts_are_embedded_once():
    seen: list[str] = []

    def spy(texts):
        seen.extend(texts)
        return hash_embed(texts)

    references, generated = sets(2)
    sensitivity(references, generated, spy)
    assert len(seen) == len(set(seen)) > 0


def test_memory_asks_for_new_texts_only():
    seen: list[list[str]] = []

    def spy(texts):
        seen.append(texts)
        return hash_embed(texts)

    recall = remembered(spy)
    assert np.array_equal(recall(["a", "b", "a"]), hash_embed(["a", "b", "a"]))
    assert np.array_equal(recall(["b", "c"]), hash_embed(["b", "c"]))
    assert len(recall([])) == 0
    assert seen == [["a", "b"], ["c"]]
    with pytest.raises(ValueError):
        remembered(lambda texts: np.zeros((1, 2)))(["a", "b"])


def test_silence_and_nothing_stay_zero_everywhere():
    references, _ = sets(3)
    for refs in (references, {}):
        assert {p["trace"] for p in sensitivity(refs, {}, hash_embed).points} == {0.0}


def test_the_grid_stays_within_what_a_parameter_may_be():
    with np.errstate(over="ignore"):
        found = sensitivity(*sets(4), hash_embed, TraceParams(tau_win=1e308, tau_pen=5e-324))
    assert found.axes["tau_win"] == (5e307, 1e308) and min(found.axes["tau_pen"]) > 0
