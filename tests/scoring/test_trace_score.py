"""The metric against the paper's numbers, a slow peer and its own promises."""

import math
import time
import warnings
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.hash_embedder import hash_embed, hash_similarity
from tests.reference.trace_reference import trace_reference
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.trace_score import SCORES, combine, group_by_video, references_of, score
from vlm_tsi.timeline import Generated, Timeline, Utterance

WORDS = ["red", "blue", "lamp", "left", "right", "on", "off"]
Spans = dict[str, list[tuple[float, float, str]]]


def refs_of(spans: Spans) -> dict[str, list[Utterance]]:
    return {v: [Utterance("assistant", t, s, e) for s, e, t in us] for v, us in spans.items()}


def gens_of(spans: Spans) -> dict[str, list[Generated]]:
    return {v: [Generated(v, s, e, t) for s, e, t in us] for v, us in spans.items()}


def run(refs: Spans, gens: Spans, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return score(refs_of(refs), gens_of(gens), hash_embed, TraceParams(**params))


def random_spans(rng: np.random.Generator, videos: list[str], most: int, length: float) -> Spans:
    spans: Spans = {}
    for video in videos:
        starts = np.sort(rng.uniform(0, length, rng.integers(0, most + 1)))
        texts = [" ".join(rng.choice(WORDS, rng.integers(1, 4))) for _ in starts]
        ends = starts + rng.uniform(0, 4, len(starts))
        spans[video] = list(zip(starts.tolist(), ends.tolist(), texts, strict=True))
    return spans


def random_params(rng: np.random.Generator) -> dict:
    start = float(rng.uniform(0, 1))
    return {
        "tau_time": float(rng.uniform(0.5, 6)),
        "tau_win": float(rng.uniform(0.5, 8)),
        "tau_pen": float(rng.uniform(0.3, 3)),
        "alpha": float(rng.uniform(0, 1)),
        "alpha_start": start,
        "alpha_end": (1 - start) * float(rng.uniform(0, 1)),
        "overlap": str(rng.choice(["all", "matched"])),
        "swap_rule": str(rng.choice(["four", "new_pairs"])),
        "unknown_videos": str(rng.choice(["count", "ignore"])),
        "max_passes": int(rng.choice([0, 1, 100])),
    }


def agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    params = random_params(rng)
    refs = random_spans(rng, ["a", "b", "c"], 5, 12)
    gens = random_spans(rng, ["a", "b", "new"], 5, 12)
    wanted = trace_reference(refs, gens, hash_similarity, **params)
    got = run(refs, gens, **params).micro
    assert got == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_the_slow_reference(seed):
    agrees(seed)


@settings(max_examples=60, deadline=None)
@given(st.integers(1000, 2**32 - 1))
def test_agrees_with_the_slow_reference_anywhere(seed):
    agrees(seed)


@pytest.mark.parametrize("rule", ["four", "new_pairs"])
def test_agrees_where_many_swap(rule):
    rng = np.random.default_rng(7)
    for _ in range(10):
        refs = random_spans(rng, ["a"], 6, 5)
        gens = random_spans(rng, ["a"], 6, 5)
        wanted = trace_reference(refs, gens, hash_similarity, swap_rule=rule)
        assert run(refs, gens, swap_rule=rule).micro == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    "s_a, s_start, s_end, s_overlap, s_t, trace",
    [
        (45.7, 29.1, 15.6, 72.8, 32.4, 39.1),
        (32.4, 24.4, 11.1, 37.9, 21.8, 27.1),
        (23.0, 11.9, 6.0, 36.7, 14.5, 18.8),
        (12.3, 5.9, 4.0, 14.4, 6.8, 9.6),
    ],
)
def test_table_2(s_a, s_start, s_end, s_overlap, s_t, trace):
    got_t, got_trace = combine(s_a, s_start, s_end, s_overlap, TraceParams())
    assert got_t == pytest.approx(s_t, abs=0.0501)
    assert got_trace == pytest.approx(trace, abs=0.0501)


def test_appendix_e_timing():
    """Printed start, end and overlap give the printed timing score (to the last digit)."""
    printed = [
        (0.007, 0, 0.041, 0.011), (0.993, 0.049, 1, 0.617), (0.009, 0, 0, 0.003),
        (0.990, 0.914, 1, 0.962), (0.077, 0.079, 1, 0.263), (0.983, 0.056, 1, 0.616),
        (0.981, 0.008, 1, 0.596), (0.780, 0.718, 1, 0.799), (0.058, 0, 0, 0.023),
        (0.619, 0.407, 1, 0.611), (0.050, 0, 0.006, 0.021), (0.883, 0.722, 1, 0.842),
        (0.018, 0.004, 0.005, 0.010), (0.013, 0.005, 0.045, 0.016), (0.699, 0.299, 1, 0.599),
        (0.552, 0.824, 1, 0.751), (0.007, 0, 1, 0.203), (0.956, 0.031, 1, 0.595),
        (0.711, 0.974, 1, 0.874), (0.847, 0.049, 1, 0.559),
    ]  # fmt: skip
    for start, end, overlap, timing in printed:
        assert combine(0, start, end, overlap, TraceParams())[0] == pytest.approx(timing, abs=1e-3)


@pytest.mark.parametrize(
    "moved, name, printed, digits",
    [((5, 0), "start", 0.007, 3), ((0, -3), "end", 0.049, 2)],
    ids=["begins 5 s late", "ends 3 s before the human"],
)
def test_appendix_e_seconds_give_the_printed_scores(moved, name, printed, digits):
    """The two examples whose text tells the seconds (whole ones, so the scores are near)."""
    said = [(20.0 + moved[0], 30.0 + moved[1], "red")]
    (pair,) = run({"a": [(20.0, 30.0, "red")]}, {"a": said}).pairs
    assert getattr(pair, name) == pytest.approx(printed, abs=10**-digits)


SPANS: Spans = {
    "a": [(0.0, 1.3, "red on"), (1.3, 2.0, "red on"), (7.1, 9.0, "blue off")],
    "b": [(4.2, 4.2, "left"), (4.2, 4.2, "right"), (4.2, 4.2, "left lamp")],
    "c": [],
}


@pytest.mark.parametrize("overlap", ["all", "matched"])
@pytest.mark.parametrize("swap_rule", ["four", "new_pairs"])
def test_itself_scores_exactly_100(overlap, swap_rule):
    result = run(SPANS, SPANS, overlap=overlap, swap_rule=swap_rule)
    assert dict(result.micro) == dict.fromkeys(SCORES, 100.0)
    assert dict(result.macro) == dict.fromkeys(SCORES, 100.0)


def test_itself_scores_exactly_100_on_odd_weights_and_sizes():
    rng = np.random.default_rng(3)
    for _ in range(30):
        spans = {}
        for video in "abc":
            cuts = np.sort(rng.uniform(0, 60, 2 * rng.integers(1, 9))).tolist()
            texts = [" ".join(rng.choice(WORDS, 2)) for _ in cuts[::2]]
            spans[video] = list(zip(cuts[::2], cuts[1::2], texts, strict=True))
        params = random_params(rng)
        params["swap_rule"] = "four"
        assert dict(run(spans, spans, **params).micro) == dict.fromkeys(SCORES, 100.0)


@pytest.mark.parametrize("generated", [{}, {"a": [], "b": []}])
def test_silence_scores_exactly_0(generated):
    result = run(SPANS, generated)
    assert dict(result.micro) == dict.fromkeys(SCORES, 0.0)
    assert dict(result.macro) == dict.fromkeys(SCORES, 0.0)
    assert "c" not in result.per_video, "nothing to count there"


def test_no_match_scores_0_without_nan():
    result = run({"a": [(0.0, 1.0, "red")]}, {"a": [(50.0, 51.0, "red")]}, overlap="matched")
    assert dict(result.micro) == dict.fromkeys(SCORES, 0.0)


def test_nothing_at_all():
    assert dict(run({}, {}).micro) == dict.fromkeys(SCORES, 0.0)
    assert dict(run({"a": []}, {"a": []}).macro) == dict.fromkeys(SCORES, 0.0)


def test_unknown_videos_count_and_are_named():
    one = {"a": [(0.0, 1.0, "red")]}
    said = {**one, "x": [(0.0, 1.0, "red"), (2.0, 3.0, "red")]}
    with pytest.warns(UserWarning, match="no references for 1 generated video.*x.*precision"):
        result = score(refs_of(one), gens_of(said), hash_embed)
    assert result.micro["precision"] == pytest.approx(100 / 3)
    assert result.micro["recall"] == 100
    assert result.unknown_videos == ("x",) and len(result.warnings) == 1
    assert run(one, said, unknown_videos="ignore").micro["precision"] == 100


def test_a_known_video_without_references_still_counts_against_precision():
    result = run(
        {"a": [(0.0, 1.0, "red")], "b": []}, {"a": [(0.0, 1.0, "red")], "b": [(0.0, 1.0, "x")]}
    )
    assert result.micro["precision"] == 50 and not result.unknown_videos


def test_overlap_over_all_or_matched():
    refs = {"a": [(0.0, 1.0, "red")]}
    gens = {"a": [(0.0, 1.0, "red"), (0.5, 2.0, "blue")]}
    f1 = 2 / 3
    assert run(refs, gens).micro["s_overlap"] == pytest.approx(100 * f1 * math.exp(-0.5))
    assert run(refs, gens, overlap="matched").micro["s_overlap"] == pytest.approx(100 * f1)


def test_swap_rules_differ():
    """The new pairs would be 4 s apart, but the four starts span 6 s."""
    refs = {"a": [(0.0, 0.5, "red"), (6.0, 6.5, "blue")]}
    gens = {"a": [(2.0, 2.5, "blue"), (4.0, 4.5, "red")]}
    assert [p.gen_text for p in run(refs, gens).pairs] == ["blue", "red"]
    near = run(refs, gens, swap_rule="new_pairs")
    assert [p.gen_text for p in near.pairs] == ["red", "blue"]


def test_swaps_bring_texts_together():
    refs = {"a": [(1.0, 1.5, "red lamp"), (2.0, 2.5, "blue off")]}
    gens = {"a": [(1.1, 1.5, "blue off"), (2.1, 2.5, "red lamp")]}
    assert run(refs, gens).micro["s_a"] == 100
    assert run(refs, gens, max_passes=0).micro["s_a"] < 100


def test_a_pair_exactly_tau_win_apart_is_kept():
    refs = {"a": [(10.1, 11.0, "red")]}
    assert len(run(refs, {"a": [(15.1, 16.0, "red")]}).pairs) == 1
    assert len(run(refs, {"a": [(15.2, 16.0, "red")]}).pairs) == 0


def test_far_utterances_do_not_disturb():
    refs = {"a": [(0.0, 1.0, "red"), (9000.0, 9001.0, "blue"), (90000.0, 90001.0, "on")]}
    gens = {"a": [(0.2, 1.0, "red"), (9000.1, 9001.0, "blue"), (500000.0, 500001.0, "off")]}
    pairs = run(refs, gens).pairs
    assert [(p.ref_idx, p.gen_idx) for p in pairs] == [(0, 0), (1, 1)]


def test_ties_go_to_the_nearer_end():
    refs = {"a": [(1.0, 2.0, "red"), (1.0, 5.0, "red")]}
    gens = {"a": [(1.0, 5.0, "red"), (1.0, 2.0, "red")]}
    assert {(p.ref_idx, p.gen_idx) for p in run(refs, gens).pairs} == {(0, 1), (1, 0)}
    assert run(refs, gens).micro["s_end"] == 100
    (pair,) = run({"a": [(1.0, 5.0, "red")]}, gens).pairs
    assert pair.gen_end == 5.0
    (pair,) = run({"a": [(1.0, 2.0, "red")]}, {"a": [(1.0, 2.0, "on"), (1.0, 2.0, "red")]}).pairs
    assert pair.gen_text == "red"


def test_small_gains_count():
    """Two texts four degrees apart, said in the wrong order: 0.0024 is gained."""
    angles = {"red": 0.0, "blue": math.radians(4)}

    def embed(texts):
        return np.array([(math.cos(angles[t]), math.sin(angles[t])) for t in texts])

    refs = {"a": [(1.0, 1.5, "red"), (2.0, 2.5, "blue")]}
    gens = {"a": [(1.0, 1.5, "blue"), (2.0, 2.5, "red")]}
    assert score(refs_of(refs), gens_of(gens), embed).micro["s_a"] == 100


GRID = st.lists(
    st.tuples(st.integers(0, 16), st.integers(0, 8), st.sampled_from(WORDS)).map(
        lambda x: (x[0] / 2, (x[0] + x[1]) / 2, x[2])
    ),
    max_size=7,
)


@settings(max_examples=80, deadline=None)
@given(GRID, GRID, st.randoms(use_true_random=False))
def test_promises_hold_on_ties(ref, gen, random):
    result = run({"a": ref}, {"a": gen})
    assert all(0 <= x <= 100 and math.isfinite(x) for x in result.micro.values())
    shuffled_ref, shuffled_gen = random.sample(ref, len(ref)), random.sample(gen, len(gen))
    again = run({"a": shuffled_ref}, {"a": shuffled_gen})
    assert again.micro == pytest.approx(result.micro, abs=1e-9)
    assert len({p.ref_idx for p in result.pairs}) == len(result.pairs)
    assert len({p.gen_idx for p in result.pairs}) == len(result.pairs)
    for pair in result.pairs:
        assert (pair.ref_start, pair.ref_end, pair.ref_text) == ref[pair.ref_idx]
        assert (pair.gen_start, pair.gen_end, pair.gen_text) == gen[pair.gen_idx]
        assert abs(pair.ref_start - pair.gen_start) <= 5
    itself = run({"a": ref}, {"a": ref})
    if ref:
        for name in ("s_a", "s_start", "s_end", "f1", "precision", "recall"):
            assert itself.micro[name] == 100, "overlaps cost only S_overlap"


def test_sums_and_pairs_add_up():
    rng = np.random.default_rng(5)
    result = run(random_spans(rng, list("abcd"), 6, 20), random_spans(rng, list("abcx"), 6, 20))
    for name in ("semantic", "start", "end"):
        total = sum(getattr(s, name) for s in result.per_video.values())
        assert total == pytest.approx(sum(getattr(p, name) for p in result.pairs))
    scores = result.video_scores()
    assert scores.keys() == result.per_video.keys()
    mean = np.mean([s["trace"] for s in scores.values()])
    assert result.macro["trace"] == pytest.approx(mean)


def test_embedder_sees_each_text_once():
    seen: list[list[str]] = []

    def spy(texts):
        seen.append(texts)
        return hash_embed(texts)

    score(refs_of(SPANS), gens_of(SPANS), spy)
    assert len(seen) == 1 and sorted(seen[0]) == sorted({t for s in SPANS.values() for *_, t in s})


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((1, 3)), np.full((5, 3), np.nan)])
def test_bad_embedder_is_named(bad):
    with pytest.raises(ValueError, match="embed gave"):
        score(refs_of(SPANS), gens_of(SPANS), lambda texts: bad)


def test_vectors_need_no_length_one():
    scaled = score(refs_of(SPANS), gens_of(SPANS), lambda t: 1000 * hash_embed(t))
    assert scaled.micro["trace"] == 100
    zeros = score(
        refs_of({"a": [(0.0, 1.0, "x")]}),
        gens_of({"a": [(0.0, 1.0, "y")]}),
        lambda t: np.zeros((len(t), 4)),
    )
    assert zeros.micro["s_a"] == 50
    itself = score(refs_of(SPANS), gens_of(SPANS), lambda t: np.zeros((len(t), 4)))
    assert itself.micro["s_a"] == 100


@pytest.mark.parametrize(
    "name, value",
    [
        ("tau_time", 0), ("tau_win", -1), ("tau_pen", math.inf), ("tau_pen", math.nan),
        ("alpha", 1.1), ("alpha_start", -0.1), ("alpha_end", 0.7), ("alpha", math.nan),
        ("max_passes", -1), ("overlap", "some"), ("swap_rule", ""), ("unknown_videos", "x"),
    ],
)  # fmt: skip
def test_params_check_themselves(name, value):
    with pytest.raises(ValueError, match=f"^{name} is .*; use"):
        TraceParams(**{name: value})


def test_params_are_the_papers():
    defaults = {f.name: f.default for f in fields(TraceParams)}
    paper = {"tau_time": 3.0, "tau_win": 5.0, "tau_pen": 1.0, "alpha": 0.5}
    paper |= {"alpha_start": 0.4, "alpha_end": 0.4, "overlap": "all", "swap_rule": "four"}
    assert paper.items() <= defaults.items()


def test_references_are_the_assistants_eval_utterances():
    said = [Utterance("assistant", "a", 0, 1), Utterance("user", "b", 1, 2, eval=True)]
    said += [Utterance("assistant", "c", 2, 3, eval=True)]
    timeline = Timeline("v", "", 9, tuple(said))
    assert [u.text for u in references_of([timeline])["v"]] == ["c"]
    assert [u.text for u in references_of([timeline], all_assistant=True)["v"]] == ["a", "c"]


def test_group_by_video():
    said = [Generated("a", 1, 2, "x"), Generated("b", 0, 1, "y"), Generated("a", 0, 1, "z")]
    assert {v: [g.text for g in gs] for v, gs in group_by_video(said).items()} == {
        "a": ["x", "z"],
        "b": ["y"],
    }


def test_a_whole_match_is_quick():
    rng = np.random.default_rng(0)
    refs = {
        "m": [
            (s, s + 2.0, " ".join(rng.choice(WORDS, 3)))
            for s in np.sort(rng.uniform(0, 2700, 800)).tolist()
        ]
    }
    gens = {
        "m": [
            (s, s + 2.0, " ".join(rng.choice(WORDS, 3)))
            for s in np.sort(rng.uniform(0, 2700, 800)).tolist()
        ]
    }
    begun = time.process_time()
    run(refs, gens)
    assert time.process_time() - begun < 10
