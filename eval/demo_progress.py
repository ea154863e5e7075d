"""How far trainings that run side by side have come.

Input: their log files, which grow by lines such as `step 40/600 …`. Output: a bar each where
stderr is a terminal, else a line a minute. Invariant: only reads; ends when it is told to.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

EVERY, TOLD_EVERY = 1.0, 60.0
"""Seconds between two looks, and between two lines where there is no terminal."""
_STEP = re.compile(r"^step (\d+)/(\d+)", re.M)


def steps_done(log: Path) -> tuple[int, int] | None:
    """(steps done, of how many) by a log's last such line."""
    found = _STEP.findall(log.read_text(errors="replace")) if log.is_file() else []
    return (int(found[-1][0]), int(found[-1][1])) if found else None


@contextmanager
def followed(logs: Sequence[Path], names: Sequence[str], console: Console) -> Iterator[None]:
    """Show the logs' progress while the block runs."""
    done = threading.Event()
    thread = threading.Thread(target=_follow, args=(logs, names, console, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _follow(
    logs: Sequence[Path], names: Sequence[str], console: Console, done: threading.Event
) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as bars:  # fmt: skip
        tasks = [bars.add_task(name, total=None) for name in names]
        waited = 0.0
        while not done.wait(EVERY):
            steps = [steps_done(log) for log in logs]
            for task, step in zip(tasks, steps, strict=True):
                if step is not None:
                    bars.update(task, completed=step[0], total=step[1])
            waited += EVERY
            if not console.is_terminal and waited % TOLD_EVERY < EVERY:
                console.print(line(names, steps), highlight=False)


def line(names: Sequence[str], steps: Sequence[tuple[int, int] | None]) -> str:
    """`tsi 20/600, turn_based starting`."""
    told = [f"{s[0]}/{s[1]}" if s else "starting" for s in steps]
    return ", ".join(f"{name} {at}" for name, at in zip(names, told, strict=True))
