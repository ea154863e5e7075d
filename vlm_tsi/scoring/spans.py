"""All utterances of a set as flat arrays, so that one call works on every video at once.

Input: utterances by video, and the id of each text. Output: `Spans`. Invariant: sorted by
video, start, end and text, so that nothing downstream depends on the order of the input;
`index` leads back to it.

Shape suffixes: N utterances of all videos, V videos.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from vlm_tsi.timeline import Generated, Utterance

Said = Sequence[Utterance] | Sequence[Generated]


@dataclass(frozen=True, slots=True)
class Spans:
    """Utterances of V videos; those of video v are `bounds[v]` to `bounds[v + 1]`.

    Attributes:
        video_N: number of the video, ascending.
        times_N2: starts and ends, seconds.
        text_N: id of the text.
        index_N: position within the video as given.
        bounds: V + 1 positions.
        counts: V sizes.
    """

    video_N: np.ndarray
    times_N2: np.ndarray
    text_N: np.ndarray
    index_N: np.ndarray
    bounds: list[int]
    counts: list[int]

    def part(self, lo: int, hi: int) -> "Spans":
        """Videos `lo` to `hi`, numbered from 0."""
        first, last = self.bounds[lo], self.bounds[hi]
        return Spans(
            self.video_N[first:last] - lo,
            self.times_N2[first:last],
            self.text_N[first:last],
            self.index_N[first:last],
            [b - first for b in self.bounds[lo : hi + 1]],
            self.counts[lo:hi],
        )

    @property
    def start_N(self) -> np.ndarray:
        """Seconds."""
        return self.times_N2[:, 0]


def flat_spans(said: Sequence[Said], ids: Mapping[str, int]) -> Spans:
    """Flatten; `ids` must number the texts in their own order."""
    counts_V = np.array([len(us) for us in said], dtype=np.intp)
    every: list[Utterance | Generated] = list(chain.from_iterable(said))
    bounds_V1 = np.concatenate([[0], np.cumsum(counts_V)])
    video_N = np.repeat(np.arange(len(said)), counts_V)
    sides = [u.start for u in every], [u.end for u in every]
    times_N2 = np.array(sides, dtype=np.float64).T
    text_N = np.array([ids[u.text] for u in every], dtype=np.intp)
    order_N = np.lexsort((text_N, times_N2[:, 1], times_N2[:, 0], video_N))
    index_N = order_N - bounds_V1[video_N]
    return Spans(
        video_N, times_N2[order_N], text_N[order_N], index_N, bounds_V1.tolist(), counts_V.tolist()
    )


def times_of(utterances: Said) -> np.ndarray:
    """[N, 2] starts and ends in seconds."""
    return np.array([(u.start, u.end) for u in utterances], dtype=np.float64).reshape(-1, 2)


def overlap_seconds(times_N2: np.ndarray, video_N: np.ndarray | None = None) -> np.ndarray:
    """O_j of Equation 14: seconds that each utterance shares with each other of its video.

    Looks at the next, the next but one, … in order of start, and only as long as some
    utterance still lasts: the work grows with what overlaps, not with the square of N.
    """
    video_N = np.zeros(len(times_N2), np.intp) if video_N is None else video_N
    order_N = np.lexsort((times_N2[:, 0], video_N))
    start, end = times_N2[order_N].T
    video, shared = video_N[order_N], np.zeros(len(order_N))
    one, step = np.arange(len(order_N)), 0
    while len(one):
        step += 1
        one = one[: np.searchsorted(one, len(order_N) - step)]
        other = one + step
        still = (video[one] == video[other]) & (start[other] < end[one])
        one, other = one[still], other[still]
        both = np.maximum(np.minimum(end[one], end[other]) - start[other], 0)
        shared[one] += both
        shared[other] += both
    found = np.empty_like(shared)
    found[order_N] = shared
    return found
