"""The failure kinds of Appendix E, by stated rules.

Input: a `TraceResult` and the utterances behind it. Output: `Failures`: the kinds that hold of
each pair, each utterance without a partner, and how often each kind occurs.
Invariant: a kind depends on times and on the alignment alone, never on what was said; every
reference is in a pair or `missed`, every scored generated utterance in a pair or `extra`.
References that do not overlap each other have no failure against themselves.

The paper names kinds by example, without thresholds. The rules here (seconds, all of them
parameters; a difference of exactly the threshold is no failure):

| kind | of | holds when |
|---|---|---|
| `delayed_start` | a pair | it starts later than the reference by more than 1.5 |
| `premature_cutoff` | a pair | it starts on time and ends early by more than 2 |
| `over_extended` | a pair | it starts on time and ends late by more than 2 |
| `overlap` | any generated | it shares more than 0.5 with other generated ones (Equation 14) |
| `missed` | a reference | nothing is matched with it |
| `extra` | any generated | it is matched with nothing |

On time: neither early nor late by more than `delayed_start`. The thresholds lie near the middle
of what Appendix E leaves open: starts up to 0.6 s late pass there as successes and from 2.6 s on
are called delayed; ends up to 1.2 s off pass and from 2.9 s on are called cut off or
over-extended. Several kinds may hold of one pair. What starts early by more than
`delayed_start` has no name in the paper; it is counted beside the kinds (`early_starts`). What
starts more than tau_win late is not matched at all, hence `missed` and `extra`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from vlm_tsi.scoring.params import TOLERANCE
from vlm_tsi.scoring.spans import overlap_seconds, times_of
from vlm_tsi.scoring.trace_score import Pair, TraceResult
from vlm_tsi.timeline import Generated, Utterance

NAMES = {
    "delayed_start": "delayed start",
    "premature_cutoff": "premature cut-off",
    "over_extended": "over-extended",
    "overlap": "overlap",
    "missed": "missed",
    "extra": "extra",
}
"""The kinds that are counted, in this order, as a reader sees them."""
KINDS = tuple(NAMES)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureRules:
    """Thresholds in seconds; what is more than one of them is a failure.

    Attributes:
        delayed_start: how late an utterance may start (and how early it is still on time).
        premature_cutoff: how early one that starts on time may end.
        over_extended: how late one that starts on time may end.
        overlap: how much a generated utterance may share with the other generated ones.

    Raises:
        ValueError: a threshold is negative or not finite; the text ends with the mend.
    """

    delayed_start: float = 1.5
    premature_cutoff: float = 2.0
    over_extended: float = 2.0
    overlap: float = 0.5

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{field.name} is {value!r}; use seconds from 0 on")


@dataclass(frozen=True, slots=True)
class Unmatched:
    """An utterance without a partner; `idx` counts within the video as given."""

    video_id: str
    side: Literal["reference", "generated"]
    idx: int
    text: str
    start: float
    end: float
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Failures:
    """What went wrong: `pairs` runs along the result's pairs; `counts` has every kind."""

    rules: FailureRules
    pairs: tuple[tuple[str, ...], ...]
    unmatched: tuple[Unmatched, ...]
    counts: Mapping[str, int]
    early_starts: int


def find_failures(
    result: TraceResult,
    references: Mapping[str, Sequence[Utterance]],
    generated: Mapping[str, Sequence[Generated]],
    rules: FailureRules | None = None,
) -> Failures:
    """Name the failures of a scored system (Appendix E).

    Args:
        result: what `score` made of the two others.
        references: by video_id, as they were scored.
        generated: by video_id, as they were scored; videos that were ignored there are here.
        rules: the thresholds; the defaults of this module else.
    """
    rules = rules or FailureRules()
    said = {v: generated.get(v, ()) for v in result.per_video}
    shared = {v: overlap_seconds(times_of(us)) if us else () for v, us in said.items()}
    overlaps = {
        (v, j): seconds > rules.overlap + TOLERANCE
        for v, each in shared.items()
        for j, seconds in enumerate(each)
    }
    pairs = tuple(pair_failures(p, overlaps[p.video_id, p.gen_idx], rules) for p in result.pairs)
    unmatched = (
        *_missed(result, references),
        *_extra(result, said, overlaps),
    )
    found = Counter(k for kinds in (*pairs, *(u.failures for u in unmatched)) for k in kinds)
    early = sum(p.ref_start - p.gen_start > rules.delayed_start + TOLERANCE for p in result.pairs)
    return Failures(rules, pairs, unmatched, {k: found[k] for k in KINDS}, early)


def pair_failures(pair: Pair, overlaps: bool, rules: FailureRules) -> tuple[str, ...]:
    """The kinds that hold of a pair; `overlaps` says whether its generated utterance does."""
    late = pair.gen_start - pair.ref_start
    longer = pair.gen_end - pair.ref_end
    on_time = abs(late) <= rules.delayed_start + TOLERANCE
    holds = {
        "delayed_start": late > rules.delayed_start + TOLERANCE,
        "premature_cutoff": on_time and -longer > rules.premature_cutoff + TOLERANCE,
        "over_extended": on_time and longer > rules.over_extended + TOLERANCE,
        "overlap": overlaps,
    }
    return tuple(kind for kind, does in holds.items() if does)


def _missed(result: TraceResult, references: Mapping[str, Sequence[Utterance]]) -> list[Unmatched]:
    matched = {(p.video_id, p.ref_idx) for p in result.pairs}
    return [
        Unmatched(v, "reference", i, u.text, u.start, u.end, ("missed",))
        for v in result.per_video
        for i, u in enumerate(references.get(v, ()))
        if (v, i) not in matched
    ]


def _extra(
    result: TraceResult,
    said: Mapping[str, Sequence[Generated]],
    overlaps: Mapping[tuple[str, int], bool],
) -> list[Unmatched]:
    matched = {(p.video_id, p.gen_idx) for p in result.pairs}
    return [
        Unmatched(
            v, "generated", j, g.text, g.start, g.end,
            ("overlap", "extra") if overlaps[v, j] else ("extra",),
        )
        for v, us in said.items()
        for j, g in enumerate(us)
        if (v, j) not in matched
    ]  # fmt: skip
