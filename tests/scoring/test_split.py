"""Groups that cut through videos: their sums, against the whole set's and a slow peer's."""

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.hash_embedder import hash_embed
from tests.reference.trace_reference import overlap_score
from vlm_tsi.scoring.groups import by_group, pooled
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.split import split
from vlm_tsi.scoring.trace_score import SCORES, score
from vlm_tsi.timeline import Generated, Utterance

TEXTS = ["red lamp", "blue lamp", "goal", ""]
times = st.integers(0, 200).map(lambda n: n / 4)
spoken = st.tuples(times, st.integers(0, 12).map(lambda n: n / 4), st.sampled_from(TEXTS))


@st.composite
def sets(draw):
    """References and generated utterances of up to three videos, overlaps and all."""
    videos = [f"v{k}#{i}" for i, k in enumerate((0, 0, 1)[: draw(st.integers(1, 3))])]
    refs = {
        v: [
            Utterance("assistant", t or "x", s, s + d)
            for s, d, t in draw(st.lists(spoken, max_size=6))
        ]
        for v in videos
    }
    gens = {
        v: [Generated(v, s, s + d, t) for s, d, t in draw(st.lists(spoken, max_size=6))]
        for v in (*videos, "unknown")
    }
    return refs, gens


def scored(refs, gens, params=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return score(refs, gens, hash_embed, params)


def by_time(video_id, start, end):
    """Three stretches that overlap; what lies beyond 40 s is in none."""
    bounds = {"early": (0, 20), "middle": (15, 30), "late": (30, 40)}
    return [name for name, (a, b) in bounds.items() if start <= b and end >= a]


@settings(max_examples=60, deadline=None)
@given(sets(), st.sampled_from(["all", "matched"]))
def test_one_group_of_everything_has_the_whole_sets_scores(both, overlap):
    refs, gens = both
    result = scored(refs, gens, TraceParams(overlap=overlap))
    parts = split(result, refs, gens, lambda *_: ["all"])
    found = parts["all"].per_video if parts else {}
    assert pooled(found.values(), result.params) == pytest.approx(dict(result.micro), abs=1e-9)
    for video_id, sums in found.items():
        whole = result.per_video[video_id]
        assert list(sums) == pytest.approx(list(whole), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(sets())
def test_groups_of_whole_videos_are_those_of_by_group(both):
    refs, gens = both
    result = scored(refs, gens)
    groups = {"v0#0": "a", "v0#1": "b", "v1#2": "a"}
    parts = split(result, refs, gens, lambda v, *_: [groups[v]] if v in groups else [])
    found = {k: pooled(s.per_video.values(), result.params) for k, s in parts.items()}
    expected = by_group(result, groups)
    assert found.keys() == expected.keys()
    for group, scores in found.items():
        assert scores == pytest.approx(expected[group], abs=1e-9)


def slow(result, refs, gens, group):
    """One group's scores, utterance by utterance."""
    n_ref = n_gen = 0
    pairs, overlaps = [], []
    for video_id in result.per_video:
        mine = [p for p in result.pairs if p.video_id == video_id]
        said = gens.get(video_id, [])
        spans = [(g.start, g.end, g.text) for g in said]
        for u in refs.get(video_id, []):
            n_ref += group in by_time(video_id, u.start, u.end)
        for j, g in enumerate(said):
            partner = next((p for p in mine if p.gen_idx == j), None)
            start, end = (partner.ref_start, partner.ref_end) if partner else (g.start, g.end)
            if group in by_time(video_id, start, end):
                n_gen += 1
                pairs += [partner] if partner else []
                overlaps.append(overlap_score(spans, j, range(len(spans)), 1.0))
    f1 = 200 * len(pairs) / (n_ref + n_gen) if pairs else 0.0

    def mean(values):
        return f1 * math.fsum(values) / len(values) if values else 0.0

    s_a, s_start = mean([p.semantic for p in pairs]), mean([p.start for p in pairs])
    s_t = 0.4 * s_start + 0.4 * mean([p.end for p in pairs]) + 0.2 * mean(overlaps)
    return {"f1": f1, "s_a": s_a, "s_start": s_start, "s_t": s_t, "trace": (s_a + s_t) / 2}


@settings(max_examples=80, deadline=None)
@given(sets())
def test_groups_that_cut_through_videos_are_those_of_the_slow_peer(both):
    refs, gens = both
    result = scored(refs, gens)
    parts = split(result, refs, gens, by_time)
    for group in ("early", "middle", "late"):
        sums = parts[group].per_video.values() if group in parts else ()
        found = pooled(sums, result.params)
        expected = slow(result, refs, gens, group)
        assert {n: found[n] for n in expected} == pytest.approx(expected, abs=1e-9)
        assert all(0 <= found[n] <= 100 + 1e-9 for n in SCORES)  # a NaN fails this as well


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=8))
def test_a_reference_against_itself_is_100_in_every_group_and_silence_0(gaps):
    now, refs = 0.0, []
    for pause, length in gaps:
        refs.append(Utterance("assistant", f"said at {now}", now + pause, now + pause + length))
        now = refs[-1].end
    same = {"v": [Generated("v", u.start, u.end, u.text) for u in refs]}
    for said, value in ((same, 100.0), ({}, 0.0)):
        result = scored({"v": refs}, said)
        for sums in split(result, {"v": refs}, said, by_time).values():
            assert set(pooled(sums.per_video.values(), result.params).values()) == {value}


def test_a_match_goes_with_its_reference_and_an_extra_by_its_own_times():
    refs = {"v": [Utterance("assistant", "red", 19.0, 19.5)]}
    gens = {"v": [Generated("v", 31.0, 31.5, "extra"), Generated("v", 20.5, 21.0, "red")]}
    groups = {"first": (0, 20), "second": (20, 40)}
    parts = split(
        scored(refs, gens), refs, gens,
        lambda _, start, end: [n for n, (a, b) in groups.items() if a <= start and end <= b],
    )  # fmt: skip
    first, second = parts["first"].per_video["v"], parts["second"].per_video["v"]
    assert (first.n_ref, first.n_gen, first.n_match) == (1, 1, 1)
    assert (second.n_ref, second.n_gen, second.n_match) == (0, 1, 0)


def test_sums_of_one_video_are_added_up():
    refs = {f"v#{k}": [Utterance("assistant", "red", 10.0 * k, 10.0 * k + 1)] for k in range(3)}
    parts = split(scored(refs, {}), refs, {}, lambda *_: ["g"], lambda v: v.split("#")[0])
    assert {v: s.n_ref for v, s in parts["g"].per_video.items()} == {"v": 3}
