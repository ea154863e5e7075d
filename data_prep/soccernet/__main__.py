"""Command line of the SoccerNet steps.

Input: a step's name and its options. Output: what the step writes, and its exit code.
Invariant: only the chosen step is imported, so that what another one needs may be missing.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from vlm_tsi.errors import Parser, command

PROG = "python -m data_prep.soccernet"


@dataclass(frozen=True, slots=True)
class Step:
    """A step: the module that has its `add_arguments` and `run`, what it does, an example."""

    module: str
    help: str
    example: str


STEPS = {
    "transcribe": Step(
        "transcribe",
        "videos -> transcripts with word times (Whisper)",
        "--videos /corpora/SoccerNet --out data/soccernet/transcripts",
    ),
    "import-echoes": Step(
        "echoes",
        "the public ASR release -> transcripts and timelines",
        "--echoes sn-echoes/Dataset --out data/echoes",
    ),
    "train-filter": Step(
        "pbp_train",
        "hand-labelled halves -> a play-by-play classifier, and how good it is",
        "--labels labels --out data/soccernet/filter",
    ),
    "filter": Step(
        "pbp_filter",
        "transcripts -> the same, each sentence marked as play-by-play or not",
        "--transcripts data/soccernet/transcripts --filter data/soccernet/filter "
        "--out data/soccernet/filtered",
    ),
    "build": Step(
        "build",
        "filtered transcripts -> timelines, clusters, splits, datapoints",
        "--transcripts data/soccernet/filtered --videos /corpora/SoccerNet "
        "--out data/soccernet/timelines",
    ),
    "all": Step(
        "everything",
        "train-filter, transcribe, filter and build, one after the other",
        "--videos /corpora/SoccerNet --labels labels --out data/soccernet",
    ),
}


def _module(step: str) -> ModuleType:
    return import_module(f"data_prep.soccernet.{STEPS[step].module}")


def parser_of(step: str) -> argparse.ArgumentParser:
    """The command line of one step."""
    parser = Parser(
        prog=f"{PROG} {step}",
        description=STEPS[step].help,
        epilog=f"Example: {PROG} {step} {STEPS[step].example}",
    )
    _module(step).add_arguments(parser)
    return parser


def _overview() -> argparse.ArgumentParser:
    lines = [f"  {name:14} {step.help}" for name, step in STEPS.items()]
    examples = [f"  {PROG} {name} {step.example}" for name, step in STEPS.items()]
    parser = Parser(
        prog=PROG,
        usage=f"{PROG} STEP …",
        description="SoccerNet: commentary of football matches -> timelines of play-by-play.\n\n"
        "steps (each has its own --help):\n" + "\n".join(lines),
        epilog="examples:\n" + "\n".join(examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("step", choices=STEPS, metavar="STEP", help=", ".join(STEPS))
    return parser


def run_step(step: str, args: argparse.Namespace) -> int:
    """Run one step with its own options, parsed."""
    return int(_module(step).run(args) or 0)


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    words = list(sys.argv[1:] if argv is None else argv)
    step = _overview().parse_args(words[:1]).step
    return run_step(step, parser_of(step).parse_args(words[1:]))


if __name__ == "__main__":
    sys.exit(main())
