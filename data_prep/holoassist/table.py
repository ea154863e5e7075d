"""Table 1's columns for HoloAssist, under each set of rules.

Input: timelines read under both rules. Output: rows for the terminal and `statistics.json`.
Invariant: an utterance counts once in each datapoint whose history holds it (paper, Eq. 3:
all that was said before, and the scored turns); a gap runs from one utterance's end to the
next one's start and is negative where they overlap.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from data_prep.stats import MARKS
from vlm_tsi.published import TOKENS_PER_WORD
from vlm_tsi.timeline import Timeline
from vlm_tsi.worlds.datapoints import Rules, datapoints

UserTurns = Literal["split", "join"]
USER_TURNS: dict[Rules, UserTurns] = {"paper": "split", "released": "join"}


@dataclass(frozen=True, slots=True)
class Row:
    """Statistics of one way to cut datapoints.

    Attributes:
        rules: which turns are scored.
        user_turns: whether a user turn splits a run of scored turns.
        size: datapoints.
        scored: scored turns in a datapoint.
        utterances: utterances in a datapoint, context and scored.
        words: words in an utterance.
        tokens: words x 1.3.
        tokens_with_marks: the same with role, colon, line break and end mark.
        gap: seconds from an utterance's end to the next one's start.
    """

    rules: Rules
    user_turns: UserTurns
    size: int
    scored: float
    utterances: float
    words: float
    tokens: float
    tokens_with_marks: float
    gap: float


def row(timelines: Sequence[Timeline], rules: Rules, user_turns: UserTurns) -> Row:
    """The statistics of some timelines' datapoints (0 where there is nothing to count)."""
    split = user_turns == "split"
    points = [d.utterances for t in timelines for d in datapoints(t, split_at_user=split)]
    words = [len(u.text.split()) for point in points for u in point]
    gaps = [b.start - a.end for p in points for a, b in itertools.pairwise(p)]
    scored = [sum(u.eval for u in point) for point in points]
    spoken = _mean(words)
    return Row(
        rules, user_turns, len(points), _mean(scored), _mean([len(p) for p in points]), spoken,
        TOKENS_PER_WORD * spoken, TOKENS_PER_WORD * spoken + MARKS, _mean(gaps),
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def rows(timelines: Mapping[Rules, Sequence[Timeline]]) -> list[Row]:
    """Both rules, each with user turns that split and that join."""
    ways: tuple[UserTurns, ...] = ("split", "join")
    return [row(found, rules, way) for rules, found in timelines.items() for way in ways]


def to_dict(found: Row) -> dict[str, Any]:
    """JSON form, to three places."""
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(found).items()}


def show(found: Sequence[Row], chosen: tuple[Rules, UserTurns]) -> None:
    """Print the rows beside the paper's Table 1; the chosen one is marked."""
    heads = ("rules", "user turns", "size", "utterances", "tokens", "with marks", "gap (s)")
    table = Table(box=None, pad_edge=False)
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k < 2 else "right")
    for r in found:
        mark = " *" if (r.rules, r.user_turns) == chosen else ""
        figures = (r.utterances, r.tokens, r.tokens_with_marks, r.gap)
        table.add_row(r.rules + mark, r.user_turns, f"{r.size:,}", *[f"{f:.2f}" for f in figures])
    table.add_row("paper's Table 1", "", "1,761", "15.84", "13.69", "", "7.94", style="dim")
    Console().print(table)
