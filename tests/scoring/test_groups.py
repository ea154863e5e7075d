"""Pooling, intervals and kinds."""

import warnings

import numpy as np
import pytest

from tests.reference.hash_embedder import hash_embed
from vlm_tsi.errors import UserError
from vlm_tsi.scoring import groups
from vlm_tsi.scoring.groups import StoredSums, by_group, by_kind, compare, intervals, pooled
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.trace_score import SCORES, TraceResult, score, scores_from_sums
from vlm_tsi.scoring.whole_videos import whole_video
from vlm_tsi.timeline import Generated, Utterance

KINDS = ["none", "bent", "broken_off"]
REFS = {
    f"v{k}": [
        Utterance("assistant", f"red lamp {i}", 6.0 * i, 6.0 * i + 2, meta={"kind": KINDS[i % 3]})
        for i in range(4)
    ]
    for k in range(20)
}


def system(delay: float, seed: int = 0, drop: float = 0.2) -> dict[str, list[Generated]]:
    rng = np.random.default_rng(seed)
    said: dict[str, list[Generated]] = {v: [] for v in REFS}
    for video, refs in REFS.items():
        for u in refs:
            if rng.random() > drop:
                start = u.start + delay * rng.random()
                said[video].append(Generated(video, start, start + 2.5, "red lamp"))
    return said


def scored(generated) -> TraceResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return score(REFS, generated, hash_embed)


GOOD, LATE = scored(system(0.5)), scored(system(3.0))


def test_pooling_all_videos_is_micro():
    assert pooled(GOOD.per_video.values(), GOOD.params) == pytest.approx(dict(GOOD.micro))
    assert set(pooled([], TraceParams()).values()) == {0.0}


def test_groups_pool_their_own_videos():
    groups = {f"v{k}": "even" if k % 2 == 0 else "odd" for k in range(19)} | {"elsewhere": "x"}
    scores = by_group(GOOD, groups)
    assert list(scores) == ["even", "odd"]
    even = {v: REFS[v] for v in REFS if groups.get(v) == "even"}
    alone = score(even, {v: system(0.5)[v] for v in even}, hash_embed)
    assert scores["even"] == pytest.approx(dict(alone.micro))


def test_intervals_hold_the_value_and_repeat():
    first = intervals(GOOD)
    assert first == intervals(GOOD) and first != intervals(GOOD, seed=1)
    for pool, scores in (("micro", GOOD.micro), ("macro", GOOD.macro)):
        found = intervals(GOOD, pool=pool)
        for name in SCORES:
            assert found[name].value == pytest.approx(scores[name])
            assert found[name].low - 1e-9 <= found[name].value <= found[name].high + 1e-9
    assert first["trace"].high - first["trace"].low > 0.1


@pytest.mark.parametrize("pool", ["micro", "macro"])
def test_the_size_of_the_blocks_changes_no_draw(pool, monkeypatch):
    whole = intervals(GOOD, pool=pool, resamples=37)
    monkeypatch.setattr(groups, "_AT_ONCE", 1)
    for name, found in intervals(GOOD, pool=pool, resamples=37).items():
        assert (found.low, found.high) == pytest.approx((whole[name].low, whole[name].high))


def test_parts_of_a_video_are_drawn_with_it():
    """Every score twice: with parts drawn one by one an interval would be narrower by 1.41."""
    twice = {f"{v}#{k}": s for v, s in GOOD.per_video.items() for k in range(2)}
    videos = {v: whole_video(v) for v in twice}
    for pool in ("micro", "macro"):
        alone = intervals(GOOD, pool=pool)
        together = intervals(StoredSums(GOOD.params, twice), pool=pool, videos=videos)
        for name in SCORES:
            assert together[name].value == pytest.approx(alone[name].value)
            assert together[name].low == pytest.approx(alone[name].low)
            assert together[name].high == pytest.approx(alone[name].high)


def test_bootstrap_agrees_with_a_plain_loop():
    sums = np.array(list(GOOD.per_video.values()))
    rng = np.random.default_rng(9)
    values = []
    for _ in range(2000):
        drawn = sums[rng.integers(0, len(sums), len(sums))].sum(axis=0)
        values.append(float(scores_from_sums(drawn, GOOD.params)["trace"]))
    low, high = np.percentile(values, [2.5, 97.5])
    found = intervals(GOOD)["trace"]
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.35)


def test_comparison_is_paired():
    result = compare(GOOD, LATE)
    trace = result.differences["trace"]
    assert trace.value == pytest.approx(GOOD.micro["trace"] - LATE.micro["trace"])
    assert trace.low > 0 and trace.excludes_zero and result.n_videos == 20
    same = compare(GOOD, GOOD).differences["trace"]
    assert (same.value, same.low, same.high) == (0, 0, 0) and not same.excludes_zero
    macro = compare(GOOD, LATE, pool="macro").differences["trace"]
    assert macro.value == pytest.approx(GOOD.macro["trace"] - LATE.macro["trace"])


def test_comparison_uses_shared_videos_only():
    more = scored({**system(0.5), "x": [Generated("x", 0, 1, "red")]})
    result = compare(more, GOOD)
    assert result.only_first == ("x",) and result.only_second == ()
    assert result.differences["trace"].value == pytest.approx(0)
    with pytest.raises(UserError, match="share no video; score both"):
        compare(GOOD, score({}, {}, hash_embed))
    with pytest.raises(ValueError, match="different parameters"):
        compare(GOOD, score(REFS, {}, hash_embed, TraceParams(alpha=0.1)))


def test_no_video_gives_zero():
    assert intervals(score({}, {}, hash_embed))["trace"].high == 0


def test_kinds_add_up_to_the_whole():
    kinds = by_kind(GOOD, REFS)
    assert set(kinds) == set(KINDS)
    assert sum(k["n_ref"] for k in kinds.values()) == 80
    assert sum(k["n_match"] for k in kinds.values()) == len(GOOD.pairs)
    assert kinds["none"]["recall"] == 100 * kinds["none"]["n_match"] / kinds["none"]["n_ref"]
    mean = np.mean(
        [p.semantic for p in GOOD.pairs if REFS[p.video_id][p.ref_idx].meta["kind"] == "bent"]
    )
    bent = kinds["bent"]
    assert bent["s_a"] == pytest.approx(mean * bent["recall"])
    assert bent["s_t"] == pytest.approx(
        0.4 * bent["s_start"] + 0.4 * bent["s_end"] + 0.2 * bent["s_overlap"]
    )


def test_kinds_of_silence_and_of_no_kinds():
    silent = by_kind(scored({}), REFS)
    assert all(silent[k]["trace"] == 0 and silent[k]["recall"] == 0 for k in KINDS)
    assert by_kind(GOOD, REFS, key="other") == {}
