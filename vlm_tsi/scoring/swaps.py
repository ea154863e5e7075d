"""Pairs swap their generated utterances while that makes them more alike (Equation 8).

Input: pairs matched by time, in order of reference start, and where the similarities of their
videos lie. Output: what the references are matched with after the passes. Invariant: each swap
raises the sum of a video's similarities, so the passes end.

Shape suffixes: P pairs of all videos, C cells (a reference by a generated utterance).
"""

from bisect import bisect_right
from typing import Any

import numpy as np

from vlm_tsi.scoring.params import TOLERANCE, TraceParams

NARROW = 16
"""So few candidates are looked at faster one by one than as arrays."""


def spread(ref_a: Any, gen_a: Any, ref_b: Any, gen_b: Any, params: TraceParams) -> Any:
    """Seconds that must lie within tau_win for a swap: all four starts, or the new pairs'."""
    if params.swap_rule == "new_pairs":
        return np.maximum(np.abs(ref_a - gen_b), np.abs(ref_b - gen_a))
    latest = np.maximum(np.maximum(ref_a, gen_a), np.maximum(ref_b, gen_b))
    return latest - np.minimum(np.minimum(ref_a, gen_a), np.minimum(ref_b, gen_b))


class Swaps:
    """Pairs of several videos.

    Args:
        similar_C: similarity of each cell.
        base_P: a pair's cell lies at `base_P` plus the number of its generated utterance.
        gen_P: that number.
        starts: of the pair's reference [P], and of every generated utterance by its number.
        params: the rule, tau_win and the most passes.
    """

    def __init__(
        self,
        similar_C: np.ndarray,
        base_P: np.ndarray,
        gen_P: np.ndarray,
        starts: tuple[np.ndarray, np.ndarray],
        params: TraceParams,
    ) -> None:
        self.similar_C, self.base_P, self.starts = similar_C, base_P, starts
        self.gen_P = gen_P.copy()
        self.params, self.limit = params, params.tau_win + TOLERANCE
        # The same once more in forms that are quicker to ask for one value.
        self.cell, self.base = similar_C.data, base_P.tolist()
        self.gen, self.ref_start, self.gen_start = (x.tolist() for x in (gen_P, *starts))

    def run(self, video_P: np.ndarray) -> np.ndarray:
        """What the references are matched with in the end; `video_P` ascends."""
        worth = self._worth(video_P)
        ends = np.searchsorted(video_P, [[v, v + 1] for v in worth]).tolist() if worth else ()
        for (lo, hi), first in zip(ends, worth.values(), strict=True):
            self._passes(lo, hi, first)
        return self.gen_P

    def _worth(self, video_P: np.ndarray) -> dict[int, int]:
        """Videos in which some two pairs should swap, each with the first such pair."""
        ref, gen = self.starts[0], self.starts[1][self.gen_P]
        own = self.similar_C[self.base_P + self.gen_P]
        a, step, found = np.arange(len(gen)), 0, [np.zeros(0, np.intp)]
        while len(a):
            step += 1
            a = a[: np.searchsorted(a, len(gen) - step)]
            # Either rule keeps the other reference within tau_win of what `a` is matched with.
            a = a[(video_P[a] == video_P[a + step]) & (ref[a + step] <= gen[a] + self.limit)]
            b = a + step
            gain = self.similar_C[self.base_P[a] + self.gen_P[b]] - own[a]
            gain += self.similar_C[self.base_P[b] + self.gen_P[a]] - own[b]
            near = spread(ref[a], gen[a], ref[b], gen[b], self.params) <= self.limit
            found.append(a[(gain > TOLERANCE) & near])
        pairs = np.sort(np.concatenate(found))
        videos, at = np.unique(video_P[pairs], return_index=True)
        return dict(zip(videos.tolist(), pairs[at].tolist(), strict=True))

    def _passes(self, lo: int, hi: int, first: int) -> None:
        """At most `max_passes` passes over pairs `lo` to `hi`; none before `first` gains yet."""
        last = hi - 1
        for _ in range(self.params.max_passes):
            swapped = max((self._settle(a, hi) for a in range(first, last)), default=0)
            if not swapped:
                break
            # What comes after the last that was swapped was looked at as it is now.
            first, last = lo, min(last, swapped + 1)

    def _settle(self, a: int, hi: int) -> int:
        """Swap pair `a` with each later one that is worth it, in turn; the last one, or 0."""
        b = swapped = a
        while (b := self._next(a, b + 1, hi)) > 0:
            for gen in (self.gen, self.gen_P):
                gen[a], gen[b] = gen[b], gen[a]
            swapped = b
        return swapped if swapped > a else 0

    def _next(self, a: int, first: int, hi: int) -> int:
        """The first pair from `first` on that pair `a` may and should swap with, or 0."""
        gen, base, cell = self.gen[a], self.base, self.cell
        end = bisect_right(self.ref_start, self.gen_start[gen] + self.limit, first, hi)
        if end - first > NARROW:
            return self._next_of_many(a, first, end)
        base_a, own = base[a], cell[base[a] + gen] + TOLERANCE
        for b in range(first, end):
            other, base_b = self.gen[b], base[b]
            gain = cell[base_a + other] + cell[base_b + gen] - cell[base_b + other]
            if gain > own and self._near(a, b):
                return b
        return 0

    def _near(self, a: int, b: int) -> bool:
        ref_a, ref_b = self.ref_start[a], self.ref_start[b]
        gen_a, gen_b = self.gen_start[self.gen[a]], self.gen_start[self.gen[b]]
        if self.params.swap_rule == "new_pairs":
            return abs(ref_a - gen_b) <= self.limit and abs(ref_b - gen_a) <= self.limit
        return max(ref_b, gen_a, gen_b) - min(ref_a, gen_a, gen_b) <= self.limit

    def _next_of_many(self, a: int, first: int, end: int) -> int:
        base, others, gen = self.base_P[first:end], self.gen_P[first:end], self.gen[a]
        gain = self.similar_C[self.base[a] + others] + self.similar_C[base + gen]
        gain -= self.similar_C[base + others]
        ref, starts = self.starts[0][first:end], self.starts[1]
        apart = spread(self.ref_start[a], starts[gen], ref, starts[others], self.params)
        good = (gain > self.cell[self.base[a] + gen] + TOLERANCE) & (apart <= self.limit)
        at = int(np.argmax(good))
        return first + at if good[at] else 0
