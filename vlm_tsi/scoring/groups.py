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
from vlm_tsi.scoring.params import TOLERANCE, TraceParams
from vlm_tsi.scoring.trace_score import (
    SCORES,
    Pair,
    TraceResult,
    VideoSums,
    combine,
    scores_from_sums,
    sums_array,
)
from vlm_tsi.timeline import Utterance

Pool = Literal["micro", "macro"]
RESAMPLES = 2000
_AT_ONCE = 4_000_000
"""Draw counts that are held at once (32 MB)."""
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
    result: HasSums,
    *,
    pool: Pool = "micro",
    resamples: int = RESAMPLES,
    seed: int = 0,
    videos: Mapping[str, str] | None = None,
) -> dict[str, Interval]:
    """95% bootstrap intervals of one system's percentages, resampling whole videos.

    The order of the videos does not matter. No video at all gives 0 with an interval of no width.

    Args:
        result: the system's sums, by video_id.
        pool: `micro` pools a resample's sums, `macro` averages the scores of its video_ids.
        resamples: how many.
        seed: of the resampling.
        videos: video_id -> the whole video it is from, which is drawn as one (default: itself).
    """
    ids = sorted(result.per_video)
    sums = sums_array(result.per_video[v] for v in ids)
    draw = _Draws(_owners(ids, videos), resamples, seed)
    value, samples = _bootstrap(sums, result.params, pool, draw)
    return {name: _interval(value[name], samples[name]) for name in SCORES}


def compare(
    first: HasSums,
    second: HasSums,
    *,
    pool: Pool = "micro",
    resamples: int = RESAMPLES,
    seed: int = 0,
    videos: Mapping[str, str] | None = None,
) -> Comparison:
    """Paired bootstrap of two systems: both are resampled by the same videos.

    Nothing is aligned again, and the order of the videos does not matter.

    Args:
        first: the system that the differences favour where they are positive.
        second: the system compared with, scored with the same parameters.
        pool: `micro` pools a resample's videos, `macro` averages their scores.
        resamples: how many.
        seed: of the resampling.
        videos: video_id -> the whole video it is from, which is drawn as one (default: itself).

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
    params, draw = first.params, _Draws(_owners(shared, videos), resamples, seed)
    (value_a, samples_a), (value_b, samples_b) = (
        _bootstrap(sums, params, pool, draw) for sums in sides
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


def _owners(ids: Sequence[str], videos: Mapping[str, str] | None) -> np.ndarray:
    """[I] which whole video each id is from, numbered 0..W-1 in order of name."""
    names = [v if videos is None else videos.get(v, v) for v in ids]
    number = {name: k for k, name in enumerate(sorted(set(names)))}
    return np.array([number[name] for name in names], dtype=int)


@dataclass(frozen=True, slots=True)
class _Draws:
    """Whole videos drawn with replacement; the same draws for the same owners and seed."""

    owners_I: np.ndarray
    resamples: int
    seed: int

    def sums(self, rows_IK: np.ndarray) -> np.ndarray:
        """[R, K]: the rows of each resample's videos, added up."""
        by_video = np.zeros((int(self.owners_I.max()) + 1, rows_IK.shape[1]))
        np.add.at(by_video, self.owners_I, rows_IK)
        n_videos, rng = len(by_video), np.random.default_rng(self.seed)
        block = max(1, _AT_ONCE // n_videos)  # resamples at once; their size changes no draw
        sizes = [min(block, self.resamples - i) for i in range(0, self.resamples, block)]
        even = [1 / n_videos] * n_videos
        return np.concatenate([rng.multinomial(n_videos, even, n) @ by_video for n in sizes])


def _bootstrap(
    sums_IK: np.ndarray, params: TraceParams, pool: Pool, draw: _Draws
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The value, and one value for each resample [R]."""
    if not len(sums_IK):
        return {n: np.zeros(()) for n in SCORES}, {n: np.zeros(draw.resamples) for n in SCORES}
    if pool == "micro":
        return (
            scores_from_sums(sums_IK.sum(axis=0), params),
            scores_from_sums(draw.sums(sums_IK), params),
        )
    each = scores_from_sums(sums_IK, params)
    means = {name: x.mean() for name, x in each.items()}
    columns_IK = np.stack([*each.values(), np.ones(len(sums_IK))], axis=1)
    totals_RK = draw.sums(columns_IK)
    return means, {name: totals_RK[:, k] / totals_RK[:, -1] for k, name in enumerate(each)}


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
