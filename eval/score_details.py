"""What `eval.tglg` tells beside the scores: failure kinds, and how TRACE moves with parameters.

Input: a scored set, or the options of the command line. Output: JSON values and printed lines.
Invariant: every kind of Appendix E is counted, also where its count is 0; thresholds out of
range are refused before anything is read.
"""

import argparse
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from rich.console import Console

from vlm_tsi.errors import UserError
from vlm_tsi.scoring.failures import KINDS, NAMES, FailureRules, Failures
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.sensitivity import AXES, Sensitivity
from vlm_tsi.scoring.trace_score import TraceResult

HELP = {
    "delayed_start": "later than its reference by more: delayed start; earlier: not on time",
    "premature_cutoff": "starts on time, ends early by more: premature cut-off",
    "over_extended": "starts on time, ends late by more: over-extended",
    "overlap": "shares more with the other generated utterances: overlap",
}


def add_detail_options(p: argparse.ArgumentParser) -> None:
    """Add the switch of the sensitivity table, and the thresholds of the failure kinds."""
    p.add_argument(
        "--sensitivity",
        action="store_true",
        help="TRACE over a grid of tau_win, tau_time, tau_pen and alpha (nine more alignments)",
    )
    group = p.add_argument_group("thresholds of the failure kinds of Appendix E, seconds")
    for rule in fields(FailureRules):
        flag = "--failure-" + rule.name.replace("_", "-")
        text = f"{HELP[rule.name]} (%(default)s)"
        group.add_argument(flag, type=float, default=rule.default, metavar="S", help=text)


def rules_of(args: argparse.Namespace) -> FailureRules:
    """The thresholds among the options; a bad one is a UserError."""
    try:
        values = {f.name: getattr(args, f"failure_{f.name}") for f in fields(FailureRules)}
        return FailureRules(**values)
    except ValueError as err:
        problem, mend = str(err).split("; ", 1)
        raise UserError("failure thresholds", problem, mend) from err


def failure_values(result: TraceResult, failures: Failures) -> dict[str, Any]:
    """`failures` (rules and counts), `pairs` with their kinds, and `unmatched` utterances."""
    return {
        "failures": {
            "rules": asdict(failures.rules),
            "counts": dict(failures.counts),
            "early_starts": failures.early_starts,
        },
        "pairs": [
            {**pair._asdict(), "failures": list(kinds)}
            for pair, kinds in zip(result.pairs, failures.pairs, strict=True)
        ],
        "unmatched": [{**asdict(u), "failures": list(u.failures)} for u in failures.unmatched],
    }


def sensitivity_values(found: Sensitivity) -> dict[str, Any]:
    """The grid as JSON."""
    axes = {name: list(values) for name, values in found.axes.items()}
    return {"axes": axes, "points": [dict(point) for point in found.points]}


def failure_line(failures: Mapping[str, Any]) -> str:
    """One line with every kind, its threshold and its count."""
    rules, counts = failures["rules"], failures["counts"]
    named = [NAMES[k] + (f" (> {rules[k]:g} s)" if k in rules else "") for k in KINDS]
    listed = [f"{name} {counts[kind]}" for name, kind in zip(named, KINDS, strict=True)]
    return f"failures: {', '.join(listed)}; early starts {failures['early_starts']}"


def show_sensitivity(values: Mapping[str, Any], params: Mapping[str, Any], to: Console) -> None:
    """Print TRACE with one parameter moved at a time, and its range over the whole grid."""
    found = Sensitivity(values["axes"], tuple(values["points"]))
    lines = ["TRACE (micro) with one parameter moved; [in brackets]: as scored above"]
    for axis, line in found.slices(TraceParams(**params)).items():
        cells = (_cell(x, trace, params[axis]) for x, trace in line.items())
        lines.append(f"  {axis:9}" + " ".join(f"{cell:12}" for cell in cells).rstrip())
    low, high = (f(values["points"], key=lambda p: p["trace"]) for f in (min, max))
    for word, point in (("lowest", low), ("highest", high)):
        at = ", ".join(f"{axis} {point[axis]:g}" for axis in AXES)
        lines.append(f"{word} of {len(found.points)}: {point['trace']:.1f} at {at}")
    to.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _cell(value: float, trace: float, scored: float) -> str:
    """A value and its TRACE; what was scored is marked."""
    text = f"{value:g}: {trace:.1f}"
    return f"[{text}]" if value == scored else text
