"""The metric's parameters, named as in the paper (Appendix B), checked when made.

Input: values. Output: `TraceParams`. Invariant: every `TraceParams` is usable; the defaults
are the paper's. What the released code chose instead: `overlap="matched"`,
`swap_rule="new_pairs"`, `max_passes=5`, `unknown_videos="ignore"`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

Overlap = Literal["all", "matched"]
SwapRule = Literal["four", "new_pairs"]
UnknownVideos = Literal["count", "ignore"]

TOLERANCE = 1e-9
"""Seconds, or similarity: what differs by less is the same; also the tie-break's weight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceParams:
    """The metric's parameters, named as in the paper (Appendix B, Equation 18).

    Attributes:
        tau_time: scale (s) of the start difference in the alignment (Equation 6).
        tau_win: widest start difference (s) of a matched pair (Equation 9).
        tau_pen: scale (s) of the timing penalties (Equations 12, 13, 15).
        alpha: weight of S_a in TRACE (Equation 17).
        alpha_start: weight of S_start in S_t (Equation 16).
        alpha_end: weight of S_end in S_t; S_overlap has the rest.
        overlap: S_overlap over `all` generated utterances, or `matched` ones among
            themselves.
        swap_rule: two pairs may swap if all `four` starts lie within tau_win, or if only
            the two `new_pairs` would.
        unknown_videos: utterances for a video without references `count` against
            precision, or are left out (`ignore`).
        max_passes: passes of swapping; it ends earlier once nothing changes.

    Raises:
        ValueError: a value out of range, naming it and the mend.
    """

    tau_time: float = 3.0
    tau_win: float = 5.0
    tau_pen: float = 1.0
    alpha: float = 0.5
    alpha_start: float = 0.4
    alpha_end: float = 0.4
    overlap: Overlap = "all"
    swap_rule: SwapRule = "four"
    unknown_videos: UnknownVideos = "count"
    max_passes: int = 100

    def __post_init__(self) -> None:
        for name in ("tau_time", "tau_win", "tau_pen"):
            self._check(name, lambda x: math.isfinite(x) and x > 0, "use seconds above 0")
        for name in ("alpha", "alpha_start", "alpha_end"):
            self._check(name, lambda x: 0 <= x <= 1, "use a weight from 0 to 1")
        rest = 1 - self.alpha_start
        self._check("alpha_end", lambda x: x <= rest, f"use at most 1 - alpha_start ({rest:g})")
        self._check("max_passes", lambda x: x >= 0, "use 0 or more")
        options = {"overlap": Overlap, "swap_rule": SwapRule, "unknown_videos": UnknownVideos}
        for name, kind in options.items():
            self._check(name, get_args(kind).__contains__, f"use one of {_listed(kind)}")

    def _check(self, name: str, good: Callable[[Any], bool], mend: str) -> None:
        value = getattr(self, name)
        if not good(value):
            raise ValueError(f"{name} is {value!r}; {mend}")


def _listed(kind: Any) -> str:
    return ", ".join(get_args(kind))
