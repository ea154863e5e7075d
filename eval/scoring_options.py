"""The options that the scoring commands share, and the checks of their values.

Input: an argparse parser, then its result. Output: `TraceParams`, and errors in one line.
Invariant: the defaults are the paper's; a value out of range is refused before anything is read.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args

from vlm_tsi.errors import UserError
from vlm_tsi.scoring.groups import RESAMPLES
from vlm_tsi.scoring.trace_score import Overlap, SwapRule, TraceParams, UnknownVideos
from vlm_tsi.timeline import Utterance

CHOICES = {"overlap": Overlap, "swap_rule": SwapRule, "unknown_videos": UnknownVideos}
HELP = {
    "tau_time": "scale of start differences in the alignment, seconds",
    "tau_win": "widest start difference of a matched pair, seconds",
    "tau_pen": "scale of the timing penalties, seconds",
    "alpha": "weight of S_a in TRACE",
    "alpha_start": "weight of S_start in S_t",
    "alpha_end": "weight of S_end in S_t",
    "overlap": "S_overlap over all generated utterances, or over matched ones",
    "swap_rule": "two pairs swap if all four starts are near, or only the new pairs' starts",
    "unknown_videos": "utterances for videos without references: count against precision or not",
    "max_passes": "most passes of swapping",
}


def add_scoring_options(p: argparse.ArgumentParser) -> None:
    """Add what is scored, where the scores go, the embedder and the bootstrap."""
    p.add_argument("--ref", required=True, help="timelines .jsonl, or published .json")
    p.add_argument("--pred", required=True, help="generated utterances .jsonl, or published .csv")
    p.add_argument("--out", required=True, help="where the scores go (.json)")
    p.add_argument("--embedder", help="sentence embedder: folder or hub id (default: best at hand)")
    p.add_argument("--embed-cache", help="folder that keeps sentence vectors between runs")
    p.add_argument(
        "--all-assistant", action="store_true",
        help="score all assistant utterances, not only those with eval true",
    )  # fmt: skip
    p.add_argument("--resamples", type=int, default=RESAMPLES, help="bootstrap (%(default)s)")
    p.add_argument("--seed", type=int, default=0, help="of the bootstrap (%(default)s)")


def add_metric_options(p: argparse.ArgumentParser) -> None:
    """Add one option for each of the metric's parameters."""
    metric = p.add_argument_group("the metric's parameters (defaults: the paper's)")
    for option in fields(TraceParams):
        kind: dict[str, Any] = {"type": type(option.default)}
        if option.name in CHOICES:
            kind["choices"] = get_args(CHOICES[option.name])
        flag = "--" + option.name.replace("_", "-")
        text = f"{HELP[option.name]} (%(default)s)"
        metric.add_argument(flag, default=option.default, help=text, **kind)


def params_of(args: argparse.Namespace) -> TraceParams:
    """The metric's parameters among the options; a bad one is a UserError."""
    try:
        return TraceParams(**{f.name: getattr(args, f.name) for f in fields(TraceParams)})
    except ValueError as err:
        problem, mend = str(err).split("; ", 1)
        raise UserError("parameters", problem, mend) from err


def check_options(args: argparse.Namespace) -> None:
    """Refuse values out of range (UserError)."""
    params_of(args)
    for name, least in (("resamples", 1), ("seed", 0)):
        if getattr(args, name) < least:
            problem = f"it is {getattr(args, name)}"
            raise UserError(f"--{name}", problem, f"use a whole number from {least} on")


def check_references(path: str, references: Mapping[str, Sequence[Utterance]]) -> None:
    """Refuse a file in which nothing is to be scored."""
    if any(references.values()):
        return
    problem = "no assistant utterance in it has eval true"
    raise UserError(path, problem, "mark some, or score all of them with --all-assistant")
