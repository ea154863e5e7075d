"""The options that the scoring commands share, and the checks of their values.

Input: an argparse parser, then its result. Output: `TraceParams`, and errors in one line.
Invariant: the defaults are the paper's; a value out of range is refused before anything is read.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args

from vlm_tsi.errors import UserError
from vlm_tsi.published import read_predictions, read_references
from vlm_tsi.scoring.groups import RESAMPLES
from vlm_tsi.scoring.params import Overlap, SwapRule, TraceParams, UnknownVideos
from vlm_tsi.timeline import Generated, Timeline, Utterance

CHOICES = {"overlap": Overlap, "swap_rule": SwapRule, "unknown_videos": UnknownVideos}
RELEASED: dict[str, Any] = {
    "overlap": "matched",
    "swap_rule": "new_pairs",
    "max_passes": 5,
    "unknown_videos": "ignore",
}
"""Where the paper's released code chooses otherwise than its text (docs/architecture.md)."""
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
    p.add_argument(
        "--ref",
        required=True,
        nargs="+",
        metavar="FILE",
        help="timelines .jsonl, or published .json; several are scored as one set",
    )
    p.add_argument(
        "--pred",
        required=True,
        nargs="+",
        metavar="FILE",
        help="generated utterances .jsonl, or published .csv; several are one system's",
    )
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
    released = " ".join(f"--{n.replace('_', '-')} {v}" for n, v in RELEASED.items())
    metric.add_argument(
        "--released",
        action="store_true",
        help=f"the choices of the paper's released code: {released}",
    )
    for option in fields(TraceParams):
        kind: dict[str, Any] = {"type": type(option.default)}
        if option.name in CHOICES:
            kind["choices"] = get_args(CHOICES[option.name])
        flag = "--" + option.name.replace("_", "-")
        text = f"{HELP[option.name]} (%(default)s)"
        metric.add_argument(flag, default=option.default, help=text, **kind)


def params_of(args: argparse.Namespace) -> TraceParams:
    """The metric's parameters among the options; a bad one is a UserError."""
    given = {f.name: getattr(args, f.name) for f in fields(TraceParams)}
    if args.released:
        for name, value in RELEASED.items():
            if given[name] not in (value, getattr(TraceParams(), name)):
                flag = f"--{name.replace('_', '-')} {given[name]}"
                raise UserError("--released", f"does not go with {flag}", "leave one of them out")
        given |= RELEASED
    try:
        return TraceParams(**given)
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


def check_references(paths: Sequence[str], references: Mapping[str, Sequence[Utterance]]) -> None:
    """Refuse files in which nothing is to be scored."""
    if any(references.values()):
        return
    problem = "no assistant utterance in it has eval true"
    mend = "mark some, or score all of them with --all-assistant"
    raise UserError(" ".join(paths), problem, mend)


def read_all_references(paths: Sequence[str]) -> tuple[list[Timeline], dict[str, str]]:
    """The timelines of all files, and the file that each video_id is in.

    Raises:
        UserError: a file cannot be read, or two of them have the same video_id.
    """
    owner: dict[str, str] = {}
    timelines = []
    for path in paths:
        for timeline in read_references(path):
            first = owner.setdefault(timeline.video_id, path)
            if first is not path:
                problem = f"video {timeline.video_id!r} is in {first} as well"
                raise UserError(path, problem, "name each video's references once")
            timelines.append(timeline)
    return timelines, owner


def read_all_predictions(paths: Sequence[str]) -> tuple[list[Generated], int]:
    """What all files say, and how many videos stand in several of them.

    Such a video's utterances are all scored: one system may have written it in pieces.
    """
    files = [read_predictions(path) for path in paths]
    held = Counter(v for said in files for v in {g.video_id for g in said})
    return [g for said in files for g in said], sum(n > 1 for n in held.values())
