"""All SoccerNet steps, one after the other.

Input: the videos; hand-labelled halves (or a trained filter). Output: in DIR `transcripts/`,
`filter/`, `filtered/` and `timelines/`, each as its own step leaves it.
Invariant: nothing is done here that the single steps would not do: each takes its own options
as they are given here, and `--resume`, `--workers`, `--executor`; what it would refuse is
refused before the first one begins.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from data_prep.common.options import add_options, options_of
from vlm_tsi.errors import UserError

STEPS = ("train-filter", "transcribe", "filter", "build")
"""Training first: it takes minutes, and bad labels show before hours of transcription."""
_OURS = {
    *("help", "videos", "out", "labels", "filter", "transcripts", "seed", "embedder"),
    *("limit", "resume", "workers", "executor"),
}
_RENAMED = {"model": ["--asr-model"]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `all`: its own, then those of each step."""
    parser.add_argument("--videos", required=True, metavar="ROOT", help="the corpus")
    parser.add_argument("--out", required=True, metavar="DIR", help="made if it is not there")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--labels", metavar="DIR", help="hand-labelled halves to train a filter on")
    source.add_argument("--filter", metavar="DIR", help="a filter that is trained already")
    parser.add_argument("--embedder", metavar="DIR", help="the filter's sentence embedder")
    parser.add_argument("--seed", type=int, help="of the filter's training and the splits")
    add_options(parser)
    taken: set[str] = set()
    for step in STEPS:
        group = parser.add_argument_group(f"options of {step}")
        for action in _options(step):
            assert action.dest not in taken, f"two steps have {action.dest}: say whose is meant"
            taken.add(action.dest)
            action.default = argparse.SUPPRESS  # what is not given is left to the step
            action.option_strings = _RENAMED.get(action.dest, action.option_strings)
            group._add_action(action)


def _options(step: str) -> Iterator[argparse.Action]:
    """A step's options that are not set here."""
    from data_prep.soccernet.__main__ import parser_of

    return (action for action in parser_of(step)._actions if action.dest not in _OURS)


def plan(args: argparse.Namespace) -> list[tuple[str, argparse.Namespace]]:
    """(step, its options) in order."""
    out = Path(args.out)
    transcripts, filtered, built = (str(out / x) for x in ("transcripts", "filtered", "timelines"))
    trained = args.filter or str(out / "filter")
    folders = {
        "train-filter": {"labels": args.labels, "out": trained},
        "transcribe": {"videos": args.videos, "out": transcripts},
        "filter": {"transcripts": transcripts, "filter": trained, "out": filtered},
        "build": {"transcripts": filtered, "videos": args.videos, "out": built},
    }
    steps = STEPS if args.filter is None else STEPS[1:]
    return [(step, _given(step, folders[step], args)) for step in steps]


def _given(step: str, folders: Mapping[str, str], args: argparse.Namespace) -> argparse.Namespace:
    """A step's options: its folders, what is given, else its defaults."""
    from data_prep.soccernet.__main__ import parser_of

    words = [f"--{name}={folder}" for name, folder in folders.items()]
    found: argparse.Namespace = parser_of(step).parse_args(words)
    counts_videos = step != "train-filter"  # labels are few, and all are needed
    for name, value in vars(args).items():
        if not hasattr(found, name) or name in folders or value is None:
            continue
        if name != "limit" or counts_videos:
            setattr(found, name, value)
    return found


def _check(args: argparse.Namespace, steps: list[tuple[str, argparse.Namespace]]) -> None:
    """What a later step would refuse shows before hours of transcription."""
    from data_prep.soccernet import build, pbp_filter, transcribe

    for name in ("videos", "labels", "filter"):
        folder = getattr(args, name)
        if folder is not None and not Path(folder).is_dir():
            raise UserError(f"--{name}", f"{folder} is no folder", "check the path")
    transcribe.find_halves(args.videos)
    checks = {
        "transcribe": transcribe.check_options,
        "filter": pbp_filter.check_options,
        "build": build.check_options,
    }
    for step, given in steps:
        if step in checks:
            checks[step](given)
    if args.filter is not None:
        _check_filter(args)


def _check_filter(args: argparse.Namespace) -> None:
    """A classifier that is given must be usable, and nothing is trained."""
    from data_prep.soccernet.pbp_filter import check_embedder
    from data_prep.soccernet.pbp_model import load
    from vlm_tsi.scoring.embed import find_embedder

    for action in _options("train-filter"):
        if hasattr(args, action.dest):
            problem = "is for training, and --filter is trained already"
            raise UserError(action.option_strings[0], problem, "leave one of them out")
    check_embedder(load(args.filter), find_embedder(args.embedder), args.filter)


def run(args: argparse.Namespace) -> int:
    """Run the steps; the first that fails ends it."""
    from data_prep.soccernet.__main__ import run_step

    options_of(args)
    steps = plan(args)
    _check(args, steps)
    for number, (step, given) in enumerate(steps, start=1):
        print(f"[{number}/{len(steps)}] {step}", flush=True)
        if code := run_step(step, given):
            return code
    return 0
