"""Scores of parts of a set, and how sure they are.

Input: `TraceResult`s. Output: percentages by group or by kind, and bootstrap intervals.
Invariant: micro scores of any set of videos come from their summed counts and sums, never
from averaged scores; intervals are the same for the same seed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from vlm_tsi.errors import UserError
from vlm_tsi.scoring.trace_score import (
    SCORES,
    TOLERANCE,
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


class HasSums(Protocol):
    """What a comparison needs of a result; a `TraceResult` has it, and so have stored sums."""

    @property
    def params(self) -> TraceParams:
        """What it was scored with."""

    @property
    def per_video(self) -> Mapping[str, VideoSums]:
        """Each video's sums."""


@dataclass(frozen=True)
class StoredSums:
    """The sums of an earlier scoring, without its texts."""

    params: TraceParams
    per_video: Mapping[str, VideoSums]


@dataclass(frozen=True, slots=True)
class Wins:
    """In how many videos the first scores higher, the second does, or neither (1e-9)."""

    first: int
    second: int
    ties: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results over the videos that both have; differences are the first less the second."""

    first: Mapping[str, float]
    second: Mapping[str, float]
    differences: Mapping[str, Interval]
    wins: Mapping[str, Wins]
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
    result: HasSums, *, pool: Pool = "micro", resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """95% bootstrap intervals of one system's percentages, resampling whole videos.

    The order of the videos does not matter. No video at all gives 0 with an interval of no width.
    """
    sums = sums_array(result.per_video[v] for v in sorted(result.per_video))
    value, samples = _bootstrap(sums, result.params, pool, resamples, seed)
    return {name: _interval(value[name], samples[name]) for name in SCORES}


def compare(
    first: HasSums,
    second: HasSums,
    *,
    pool: Pool = "micro",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Paired bootstrap of two systems: both are resampled by the same videos.

    Nothing is aligned again, and the order of the videos does not matter.

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
    shared = sorted(first.per_video.keys() & second.per_video.keys())
    if not shared:
        raise UserError("comparison", "the two share no video", "score both on the same videos")
    sides = [sums_array(r.per_video[v] for v in shared) for r in (first, second)]
    params = first.params
    (value_a, samples_a), (value_b, samples_b) = (
        _bootstrap(sums, params, pool, resamples, seed) for sums in sides
    )
    each_a, each_b = (scores_from_sums(sums, params) for sums in sides)
    return Comparison(
        {name: float(value_a[name]) for name in SCORES},
        {name: float(value_b[name]) for name in SCORES},
        {n: _interval(value_a[n] - value_b[n], samples_a[n] - samples_b[n]) for n in SCORES},
        {name: _wins(each_a[name] - each_b[name]) for name in SCORES},
        len(shared),
        tuple(v for v in first.per_video if v not in second.per_video),
        tuple(v for v in second.per_video if v not in first.per_video),
    )


def _wins(differences: np.ndarray) -> Wins:
    first, second = int((differences > TOLERANCE).sum()), int((differences < -TOLERANCE).sum())
    return Wins(first, second, len(differences) - first - second)


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
