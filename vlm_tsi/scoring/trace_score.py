"""TGLG's TRACE metric (paper, Section 4.3 and Appendix B).

Input: for each video the reference and the generated utterances (times in seconds), and a
sentence embedder. Output: `TraceResult`: percentages pooled over the whole set ("micro"),
their mean over videos ("macro"), each video's sums, and each aligned pair.
Invariant: every score is finite and within 0..100; no match at all gives 0, never NaN; the
order of the inputs does not matter. References that do not overlap each other score exactly
100 against themselves (by Equation 14 an overlap costs also them); silence scores exactly 0.

Alignment. Equation 6 looks at start times only, so utterances that start together tie.
A tie is broken by nearer ends, then by equal texts, with a weight (1e-9) that no real time
difference is as small as. Pairs many tau_time apart have a cost of zero to machine
precision: which of them are matched is arbitrary, and they are discarded beyond tau_win.

Where the paper and its released code differ, the paper is the default. For parity with the
code: `overlap="matched"`, `swap_rule="new_pairs"`, `max_passes=5`, `unknown_videos="ignore"`.

Shape suffixes: N references, M generated, P matched pairs, D embedding size.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from vlm_tsi.scoring.params import TOLERANCE, TraceParams
from vlm_tsi.timeline import Generated, Timeline, Utterance, iter_eval

Embed = Callable[[list[str]], np.ndarray]

SCORES = ("trace", "s_a", "s_t", "s_start", "s_end", "s_overlap", "f1", "precision", "recall")
"""Names of the percentages, Table 2's columns first."""


@dataclass(frozen=True, slots=True)
class VideoSums:
    """What one video adds to every score: counts, and sums over its pairs or utterances."""

    n_ref: int = 0
    n_gen: int = 0
    n_match: int = 0
    n_overlap: int = 0
    semantic: float = 0.0
    start: float = 0.0
    end: float = 0.0
    overlap: float = 0.0

    def as_row(self) -> list[float]:
        """The sums in the order of the fields, for `scores_from_sums`."""
        return [float(getattr(self, f.name)) for f in fields(self)]


@dataclass(frozen=True, slots=True)
class Pair:
    """One aligned pair; indices count within the video as given, scores lie in 0..1."""

    video_id: str
    ref_idx: int
    gen_idx: int
    ref_text: str
    gen_text: str
    ref_start: float
    ref_end: float
    gen_start: float
    gen_end: float
    semantic: float
    start: float
    end: float
    overlap: float
    timing: float


@dataclass(frozen=True)
class TraceResult:
    """All that scoring found; `micro` and `macro` are percentages under `SCORES`."""

    params: TraceParams
    per_video: Mapping[str, VideoSums]
    pairs: tuple[Pair, ...]
    unknown_videos: tuple[str, ...]
    micro: Mapping[str, float]
    macro: Mapping[str, float]
    warnings: tuple[str, ...] = ()

    def video_scores(self) -> dict[str, dict[str, float]]:
        """The percentages of each video by itself."""
        scores = scores_from_sums(sums_array(self.per_video.values()), self.params)
        return {
            video_id: {name: float(scores[name][i]) for name in SCORES}
            for i, video_id in enumerate(self.per_video)
        }


def references_of(
    timelines: Iterable[Timeline], all_assistant: bool = False
) -> dict[str, list[Utterance]]:
    """Reference utterances by video: the assistant's `eval` ones, or all it says."""
    return {
        t.video_id: [
            u
            for u in (t.utterances if all_assistant else iter_eval(t))
            if u.role == "assistant"
        ]
        for t in timelines
    }  # fmt: skip


def group_by_video(generated: Iterable[Generated]) -> dict[str, list[Generated]]:
    """Generated utterances by video_id, in the order given."""
    groups: dict[str, list[Generated]] = {}
    for utterance in generated:
        groups.setdefault(utterance.video_id, []).append(utterance)
    return groups


def score(
    references: Mapping[str, Sequence[Utterance]],
    generated: Mapping[str, Sequence[Generated]],
    embed: Embed,
    params: TraceParams | None = None,
) -> TraceResult:
    """Score generated utterances against references (Appendix B).

    Args:
        references: by video_id; times in seconds. A video may have none.
        generated: by video_id, from any system; a video not in it was met with silence.
        embed: texts -> [N, D] sentence vectors, any scale; called once, each text once.
        params: the paper's by default.

    Returns:
        The scores, the sums behind them and the alignment.

    Raises:
        ValueError: `embed` gives the wrong shape or values that are not finite.

    Warns:
        UserWarning: naming the videos that have generated utterances but no references.
    """
    params = params or TraceParams()
    unknown = tuple(sorted(v for v, said in generated.items() if said and v not in references))
    counted = [*references, *(unknown if params.unknown_videos == "count" else ())]
    videos = {v: (references.get(v, ()), generated.get(v, ())) for v in counted}
    vectors = _Vectors([u.text for sides in videos.values() for s in sides for u in s], embed)
    pairs: list[Pair] = []
    per_video: dict[str, VideoSums] = {}
    for video_id, (refs, gens) in videos.items():
        if refs or gens:
            per_video[video_id] = _score_video(video_id, refs, gens, vectors, params, pairs)
    notes = _warn_unknown(unknown, params)
    sums = sums_array(per_video.values())
    micro = {k: float(v) for k, v in scores_from_sums(sums.sum(axis=0), params).items()}
    each = scores_from_sums(sums, params)
    macro = {k: float(v.mean()) if len(v) else 0.0 for k, v in each.items()}
    return TraceResult(params, per_video, tuple(pairs), unknown, micro, macro, notes)


def _warn_unknown(unknown: Sequence[str], params: TraceParams) -> tuple[str, ...]:
    if not unknown:
        return ()
    shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
    fate = "count against precision" if params.unknown_videos == "count" else "are ignored"
    note = f"no references for {len(unknown)} generated video(s): {shown}; they {fate}"
    warnings.warn(note, stacklevel=3)
    return (note,)


class _Vectors:
    """Unit vectors of all texts; equal texts share one id, hence a similarity of exactly 1."""

    def __init__(self, texts: list[str], embed: Embed) -> None:
        self.ids = {text: i for i, text in enumerate(sorted(set(texts)))}
        if not self.ids:
            return
        vectors = np.asarray(embed(list(self.ids)), dtype=np.float64)
        if vectors.ndim != 2 or len(vectors) != len(self.ids):
            raise ValueError(f"embed gave shape {vectors.shape} for {len(self.ids)} texts")
        if not np.isfinite(vectors).all():
            raise ValueError("embed gave values that are not finite")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        self.vectors = vectors / np.where(norms > 0, norms, 1)

    def similarity(self, refs: Sequence[str], gens: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Equation 7, [N, M] within 0..1, and where the texts are equal."""
        rows = np.array([self.ids[t] for t in refs])
        cols = np.array([self.ids[t] for t in gens])
        same_NM = rows[:, None] == cols[None, :]
        similar_NM = (1 + self.vectors[rows] @ self.vectors[cols].T) / 2
        return np.where(same_NM, 1.0, np.clip(similar_NM, 0.0, 1.0)), same_NM


def _score_video(
    video_id: str,
    refs: Sequence[Utterance],
    gens: Sequence[Generated],
    vectors: _Vectors,
    params: TraceParams,
    pairs: list[Pair],
) -> VideoSums:
    """Align one video, append its pairs, and return its sums."""
    times_N2, times_M2 = times_of(refs), times_of(gens)
    rows, cols, semantic = _align(refs, gens, vectors, params)
    start, end = np.exp(-np.abs(times_N2[rows] - times_M2[cols]) / params.tau_pen).T
    if params.overlap == "all":
        every = np.exp(-overlap_seconds(times_M2) / params.tau_pen)
        overlap = every[cols]
    else:
        every = overlap = np.exp(-overlap_seconds(times_M2[cols]) / params.tau_pen)
    timing, _ = combine(0.0, start, end, overlap, params)
    for i, j, *values in zip(rows, cols, semantic, start, end, overlap, timing, strict=True):
        ref, gen = refs[i], gens[j]
        times = (ref.start, ref.end, gen.start, gen.end)
        pairs.append(
            Pair(video_id, int(i), int(j), ref.text, gen.text, *times, *map(float, values))
        )
    counts = (len(refs), len(gens), len(rows), len(every))
    return VideoSums(*counts, *(float(x.sum()) for x in (semantic, start, end, every)))


def times_of(utterances: Sequence[Utterance] | Sequence[Generated]) -> np.ndarray:
    """[N, 2] starts and ends in seconds."""
    return np.array([(u.start, u.end) for u in utterances], dtype=np.float64).reshape(-1, 2)


def overlap_seconds(times_M2: np.ndarray) -> np.ndarray:
    """O_j of Equation 14: seconds that each utterance shares with each of the others."""
    start, end = times_M2.T
    shared_MM = np.minimum(end[:, None], end) - np.maximum(start[:, None], start)
    np.maximum(shared_MM, 0, out=shared_MM)
    np.fill_diagonal(shared_MM, 0)
    return shared_MM.sum(axis=1)


def _align(
    refs: Sequence[Utterance], gens: Sequence[Generated], vectors: _Vectors, params: TraceParams
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matched pairs B (Equation 9): reference indices, generated indices, similarities."""
    if not refs or not gens:
        return np.zeros(0, int), np.zeros(0, int), np.zeros(0)
    order_N, order_M = _canonical(refs), _canonical(gens)
    refs, gens = [refs[i] for i in order_N], [gens[j] for j in order_M]
    similar_NM, same_NM = vectors.similarity([u.text for u in refs], [g.text for g in gens])
    gaps = np.abs(times_of(refs)[:, None, :] - times_of(gens)[None, :, :]) / params.tau_time
    near_NM, near_end_NM = np.exp(-gaps[..., 0]), np.exp(-gaps[..., 1])
    cost_NM = -near_NM - TOLERANCE * (near_end_NM + same_NM)
    rows, cols = linear_sum_assignment(cost_NM)
    starts = (times_of(refs)[rows, 0], times_of(gens)[:, 0])
    cols = _refine(similar_NM[rows], cols, starts, params)
    kept = np.abs(starts[0] - starts[1][cols]) <= params.tau_win + TOLERANCE
    rows, cols = rows[kept], cols[kept]
    return order_N[rows], order_M[cols], similar_NM[rows, cols]


def _canonical(utterances: Sequence[Utterance] | Sequence[Generated]) -> np.ndarray:
    keys = [(u.start, u.end, u.text) for u in utterances]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__))


def _refine(
    similar_PM: np.ndarray,
    cols_P: np.ndarray,
    starts: tuple[np.ndarray, np.ndarray],
    params: TraceParams,
) -> np.ndarray:
    """Swap pairs greedily, in order of reference start, while that is more alike (Eq. 8)."""
    cols_P = cols_P.copy()
    for _ in range(params.max_passes):
        changed = False
        for a in range(len(cols_P) - 1):
            b = _next_swap(a, a + 1, similar_PM, cols_P, starts, params)
            while b is not None:
                cols_P[[a, b]] = cols_P[[b, a]]
                changed = True
                b = _next_swap(a, b + 1, similar_PM, cols_P, starts, params)
        if not changed:
            break
    return cols_P


def _next_swap(
    a: int,
    first: int,
    similar_PM: np.ndarray,
    cols_P: np.ndarray,
    starts: tuple[np.ndarray, np.ndarray],
    params: TraceParams,
) -> int | None:
    """The first pair from `first` on that pair `a` may and should swap with."""
    others, cols, col = np.arange(first, len(cols_P)), cols_P[first:], cols_P[a]
    gain = similar_PM[a, cols] + similar_PM[others, col]
    gain = gain - similar_PM[a, col] - similar_PM[others, cols]
    ref, gen = starts[0][first:], starts[1][cols]
    ref_a, gen_a = starts[0][a], starts[1][col]
    if params.swap_rule == "four":
        latest = np.maximum(np.maximum(ref, gen), max(ref_a, gen_a))
        spread = latest - np.minimum(np.minimum(ref, gen), min(ref_a, gen_a))
    else:
        spread = np.maximum(np.abs(ref_a - gen), np.abs(ref - gen_a))
    good = np.flatnonzero((gain > TOLERANCE) & (spread <= params.tau_win + TOLERANCE))
    return int(others[good[0]]) if len(good) else None


def sums_array(sums: Iterable[VideoSums]) -> np.ndarray:
    """Stack videos' sums, [videos, 8]."""
    return np.array([s.as_row() for s in sums]).reshape(-1, len(fields(VideoSums)))


def scores_from_sums(sums: np.ndarray, params: TraceParams) -> dict[str, np.ndarray]:
    """The percentages (Equations 10-17) of sums [..., 8] over any set of videos, [...]."""
    n_ref, n_gen, n_match, n_overlap, semantic, start, end, overlap = np.moveaxis(sums, -1, 0)
    percent = 100 * _ratio(2 * n_match, n_ref + n_gen)
    s_a = percent * _ratio(semantic, n_match)
    s_start, s_end = percent * _ratio(start, n_match), percent * _ratio(end, n_match)
    s_overlap = percent * _ratio(overlap, n_overlap)
    s_t, trace = combine(s_a, s_start, s_end, s_overlap, params)
    precision, recall = 100 * _ratio(n_match, n_gen), 100 * _ratio(n_match, n_ref)
    values = (trace, s_a, s_t, s_start, s_end, s_overlap, percent, precision, recall)
    return dict(zip(SCORES, values, strict=True))


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.zeros_like(a, dtype=np.float64), where=b > 0)


def combine(s_a: Any, s_start: Any, s_end: Any, s_overlap: Any, params: TraceParams) -> Any:
    """(S_t, TRACE) of Equations 16 and 17, on numbers or arrays of any one scale.

    Written as steps between the components, so that equal ones give exactly their value.
    """
    s_t = s_overlap + params.alpha_start * (s_start - s_overlap)
    s_t = s_t + params.alpha_end * (s_end - s_overlap)
    return s_t, s_t + params.alpha * (s_a - s_t)
