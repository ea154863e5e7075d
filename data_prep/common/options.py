"""The options that all steps share, so that scripts spell them once.

Input: an argparse parser, then its result. Output: `Options`.
Invariant: a value out of range is refused before anything is read.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

from vlm_tsi.errors import UserError
from vlm_tsi.files import writable_folder

Executor = Literal["process", "ray"]
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a step runs; none of it changes what comes out.

    Attributes:
        workers: processes side by side (Ray: tasks side by side).
        executor: a local process pool, or Ray (`RAY_ADDRESS` names a cluster).
        resume: keep what an earlier run of the same settings has finished.
        limit: take the first so many items only.
    """

    workers: int = 1
    executor: Executor = "process"
    resume: bool = False
    limit: int | None = None

    def first(self, items: list[_T]) -> list[_T]:
        """The items within the limit."""
        return items if self.limit is None else items[: self.limit]


def add_options(parser: argparse.ArgumentParser, *, parallel: bool = True) -> None:
    """Add the shared options; those of parallel work only where there is any."""
    group = parser.add_argument_group("how to run")
    group.add_argument("--limit", type=int, metavar="N", help="only the first N items")
    group.add_argument(
        "--resume", action="store_true", help="keep what an earlier run with these settings did"
    )
    if parallel:
        group.add_argument("--workers", type=int, default=1, metavar="N", help="default: 1")
        group.add_argument(
            "--executor",
            choices=get_args(Executor),
            default="process",
            help="local processes (default), or Ray: on this machine, or where RAY_ADDRESS says",
        )


def output_folder(out: str, *inputs: str) -> Path:
    """The output's folder, made and writable; no folder that is read from.

    Raises:
        UserError: it is one of the inputs, or cannot be written.
    """
    for source in inputs:
        if Path(out).resolve() == Path(source).resolve():
            raise UserError("--out", f"{out} is the folder that is read", "name another one")
    return writable_folder(out)


def options_of(args: argparse.Namespace) -> Options:
    """Checked options from a parsed command line."""
    for name in ("workers", "limit"):
        value = getattr(args, name, None)
        if value is not None and value < 1:
            raise UserError(f"--{name}", f"is {value}", "give 1 or more")
    return Options(
        workers=getattr(args, "workers", 1),
        executor=getattr(args, "executor", "process"),
        resume=args.resume,
        limit=args.limit,
    )
