"""Which way a score must move, and where the paper's alignment lets it move the other way."""

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.scoring.test_trace_score import WORDS, run
from vlm_tsi.scoring.trace_score import SCORES

FAR = 70.0
"""Seconds beyond which Equation 6 weighs a pair with less than the tie-break (3 s x 23)."""
MOMENT = st.integers(0, 120).map(lambda n: n / 4)
SPAN = st.tuples(MOMENT, st.integers(0, 12), st.sampled_from(WORDS)).map(
    lambda x: (x[0], x[0] + x[1] / 4, x[2])
)
SPANS = st.lists(SPAN, max_size=8)


@settings(max_examples=100, deadline=None)
@given(SPANS, SPANS, st.integers(0, 40), st.sampled_from(WORDS))
def test_a_false_utterance_never_raises_f1_nor_precision(refs, gens, later, text):
    before = run({"a": refs}, {"a": gens}).micro
    start = 30.0 + FAR + later
    false = (start, start + 1, text)
    for said in ({"a": [*gens, false]}, {"a": gens, "unknown": [false]}):
        after = run({"a": refs}, said).micro
        assert after["f1"] <= before["f1"] + 1e-9
        assert after["precision"] <= before["precision"] + 1e-9
        assert after["recall"] == pytest.approx(before["recall"])


def test_a_near_miss_may_raise_f1_by_the_papers_own_alignment():
    """Equation 6 knows no window: what is 5.1 s off may take a reference and free a better one."""
    refs = {"a": [(5.1, 6.0, "red"), (15.1, 16.0, "red"), (16.7, 17.0, "red")]}
    gens = [(10.2, 11.0, "red"), (15.8, 16.5, "red")]
    before = run(refs, {"a": gens})
    after = run(refs, {"a": [(0.0, 1.0, "off"), *gens]})
    assert (len(before.pairs), len(after.pairs)) == (1, 2)
    assert after.micro["f1"] > before.micro["f1"]


@settings(max_examples=100, deadline=None)
@given(SPANS, SPANS, st.data())
def test_a_missing_match_never_raises_recall(refs, gens, data):
    before = run({"a": refs}, {"a": gens})
    assume(before.pairs)
    lost = data.draw(st.sampled_from(before.pairs)).gen_idx
    alone = run({"a": refs}, {"a": [*gens[:lost], *gens[lost + 1 :]]})
    assume(len(alone.pairs) < len(before.pairs))  # else its reference found another
    assert alone.micro["recall"] < before.micro["recall"]


OFFSETS = st.integers(0, 24).map(lambda n: n / 4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(OFFSETS, OFFSETS, st.booleans()), min_size=1, max_size=6))
def test_shifting_a_match_away_never_raises_its_scores_of_time(moves):
    """References minutes apart, so that nothing else is there to be matched with."""
    refs, near, away = [], [], []
    for k, (offset, more, early) in enumerate(moves):
        start, sign = 200.0 * (k + 1), -1 if early else 1
        refs.append((start, start + 1, "red"))
        near.append((start + sign * offset, start + 1 + sign * offset, "red"))
        away.append((start + sign * (offset + more), start + 1 + sign * (offset + more), "red"))
    before, after = (run({"a": refs}, {"a": said}).micro for said in (near, away))
    for name in ("s_start", "s_end", "s_t", "f1", "trace"):
        assert after[name] <= before[name] + 1e-9


@settings(max_examples=100, deadline=None)
@given(st.lists(SPAN, min_size=1, max_size=8), st.integers(1, 8), st.randoms(use_true_random=False))
def test_while_the_same_are_matched_a_later_start_never_raises_s_start(refs, quarters, random):
    """All are half a second late, then one of them later still."""
    gens = [(start + 0.5, end + 0.5, text) for start, end, text in refs]
    k, more = random.randrange(len(gens)), quarters / 4
    start, end, text = gens[k]
    moved = [*gens[:k], (start + more, end + more, text), *gens[k + 1 :]]
    before, after = run({"a": refs}, {"a": gens}), run({"a": refs}, {"a": moved})
    late = all(p.gen_start >= p.ref_start for p in after.pairs if p.gen_idx == k)
    if late and {p[1:3] for p in after.pairs} == {p[1:3] for p in before.pairs}:
        event("the same are matched")
        assert after.micro["s_start"] <= before.micro["s_start"] + 1e-9


@settings(max_examples=60, deadline=None)
@given(SPANS, SPANS, st.data())
def test_every_score_is_a_percentage_whatever_the_parameters(refs, gens, data):
    start = data.draw(st.floats(0, 1))
    params = {
        name: data.draw(st.floats(1e-3, 1e3)) for name in ("tau_time", "tau_win", "tau_pen")
    } | {"alpha": data.draw(st.floats(0, 1)), "alpha_start": start, "alpha_end": 1 - start}
    result = run({"a": refs, "b": gens}, {"a": gens, "c": refs}, **params)
    for found in (result.micro, result.macro):
        assert set(found) == set(SCORES)
        assert all(0 <= value <= 100 + 1e-9 for value in found.values())
