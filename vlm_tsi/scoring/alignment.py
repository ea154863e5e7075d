"""Which generated utterance answers which reference (Equations 6 to 9), for a whole set.

Input: references and generated utterances as `Spans`, a unit vector for each text, the
parameters. Output: `Aligned`: the matched pairs and their similarities. Invariant: within a
video the pairs are one to one and in the order of the references; a pair's starts lie within
tau_win.

Costs and similarities of many videos lie in one flat array, made in one go; the solver sees
one video at a time. Then every pair is tried with those near it, of all videos at once, and
only a video in which a swap would gain goes through the passes, which are made in order.

Shape suffixes: N references or generated utterances, C cells (a reference by a generated
utterance of its video, row by row), P pairs, M generated utterances of one video.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from vlm_tsi.scoring.params import TOLERANCE, TraceParams
from vlm_tsi.scoring.spans import Spans
from vlm_tsi.scoring.swaps import Swaps

MOST_CELLS, MOST_ROWS = 1_000_000, 8_000
"""Of one chunk: some tens of megabytes. A video that has more is a chunk of its own."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """Matched pairs: positions in the references' and the generated `Spans`, and Equation 7."""

    ref_P: np.ndarray
    gen_P: np.ndarray
    semantic_P: np.ndarray


def align(refs: Spans, gens: Spans, vectors: np.ndarray, params: TraceParams) -> Aligned:
    """Matched pairs B (Equation 9) of all videos; `vectors` [texts, D] have length 1, or 0."""
    found = []
    for lo, hi in _chunks(refs, gens):
        ref_P, gen_P, semantic_P = _align(refs.part(lo, hi), gens.part(lo, hi), vectors, params)
        found.append((ref_P + refs.bounds[lo], gen_P + gens.bounds[lo], semantic_P))
    ref_P, gen_P, semantic_P = (np.concatenate(x) for x in zip(*found, strict=True))
    near_P = np.abs(refs.start_N[ref_P] - gens.start_N[gen_P]) <= params.tau_win + TOLERANCE
    return Aligned(ref_P[near_P], gen_P[near_P], semantic_P[near_P])


def _chunks(refs: Spans, gens: Spans) -> Iterator[tuple[int, int]]:
    """Ranges of videos that are worked on together; at least one, be it empty."""
    lo = cells = rows = 0
    for v, (n, m) in enumerate(zip(refs.counts, gens.counts, strict=True)):
        cells, rows = cells + n * m, rows + n + m
        if v > lo and (cells > MOST_CELLS or rows > MOST_ROWS):
            yield lo, v
            lo, cells, rows = v, n * m, n + m
    yield lo, len(refs.counts)


def _align(
    refs: Spans, gens: Spans, vectors: np.ndarray, params: TraceParams
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs before Equation 9's window: references, generated, Equation 7."""
    cells = _Cells(refs, gens)
    same_C = refs.text_N[cells.ref_C] == gens.text_N[cells.gen_C]
    cost_C = _costs(refs, gens, cells, same_C, params.tau_time)
    ref_P, gen_P, cosine_C = _solve(refs, gens, cost_C, vectors)
    similar_C = np.clip((1 + cosine_C) / 2, 0.0, 1.0)
    similar_C[same_C.reshape(-1)] = 1.0
    base_P = cells.base_N[ref_P]
    swaps = Swaps(similar_C, base_P, gen_P, (refs.start_N[ref_P], gens.start_N), params)
    gen_P = swaps.run(refs.video_N[ref_P])
    return ref_P, gen_P, similar_C[base_P + gen_P]


class _Cells:
    """Which reference and generated utterance each cell is of.

    Attributes:
        base_N: the cell of a reference and generated utterance g lies at `base_N + g`.
        ref_C, gen_C: positions, flat; of a single video a column and a row, as it may be long.
    """

    def __init__(self, refs: Spans, gens: Spans) -> None:
        width_N = np.array(gens.counts, dtype=np.intp)[refs.video_N]
        self.base_N = np.cumsum(width_N) - width_N
        self.base_N -= np.array(gens.bounds, dtype=np.intp)[refs.video_N]
        rows = np.arange(len(width_N))
        if len(refs.counts) == 1:
            self.ref_C, self.gen_C = rows[:, None], np.arange(gens.counts[0])[None]
        else:
            self.ref_C = np.repeat(rows, width_N)
            self.gen_C = np.arange(len(self.ref_C)) - np.repeat(self.base_N, width_N)


def _costs(
    refs: Spans, gens: Spans, cells: _Cells, same_C: np.ndarray, tau_time: float
) -> np.ndarray:
    """Equation 6; a tie goes to nearer ends, then to equal texts."""
    ref_N2, gen_N2 = refs.times_N2 / tau_time, gens.times_N2 / tau_time
    near_C, near_end_C = (
        np.exp(-np.abs(ref_N2[cells.ref_C, side] - gen_N2[cells.gen_C, side])) for side in (0, 1)
    )
    near_end_C += same_C
    near_end_C *= -TOLERANCE
    near_end_C -= near_C
    return near_end_C.reshape(-1)


def _solve(
    refs: Spans, gens: Spans, cost_C: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cheapest one-to-one assignment of each video, and the cosine of every cell."""
    cosine_C = np.empty(len(cost_C))
    ref_ND, gen_DN = vectors[refs.text_N], vectors[gens.text_N].T
    rows, cols = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    cell, sizes = 0, zip(refs.bounds, refs.counts, gens.bounds, gens.counts, strict=False)
    for r, n, g, m in sizes:
        block = slice(cell, cell + n * m)
        if n and m:
            row, col = linear_sum_assignment(cost_C[block].reshape(n, m))
            # Of small arrays `dot` costs a third less than `matmul`.
            np.dot(ref_ND[r : r + n], gen_DN[:, g : g + m], cosine_C[block].reshape(n, m))
            rows.append(row + r)
            cols.append(col + g)
        cell = block.stop
    return np.concatenate(rows), np.concatenate(cols), cosine_C
