"""Scores of parts of a set, and how sure they are.

Input: `TraceResult`s. Output: percentages by group or by kind, and bootstrap intervals.
Invariant: micro scores of any set of videos come from their summed counts and sums, never
from averaged scores; intervals are the same for the same seed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vlm_tsi.errors import UserError
from vlm_tsi.scoring.trace_score import (
    SCORES,
    Pair,
    TraceParams,
    TraceResult,
    VideoSums,
    combine,
    scores_from_sums,
    sums_array,
)
from vlm_tsi.timeline import Utterance

Pool = Literal["micro", "macro"]
RESAMPLES = 2000
KIND_SCORES = ("trace", "s_a", "s_t", "s_start", "s_end", "s_overlap", "recall")


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentage (or a difference of two) and its 95% bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """True if zero lies outside the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences (first less second) over the videos that both results have."""

    differences: Mapping[str, Interval]
    n_videos: int
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def pooled(sums: Iterable[VideoSums], params: TraceParams) -> dict[str, float]:
    """Micro percentages of some videos; 0 for none at all."""
    total = sums_array(sums).sum(axis=0)
    return {name: float(x) for name, x in scores_from_sums(total, params).items()}


def by_group(result: TraceResult, groups: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Micro percentages for each group of videos (video_id -> group), as in Tables 3 and 4.

    Videos without a group are left out; a group without scored videos does not appear.
    """
    members: dict[str, list[VideoSums]] = {}
    for video_id, sums in result.per_video.items():
        if video_id in groups:
            members.setdefault(groups[video_id], []).append(sums)
    return {group: pooled(sums, result.params) for group, sums in sorted(members.items())}


def intervals(
    result: TraceResult, *, pool: Pool = "micro", resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """95% bootstrap intervals of one system's percentages, resampling whole videos.

    No video at all gives 0 with an interval of no width.
    """
    sums = sums_array(result.per_video.values())
    value, samples = _bootstrap(sums, result.params, pool, resamples, seed)
    return {name: _interval(value[name], samples[name]) for name in SCORES}


def compare(
    first: TraceResult,
    second: TraceResult,
    *,
    pool: Pool = "micro",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Paired bootstrap of two systems: both are resampled by the same videos.

    Args:
        first: the system that the differences favour where they are positive.
        second: the system compared with, scored with the same parameters.
        pool: `micro` pools a resample's videos, `macro` averages their scores.
        resamples: how many.
        seed: of the resampling.

    Raises:
        UserError: the two share no video.
        ValueError: they were scored with different parameters.
    """
    if first.params != second.params:
        raise ValueError(f"different parameters: {first.params} and {second.params}")
    shared = [v for v in first.per_video if v in second.per_video]
    if not shared:
        raise UserError("comparison", "the two share no video", "score both on the same videos")
    sides = [
        _bootstrap(
            sums_array(r.per_video[v] for v in shared), r.params, pool, resamples, seed
        )
        for r in (first, second)
    ]  # fmt: skip
    (value_a, samples_a), (value_b, samples_b) = sides
    differences = {
        name: _interval(value_a[name] - value_b[name], samples_a[name] - samples_b[name])
        for name in SCORES
    }
    only_first = tuple(v for v in first.per_video if v not in second.per_video)
    only_second = tuple(v for v in second.per_video if v not in first.per_video)
    return Comparison(differences, len(shared), only_first, only_second)


def _bootstrap(
    sums: np.ndarray, params: TraceParams, pool: Pool, resamples: int, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The value, and one value for each resample; videos [V] are drawn with replacement."""
    n_videos = len(sums)
    if not n_videos:
        return {n: np.zeros(()) for n in SCORES}, {n: np.zeros(resamples) for n in SCORES}
    draws = np.random.default_rng(seed).multinomial(n_videos, [1 / n_videos] * n_videos, resamples)
    if pool == "micro":
        return scores_from_sums(sums.sum(axis=0), params), scores_from_sums(draws @ sums, params)
    each = scores_from_sums(sums, params)
    means = {name: x.mean() for name, x in each.items()}
    return means, {name: draws @ x / n_videos for name, x in each.items()}


def _interval(value: np.ndarray, samples: np.ndarray) -> Interval:
    low, high = np.percentile(samples, [2.5, 97.5])
    return Interval(float(value), float(low), float(high))


def by_kind(
    result: TraceResult, references: Mapping[str, Sequence[Utterance]], key: str = "kind"
) -> dict[str, dict[str, float]]:
    """Percentages for each kind of reference utterance (`meta[key]`).

    A generated utterance that matches nothing has no kind, so precision cannot be split.
    Each score is therefore the mean over the kind's matched pairs times the kind's recall
    (where the whole set has F1); S_overlap here is over the matched pairs' own utterances.
    Divide by recall for the plain means. Counts `n_ref` and `n_match` stand beside them.
    References without the key do not appear; a kind that is never matched scores 0.
    """
    counts: Counter[str] = Counter()
    for video_id in result.per_video:
        counts.update(str(u.meta[key]) for u in references.get(video_id, ()) if key in u.meta)
    pairs: dict[str, list[Pair]] = {kind: [] for kind in sorted(counts)}
    for pair in result.pairs:
        meta = references[pair.video_id][pair.ref_idx].meta
        if key in meta:
            pairs[str(meta[key])].append(pair)
    return {k: _kind_scores(ps, counts[k], result.params) for k, ps in pairs.items()}


def _kind_scores(pairs: Sequence[Pair], n_ref: int, params: TraceParams) -> dict[str, float]:
    sums = [sum(getattr(p, n) for p in pairs) for n in ("semantic", "start", "end", "overlap")]
    s_a, s_start, s_end, s_overlap = (100 * x / n_ref for x in sums)
    s_t, trace = combine(s_a, s_start, s_end, s_overlap, params)
    values = (trace, s_a, s_t, s_start, s_end, s_overlap, 100 * len(pairs) / n_ref)
    scores = dict(zip(KIND_SCORES, values, strict=True))
    return {"n_ref": n_ref, "n_match": len(pairs), **scores}
