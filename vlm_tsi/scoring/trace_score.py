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

Shape suffixes: N utterances of all videos, V videos, P matched pairs.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vlm_tsi.scoring.alignment import Aligned, align
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.spans import Spans, flat_spans, overlap_seconds
from vlm_tsi.timeline import Generated, Timeline, Utterance, iter_eval

Embed = Callable[[list[str]], np.ndarray]

SCORES = ("trace", "s_a", "s_t", "s_start", "s_end", "s_overlap", "f1", "precision", "recall")
"""Names of the percentages, Table 2's columns first."""


class VideoSums(NamedTuple):
    """What one video adds to every score: counts, and sums over its pairs or utterances."""

    n_ref: int = 0
    n_gen: int = 0
    n_match: int = 0
    n_overlap: int = 0
    semantic: float = 0.0
    start: float = 0.0
    end: float = 0.0
    overlap: float = 0.0


class Pair(NamedTuple):
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
    heard = [v for v in counted if references.get(v) or generated.get(v)]
    told, said = ([side.get(v, ()) for v in heard] for side in (references, generated))
    ids, vectors = _vectors({u.text for side in (told, said) for us in side for u in us}, embed)
    refs, gens = flat_spans(told, ids), flat_spans(said, ids)
    scored = _Scored(refs, gens, align(refs, gens, vectors, params), params)
    sums = scored.sums()
    notes = _warn_unknown(unknown, params)
    micro = {k: float(v) for k, v in scores_from_sums(sums.sum(axis=0), params).items()}
    each = scores_from_sums(sums, params)
    macro = {k: float(v.mean()) if len(v) else 0.0 for k, v in each.items()}
    per_video = dict(zip(heard, _rows(sums), strict=True))
    pairs = scored.pairs(heard, list(ids))
    return TraceResult(params, per_video, pairs, unknown, micro, macro, notes)


def _warn_unknown(unknown: Sequence[str], params: TraceParams) -> tuple[str, ...]:
    if not unknown:
        return ()
    shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
    fate = "count against precision" if params.unknown_videos == "count" else "are ignored"
    note = f"no references for {len(unknown)} generated video(s): {shown}; they {fate}"
    warnings.warn(note, stacklevel=3)
    return (note,)


def _vectors(texts: set[str], embed: Embed) -> tuple[dict[str, int], np.ndarray]:
    """Each text's id, in the order of the texts, and unit vectors by id."""
    ids = {text: i for i, text in enumerate(sorted(texts))}
    if not ids:
        return ids, np.zeros((0, 0))
    vectors = np.asarray(embed(list(ids)), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(ids):
        raise ValueError(f"embed gave shape {vectors.shape} for {len(ids)} texts")
    if not np.isfinite(vectors).all():
        raise ValueError("embed gave values that are not finite")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return ids, vectors / np.where(norms > 0, norms, 1)


class _Scored:
    """An aligned set with the scores of its pairs (Equations 12 to 16)."""

    def __init__(self, refs: Spans, gens: Spans, found: Aligned, params: TraceParams) -> None:
        self.refs, self.gens, self.found = refs, gens, found
        gaps_P2 = np.abs(refs.times_N2[found.ref_P] - gens.times_N2[found.gen_P])
        self.start_P, self.end_P = np.exp(-gaps_P2 / params.tau_pen).T
        counted = slice(None) if params.overlap == "all" else found.gen_P
        self.counted_video = gens.video_N[counted]
        shared = overlap_seconds(gens.times_N2[counted], self.counted_video)
        self.counted = np.exp(-shared / params.tau_pen)
        self.overlap_P = self.counted[found.gen_P] if params.overlap == "all" else self.counted
        self.timing_P, _ = combine(0.0, self.start_P, self.end_P, self.overlap_P, params)

    def sums(self) -> np.ndarray:
        """Each video's sums, [V, 8] in the order of `VideoSums`."""
        where = self.refs.video_N[self.found.ref_P]
        counts = (self.refs.video_N, self.gens.video_N, where, self.counted_video)
        columns: list[tuple[np.ndarray, np.ndarray | None]] = [(video, None) for video in counts]
        columns += [(where, x) for x in (self.found.semantic_P, self.start_P, self.end_P)]
        columns += [(self.counted_video, self.counted)]
        most = len(self.refs.counts)
        return np.stack([np.bincount(v, x, most).astype(np.float64) for v, x in columns], axis=1)

    def pairs(self, videos: list[str], texts: list[str]) -> tuple[Pair, ...]:
        """The pairs, in the order of the videos and the references' starts."""
        sides = ((self.refs, self.found.ref_P), (self.gens, self.found.gen_P))
        names = [videos[v] for v in self.refs.video_N[self.found.ref_P].tolist()]
        index = [side.index_N[p].tolist() for side, p in sides]
        words = [[texts[i] for i in side.text_N[p].tolist()] for side, p in sides]
        times = [x for side, p in sides for x in side.times_N2[p].T.tolist()]
        scores = (self.found.semantic_P, self.start_P, self.end_P, self.overlap_P, self.timing_P)
        columns = (names, *index, *words, *times, *(x.tolist() for x in scores))
        return tuple(map(Pair._make, zip(*columns, strict=True)))


def _rows(sums: np.ndarray) -> Iterator[VideoSums]:
    counts, values = sums[:, :4].astype(int).tolist(), sums[:, 4:].tolist()
    return (VideoSums(*c, *v) for c, v in zip(counts, values, strict=True))


def sums_array(sums: Iterable[VideoSums]) -> np.ndarray:
    """Stack videos' sums, [videos, 8]."""
    return np.array(list(sums), dtype=np.float64).reshape(-1, len(VideoSums._fields))


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
