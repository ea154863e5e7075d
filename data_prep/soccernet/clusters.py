"""Clusters of scored turns, and the datapoint of each (paper, Appendix A).

Input: the turns of one half, by start. Output: clusters as indices of scored turns; timelines
with `meta["window"]` in seconds.
Invariant: each scored turn is in one cluster; a cluster's turns stand in order.

The paper's rule is one sentence ("utterances whose start and end timestamps fall within a
5-second window"). `pause` is the reading that gives its Table 1 (docs/data.md has the others'
figures): commentary with no pause longer than 5 s, scored or not, is one stretch, and what is
scored in a stretch is one cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from vlm_tsi.timeline import Timeline, Utterance

Rule = Literal["pause", "scored-pause", "span", "run"]
RULES: dict[Rule, str] = {
    "pause": "no pause in the commentary, scored or not, is longer",
    "scored-pause": "no pause between scored turns is longer",
    "span": "from the first start to the last end it is no longer",
    "run": "scored turns with no other between them, however long",
}
SECONDS = 5.0


class Timed(Protocol):
    """What has a start and an end in seconds."""

    @property
    def start(self) -> float: ...  # noqa: D102
    @property
    def end(self) -> float: ...  # noqa: D102


def clusters(
    turns: Sequence[Timed], scored: Sequence[bool], rule: Rule = "pause", seconds: float = SECONDS
) -> list[list[int]]:
    """Indices of scored turns, cluster by cluster.

    Args:
        turns: by start.
        scored: which of them are scored.
        rule: see `RULES`.
        seconds: the rule's length.
    """
    chosen = [i for i, is_scored in enumerate(scored) if is_scored]
    if rule == "span":
        return _spans(turns, chosen, seconds)
    groups = (
        _runs(scored) if rule == "run"
        else _stretches(turns, chosen, seconds) if rule == "scored-pause"
        else _stretches(turns, range(len(turns)), seconds)
    )  # fmt: skip
    found = ([i for i in group if scored[i]] for group in groups)
    return [group for group in found if group]


def _stretches(turns: Sequence[Timed], order: Sequence[int], seconds: float) -> list[list[int]]:
    """Turns between which no pause is longer; it counts from the latest end so far."""
    groups: list[list[int]] = []
    latest = 0.0
    for i in order:
        if groups and turns[i].start - latest <= seconds:
            groups[-1].append(i)
            latest = max(latest, turns[i].end)
        else:
            groups.append([i])
            latest = turns[i].end
    return groups


def _spans(turns: Sequence[Timed], order: Sequence[int], seconds: float) -> list[list[int]]:
    groups: list[list[int]] = []
    latest = 0.0
    for i in order:
        end = max(latest, turns[i].end)
        if groups and end - turns[groups[-1][0]].start <= seconds:
            groups[-1].append(i)
            latest = end
        else:
            groups.append([i])
            latest = turns[i].end
    return groups


def _runs(scored: Sequence[bool]) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    for i, is_scored in enumerate(scored):
        if is_scored:
            groups[-1].append(i)
        else:
            groups.append([])
    return groups


def has_clusters(timeline: Timeline) -> bool:
    """Whether its scored turns say to which cluster they belong."""
    return any("cluster" in u.meta for u in timeline.utterances if u.eval)


def cluster_datapoints(
    timeline: Timeline, context_seconds: float | None = None
) -> Iterator[Timeline]:
    """One timeline for each cluster, named `<id>#<k>` (paper, Equation 3).

    Args:
        timeline: its scored turns have `meta["cluster"]`.
        context_seconds: leave out what ended earlier than this before the window.
    """
    members: dict[int, list[int]] = {}
    for i, turn in enumerate(timeline.utterances):
        if turn.eval:
            members.setdefault(turn.meta["cluster"], []).append(i)
    for cluster, indices in members.items():
        yield _datapoint(timeline, cluster, indices, context_seconds)


def _datapoint(
    timeline: Timeline, cluster: int, indices: Sequence[int], context_seconds: float | None
) -> Timeline:
    turns, first = timeline.utterances, indices[0]
    window = [turns[first].start, max(turns[i].end for i in indices)]
    since = 0.0 if context_seconds is None else window[0] - context_seconds
    context = (replace(u, eval=False) for u in turns[:first] if u.end >= since)
    inside = (
        replace(turns[i], eval=i in indices) if turns[i].eval else turns[i]
        for i in range(first, indices[-1] + 1)
    )
    told: tuple[Utterance, ...] = (*context, *inside)
    meta = {**timeline.meta, "window": window, "source": timeline.video_id}
    return replace(timeline, video_id=f"{timeline.video_id}#{cluster}", utterances=told, meta=meta)
