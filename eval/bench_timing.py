"""Timing two sides of a comparison, and the row that tells of it.

Input: functions that do the same work. Output: seconds of each round; a `Row`.
Invariant: each round runs every side once, in turning order, so that what else the machine
does falls on all of them; a row's ratio is above 1 where ours is better.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

Seconds = dict[str, list[float]]
Sides = dict[str, Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Bench:
    """How to measure: a scratch folder, and whether only to show that it runs.

    `notes` takes lines that are shown beside the rows: where the time goes, what was left out.
    """

    folder: Path
    smoke: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """How often each side is timed."""
        return 3 if self.smoke else 11


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    Attributes:
        name: what is compared.
        ours, peer: medians, in `unit`.
        ours_p95, peer_p95: what nineteen rounds in twenty are at least as good as.
        unit: of the four figures.
        ratio: how many times ours is as good, the median over rounds.
        target: the least ratio that will do; None where the row only informs.
    """

    name: str
    ours: float
    peer: float
    ours_p95: float
    peer_p95: float
    unit: str
    ratio: float
    target: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the target is not reached."""
        return self.target is not None and self.ratio < self.target


def time_sides(sides: Sides, rounds: int) -> Seconds:
    """Seconds of every side in every round, after one round of warming up."""
    names = list(sides)
    seconds: Seconds = {name: [] for name in names}
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            began = time.perf_counter()
            sides[name]()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def rate_row(
    name: str,
    unit: str,
    seconds: Seconds,
    peer: str,
    amount: float,
    target: float | None = None,
    peer_amount: float | None = None,
) -> Row:
    """A row of rates: `amount` things of `unit` a round, side "ours" against side `peer`."""
    theirs = amount if peer_amount is None else peer_amount
    pairs = zip(seconds["ours"], seconds[peer], strict=True)
    return Row(
        name,
        amount / median(seconds["ours"]),
        theirs / median(seconds[peer]),
        amount / p95(seconds["ours"]),
        theirs / p95(seconds[peer]),
        unit,
        median((amount / a) / (theirs / b) for a, b in pairs),
        target,
    )


def p95(values: list[float]) -> float:
    """The smallest value that 95% of the values do not exceed."""
    return sorted(values)[-(-19 * len(values) // 20) - 1]
