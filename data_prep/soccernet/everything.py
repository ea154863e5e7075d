"""All SoccerNet steps, one after the other.

Input: the videos; hand-labelled halves (or a trained filter). Output: in DIR `transcripts/`,
`filter/`, `filtered/` and `timelines/`, each as its own step leaves it.
Invariant: nothing is done here that the single steps would not do; `--resume` goes to each.
"""

import argparse
from pathlib import Path

from data_prep.common.options import add_options, options_of
from vlm_tsi.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `all`."""
    parser.add_argument("--videos", required=True, metavar="ROOT", help="the corpus")
    parser.add_argument("--out", required=True, metavar="DIR", help="made if it is not there")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--labels", metavar="DIR", help="hand-labelled halves to train a filter on")
    source.add_argument("--filter", metavar="DIR", help="a filter that is trained already")
    parser.add_argument("--asr-model", metavar="MODEL", help="transcribe's --model")
    parser.add_argument("--embedder", metavar="DIR", help="the filter's sentence embedder")
    parser.add_argument("--seed", type=int, help="of the filter's training and the splits")
    add_options(parser)


def plan(args: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """(step, its command line) in order."""
    out = Path(args.out)
    filter_dir = args.filter or str(out / "filter")
    run = _how_to_run(args)
    limit = [] if args.limit is None else ["--limit", str(args.limit)]
    seed = [] if args.seed is None else ["--seed", str(args.seed)]
    model = [] if args.asr_model is None else ["--model", args.asr_model]
    embedder = [] if args.embedder is None else ["--embedder", args.embedder]
    transcripts, filtered = str(out / "transcripts"), str(out / "filtered")
    steps = [
        ("transcribe", ["--videos", args.videos, "--out", transcripts, *model, *limit, *run]),
        ("filter", ["--transcripts", transcripts, "--filter", filter_dir, "--out", filtered,
                    *embedder, *run]),
        ("build", ["--transcripts", filtered, "--videos", args.videos,
                   "--out", str(out / "timelines"), *seed, *run]),
    ]  # fmt: skip
    if args.filter is None:  # --limit counts videos: labels are few, and all are needed
        train = ["--labels", args.labels, "--out", filter_dir, *seed, *embedder, *run]
        steps.insert(0, ("train-filter", train))  # minutes, and bad labels show before hours
    return steps


def _check_filter(args: argparse.Namespace) -> None:
    """A classifier that cannot be used shows before hours of transcription."""
    from data_prep.soccernet.pbp_filter import check_embedder
    from data_prep.soccernet.pbp_model import load
    from vlm_tsi.scoring.embed import find_embedder

    check_embedder(load(args.filter), find_embedder(args.embedder), args.filter)


def _how_to_run(args: argparse.Namespace) -> list[str]:
    run = ["--workers", str(args.workers), "--executor", args.executor]
    return [*run, "--resume"] if args.resume else run


def run(args: argparse.Namespace) -> int:
    """Run the steps; the first that fails ends it."""
    from data_prep.soccernet.__main__ import parser_of, run_step

    options_of(args)
    for name in ("videos", "labels", "filter"):
        folder = getattr(args, name)
        if folder is not None and not Path(folder).is_dir():
            raise UserError(f"--{name}", f"{folder} is no folder", "check the path")
    steps = plan(args)
    for step, argv in steps:  # a step's missing extra or bad option shows before the work
        parser_of(step).parse_args(argv)
    if args.filter is not None:
        _check_filter(args)
    for number, (step, argv) in enumerate(steps, start=1):
        print(f"[{number}/{len(steps)}] {step}", flush=True)
        if code := run_step(step, argv):
            return code
    return 0
