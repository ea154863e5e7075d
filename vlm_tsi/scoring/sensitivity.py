"""How TRACE moves with its hand-set parameters (the paper's Appendix F names them a limitation).

Input: what `score` takes. Output: `Sensitivity`: TRACE and its parts, pooled over the videos
(micro), at each point of a grid of tau_win, tau_time, tau_pen and alpha around the parameters
given. Invariant: each point equals what `score` gives there (to rounding); a text is embedded
once; an alignment is made once for each tau_win and tau_time, which alone it depends on.
"""

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vlm_tsi.scoring.groups import pooled
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.spans import overlap_seconds, times_of
from vlm_tsi.scoring.trace_score import (
    Embed,
    Pair,
    TraceResult,
    VideoSums,
    score,
)
from vlm_tsi.timeline import Generated, Utterance

AXES = ("tau_win", "tau_time", "tau_pen", "alpha")
FACTORS = (0.5, 1.0, 2.0)
"""What each tau is multiplied by."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SHOWN = ("trace", "s_a", "s_t", "f1")


@dataclass(frozen=True)
class Sensitivity:
    """The grid: `axes` holds each parameter's values, `points` parameters and percentages."""

    axes: Mapping[str, tuple[float, ...]]
    points: tuple[Mapping[str, float], ...]

    def slices(self, params: TraceParams) -> dict[str, dict[float, float]]:
        """TRACE along each axis, with the other parameters as given: axis -> value -> TRACE."""
        lines: dict[str, dict[float, float]] = {axis: {} for axis in AXES}
        for axis in AXES:
            others = [a for a in AXES if a != axis]
            for point in self.points:
                if all(point[a] == getattr(params, a) for a in others):
                    lines[axis][point[axis]] = point["trace"]
        return lines


def remembered(embed: Embed) -> Embed:
    """The embedder with a memory: a text that it has seen costs nothing again."""
    known: dict[str, np.ndarray] = {}

    def recall(texts: list[str]) -> np.ndarray:
        missing = [t for t in dict.fromkeys(texts) if t not in known]
        if missing:
            known.update(zip(missing, embed(missing), strict=True))
        return np.stack([known[t] for t in texts]) if texts else np.zeros((0, 0))

    return recall


def sensitivity(
    references: Mapping[str, Sequence[Utterance]],
    generated: Mapping[str, Sequence[Generated]],
    embed: Embed,
    params: TraceParams | None = None,
) -> Sensitivity:
    """TRACE over the grid around some parameters (the paper's by default).

    Each tau takes half, once and twice its value; alpha takes 0 to 1 in quarters, and its own
    value. All other parameters stay. 3 x 3 alignments of the whole set are made.

    Raises:
        ValueError: `embed` gives the wrong shape or values that are not finite.
    """
    params = params or TraceParams()
    axes = {name: _scaled(getattr(params, name)) for name in AXES[:3]}
    axes["alpha"] = tuple(sorted({*ALPHAS, params.alpha}))
    embed = remembered(embed)
    points = []
    for tau_win, tau_time in itertools.product(axes["tau_win"], axes["tau_time"]):
        here = replace(params, tau_win=tau_win, tau_time=tau_time)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown videos: said where the set is scored
            aligned = _Aligned(score(references, generated, embed, here), generated)
        for tau_pen, alpha in itertools.product(axes["tau_pen"], axes["alpha"]):
            there = replace(here, tau_pen=tau_pen, alpha=alpha)
            points.append(_point(aligned, there))
    return Sensitivity(axes, tuple(points))


def _scaled(value: float) -> tuple[float, ...]:
    scaled = sorted({value * factor for factor in FACTORS})
    return tuple(x for x in scaled if x > 0 and math.isfinite(x))


def _point(aligned: "_Aligned", params: TraceParams) -> dict[str, float]:
    scores = pooled([aligned.sums(params.tau_pen)], params)
    return {a: getattr(params, a) for a in AXES} | {name: scores[name] for name in SHOWN}


class _Aligned:
    """A scored set as seconds, from which any tau_pen gives its sums (Equations 12 to 15)."""

    def __init__(self, result: TraceResult, generated: Mapping[str, Sequence[Generated]]) -> None:
        each = result.per_video.values()
        self.total = VideoSums(*map(sum, zip(*each, strict=True)))
        pairs = result.pairs
        self.start = np.array([abs(p.ref_start - p.gen_start) for p in pairs])
        self.end = np.array([abs(p.ref_end - p.gen_end) for p in pairs])
        self.overlap = _overlaps(result, generated)
        assert len(self.overlap) == self.total.n_overlap, "one for each counted utterance"

    def sums(self, tau_pen: float) -> VideoSums:
        """The sums of the whole set under one tau_pen."""
        start, end, overlap = (
            float(np.exp(-x / tau_pen).sum()) for x in (self.start, self.end, self.overlap)
        )
        return self.total._replace(start=start, end=end, overlap=overlap)


def _overlaps(result: TraceResult, generated: Mapping[str, Sequence[Generated]]) -> np.ndarray:
    """O_j of the utterances that S_overlap counts: all, or the matched among themselves."""
    matched: dict[str, list[Pair]] = {}
    for pair in result.pairs:
        matched.setdefault(pair.video_id, []).append(pair)
    seconds = [np.zeros(0)]
    for video_id in result.per_video:
        said = generated.get(video_id, ())
        if result.params.overlap == "matched":
            said = [said[p.gen_idx] for p in matched.get(video_id, ())]
        if said:
            seconds.append(overlap_seconds(times_of(said)))
    return np.concatenate(seconds)
