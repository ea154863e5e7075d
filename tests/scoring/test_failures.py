"""Failure kinds: the paper's examples, the stated rules, and what must always hold."""

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.hash_embedder import hash_embed
from vlm_tsi.scoring.failures import KINDS, FailureRules, find_failures
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.trace_score import score
from vlm_tsi.timeline import Generated, Utterance

Spans = list[tuple[float, float, str]]
REF = (20.0, 22.0, "red")


def found(ref: Spans, gen: Spans, rules: FailureRules | None = None, **params):
    references = {"a": [Utterance("assistant", t, s, e) for s, e, t in ref]}
    generated = {"a": [Generated("a", s, e, t) for s, e, t in gen]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = score(references, generated, hash_embed, TraceParams(**params))
    return find_failures(result, references, generated, rules)


def kinds_of(start: float, end: float, rules: FailureRules | None = None) -> tuple[str, ...]:
    """The kinds of one pair that starts and ends so many seconds late."""
    return found([REF], [(20 + start, 22 + end, "red")], rules).pairs[0]


def off(printed: float) -> float:
    """The seconds behind a printed start, end or overlap score (0.000: below a half of the last digit)."""
    return -math.log(max(printed, 0.0005))


@pytest.mark.parametrize(
    "start, end, overlap, sign, kind",
    [
        (0.007, 0.000, 0.041, 1, "delayed_start"),
        (0.993, 0.049, 1.0, -1, "premature_cutoff"),
        (0.009, 0.000, 0.000, 1, "overlap"),
        (0.077, 0.079, 1.0, 1, "delayed_start"),
        (0.983, 0.056, 1.0, 1, "over_extended"),
        (0.981, 0.008, 1.0, -1, "premature_cutoff"),
        (0.058, 0.000, 0.000, 1, "delayed_start"),
        (0.050, 0.000, 0.006, 1, "overlap"),
        (0.018, 0.004, 0.005, 1, "delayed_start"),
        (0.013, 0.005, 0.045, 1, "delayed_start"),
        (0.007, 0.000, 1.0, 1, "delayed_start"),
    ],
)
def test_appendix_e_names_its_own_examples(start, end, overlap, sign, kind):
    """The printed scores give the seconds; the text says which way."""
    said = (20 + off(start), max(22 + sign * off(end), 20 + off(start)), "red")
    shared = off(overlap) if overlap < 1 else 0.0
    beside = [(said[1] - shared, said[1] + 90, "elsewhere")] if shared else []
    result = found([(20.0, max(22.0, said[1] - sign * off(end)), "red")], [said, *beside])
    assert kind in result.pairs[0]
    assert ("overlap" in result.pairs[0]) == (overlap < 1)


@pytest.mark.parametrize(
    "start, end",
    [
        (0.990, 0.914),
        (0.780, 0.718),
        (0.619, 0.407),
        (0.883, 0.722),
        (0.552, 0.824),
        (0.711, 0.974),
    ],
)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_appendix_e_successes_have_no_failure(start, end, signs):
    assert kinds_of(signs[0] * off(start), signs[1] * off(end)) == ()


@pytest.mark.parametrize(
    "start, end, kinds",
    [
        (1.5, 1.5, ()),
        (1.6, 1.6, ("delayed_start",)),
        (1.6, 9.0, ("delayed_start",)),
        (0.0, 2.0, ()),
        (0.0, 2.1, ("over_extended",)),
        (-1.5, 2.1, ("over_extended",)),
        (-1.6, 2.1, ()),
        (1.5, -0.4, ()),
        (-1.0, -2.1, ("premature_cutoff",)),
    ],
)  # fmt: skip
def test_rules_as_stated(start, end, kinds):
    assert kinds_of(start, end) == kinds


def test_thresholds_are_parameters():
    assert kinds_of(1.0, 1.0, FailureRules(delayed_start=0.5)) == ("delayed_start",)
    assert kinds_of(0.0, 1.0, FailureRules(over_extended=0.9)) == ("over_extended",)
    assert kinds_of(0.0, -1.0, FailureRules(premature_cutoff=0.9)) == ("premature_cutoff",)
    touching = [REF, (21.9, 23.0, "blue")]
    assert found([REF], touching, FailureRules(overlap=0.0)).counts["overlap"] == 2
    assert found([REF], touching).counts["overlap"] == 0


@pytest.mark.parametrize("name", ["delayed_start", "premature_cutoff", "over_extended", "overlap"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_rules_check_themselves(name, value):
    with pytest.raises(ValueError, match=f"^{name} is .*; use seconds from 0 on"):
        FailureRules(**{name: value})


def test_overlap_is_of_matched_and_extra_alike():
    result = found([REF], [REF, (21.0, 40.0, "blue")])
    assert result.pairs == (("overlap",),)
    assert result.unmatched[0].failures == ("overlap", "extra")
    assert (result.counts["overlap"], result.counts["extra"]) == (2, 1)


def test_what_starts_beyond_the_window_is_missed_and_extra():
    result = found([REF], [(26.0, 27.0, "red")])
    assert [(u.side, u.idx, u.failures) for u in result.unmatched] == [
        ("reference", 0, ("missed",)),
        ("generated", 0, ("extra",)),
    ]
    assert found([REF], [(26.0, 27.0, "red")], tau_win=7.0).pairs == (("delayed_start",),)


def test_early_starts_are_counted_beside():
    result = found([REF], [(18.0, 20.0, "red")])
    assert result.early_starts == 1 and result.pairs == ((),) and sum(result.counts.values()) == 0


def test_an_ignored_video_has_no_failures():
    generated = {"x": [Generated("x", 0, 1, "red")]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for choice, n in (("count", 1), ("ignore", 0)):
            result = score({}, generated, hash_embed, TraceParams(unknown_videos=choice))
            assert find_failures(result, {}, generated).counts["extra"] == n


SPANS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.sampled_from(["red", "blue on", "off"])),
    max_size=7,
).map(lambda xs: [(s / 2, (s + d) / 2, t) for s, d, t in xs])
APART = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0, 4), st.sampled_from(["red", "blue on", "off"])),
    max_size=8,
).map(lambda xs: _in_a_row(xs))


def _in_a_row(steps: Spans) -> Spans:
    """Spans that follow each other: (pause, length, text) each."""
    now, spans = 0.0, []
    for pause, length, text in steps:
        spans.append((now + pause, now + pause + length, text))
        now += pause + length
    return spans


@settings(max_examples=60, deadline=None)
@given(APART)
def test_references_have_no_failure_against_themselves(spans):
    result = found(spans, spans)
    assert set(result.counts.values()) == {0} and result.early_starts == 0
    assert result.unmatched == () and set(result.pairs) <= {()}


@settings(max_examples=40, deadline=None)
@given(SPANS)
def test_silence_misses_everything(spans):
    result = found(spans, [])
    assert result.counts == {**dict.fromkeys(KINDS, 0), "missed": len(spans)}
    assert [u.text for u in result.unmatched] == [t for *_, t in spans]
    assert found([], spans).counts["extra"] == len(spans)


@settings(max_examples=60, deadline=None)
@given(SPANS, SPANS, st.randoms(use_true_random=False))
def test_everything_has_one_place_whatever_the_order(ref, gen, random):
    result = found(ref, gen)
    assert len(result.pairs) + result.counts["missed"] == len(ref)
    assert len(result.pairs) + result.counts["extra"] == len(gen)
    assert list(result.counts) == list(KINDS)
    for kinds in result.pairs:
        assert not {"missed", "extra"} & set(kinds)
        assert len({"delayed_start", "premature_cutoff", "over_extended"} & set(kinds)) <= 1
    again = found(random.sample(ref, len(ref)), random.sample(gen, len(gen)))
    for kind in ("overlap", "missed", "extra"):
        assert again.counts[kind] == result.counts[kind]


@settings(max_examples=40, deadline=None)
@given(SPANS, SPANS, st.floats(0, 4), st.floats(0, 4))
def test_a_wider_threshold_never_adds_a_failure(ref, gen, one, other):
    low, high = sorted((one, other))
    for name in ("premature_cutoff", "over_extended", "overlap"):
        strict, lax = (found(ref, gen, FailureRules(**{name: x})) for x in (low, high))
        assert lax.counts[name] <= strict.counts[name]
