"""Scores of groups that cut through videos, from one alignment of the whole set.

Input: a `TraceResult`, the utterances behind it, and which groups an utterance belongs to.
Output: for each group `StoredSums`: the sums of its utterances, by video.
Invariant: nothing is aligned or embedded again; a group that holds every utterance has the
whole set's scores, and one that holds whole videos has theirs.

A pair belongs where its reference does, so a generated utterance that is matched goes with its
reference even if its own times lie in another group (else one that is a little late would be
missed in one group and extra in the other). One that is not matched goes where its own times
put it. Overlap (Equation 14) is a fact of the video: it is counted against all that was
generated there, whatever group that is in.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from vlm_tsi.scoring.groups import StoredSums
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.spans import overlap_seconds, times_of
from vlm_tsi.scoring.trace_score import Pair, TraceResult, VideoSums
from vlm_tsi.timeline import Generated, Utterance

K = TypeVar("K", bound=Hashable)


def split(
    result: TraceResult,
    references: Mapping[str, Sequence[Utterance]],
    generated: Mapping[str, Sequence[Generated]],
    groups_of: Callable[[str, float, float], Collection[K]],
    video_of: Callable[[str], str] = str,
) -> dict[K, StoredSums]:
    """Sums by group and video.

    Args:
        result: of `score(references, generated, …)`.
        references: what was scored, in the same order.
        generated: likewise.
        groups_of: video_id, start and end (s) -> the groups of an utterance, or none.
        video_of: video_id -> the video it is from; sums of one video are added up.

    Returns:
        Only groups that hold an utterance; within each, only videos that do.
    """
    pairs: dict[str, list[Pair]] = {video_id: [] for video_id in result.per_video}
    for pair in result.pairs:
        pairs[pair.video_id].append(pair)
    rows: dict[K, dict[str, list[VideoSums]]] = {}
    for video_id in sorted(pairs):
        sides = references.get(video_id, ()), generated.get(video_id, ())
        for one, sums in _parts(*sides, pairs[video_id], result.params):
            for group in groups_of(video_id, one.start, one.end):
                rows.setdefault(group, {}).setdefault(video_of(video_id), []).append(sums)
    return {
        group: StoredSums(result.params, {v: _added(videos[v]) for v in sorted(videos)})
        for group, videos in rows.items()
    }


def _parts(
    refs: Sequence[Utterance],
    gens: Sequence[Generated],
    pairs: Sequence[Pair],
    params: TraceParams,
) -> Iterator[tuple[Utterance | Generated, VideoSums]]:
    """What each reference (with its match) and each generated one without a match adds."""
    matched = {pair.ref_idx: pair for pair in pairs}
    for i, ref in enumerate(refs):
        yield ref, _pair_sums(matched[i]) if i in matched else VideoSums(n_ref=1)
    taken = {pair.gen_idx for pair in pairs}
    clear = np.exp(-overlap_seconds(times_of(gens)) / params.tau_pen)
    for j, gen in enumerate(gens):
        if j not in taken:
            counts = params.overlap == "all"
            yield gen, VideoSums(n_gen=1, n_overlap=int(counts), overlap=counts * float(clear[j]))


def _pair_sums(p: Pair) -> VideoSums:
    return VideoSums(1, 1, 1, 1, p.semantic, p.start, p.end, p.overlap)


def _added(rows: Sequence[VideoSums]) -> VideoSums:
    total = np.array(rows).sum(axis=0).tolist()
    return VideoSums(*map(int, total[:4]), *total[4:])
