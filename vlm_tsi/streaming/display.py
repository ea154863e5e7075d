"""What a user sees while a video streams.

Input: text as it forms, finished utterances, the stream's time. Output: lines on stdout
(one an utterance), a progress bar on stderr. Invariant: stdout holds only what was said and
heard; bar and half-formed text are shown on a terminal alone and leave no trace. Once stdout
is closed or hung up (`is_gone`) nothing more is shown, and nothing fails.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from vlm_tsi.streaming.live import Watcher
from vlm_tsi.timeline import Generated


class Display(Watcher):
    """Use as a context manager.

    Args:
        seconds: the video's length, None where nobody knows it.

    Attributes:
        problem: why nothing more is shown, if so.
    """

    def __init__(self, seconds: float | None) -> None:
        self._bar = _bar()
        self._task = self._bar.add_task("", total=seconds)
        self._forming = Text()
        self._live: Live | None = None
        self.problem: str | None = None
        out, err = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
        if out or err:
            self._live = Live(
                Group(self._forming, self._bar) if err else self._forming,
                console=Console(stderr=err),
                transient=True,
                redirect_stdout=out,
                redirect_stderr=err,
            )

    def __enter__(self) -> "Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            with suppress(OSError):  # a terminal that has hung up
                self._live.stop()

    def at(self, time: float) -> None:
        """The stream has come to `time` (s)."""
        self._bar.update(self._task, completed=time, description=f"{time:.1f} s")

    def forming(self, start: float, text: str) -> None:
        """An utterance so far."""
        self._show(f"[{start:7.2f}] {text}…")

    def said(self, spoken: Generated) -> None:
        """A finished utterance."""
        self._show("")
        self._print(f"[{spoken.start:7.2f} - {spoken.end:7.2f}] {spoken.text}")

    def heard(self, time: float, text: str) -> None:
        """Something that a user typed."""
        self._print(f"[{time:7.2f}] user: {text}")

    def _print(self, line: str) -> None:
        if self.is_gone:
            return
        try:
            print(line, flush=True)
        except OSError as err:
            self.is_gone = True
            self.problem = f"nothing can be written to stdout ({err.strerror})"
            with suppress(OSError, ValueError):  # what is buffered goes nowhere at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _show(self, line: str) -> None:
        self._forming.plain = line
        if self._live and not self.is_gone:
            with suppress(OSError):
                self._live.refresh()


def _is_terminal(stream: TextIO | None) -> bool:
    """A closed stream (`>&-`) is None."""
    return stream is not None and stream.isatty()


def _bar(disable: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=disable,
    )


@contextmanager
def counting() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for `done of total`; silent where stderr is no terminal."""
    with _bar(disable=not _is_terminal(sys.stderr)) as bar:
        task = bar.add_task("datapoints")

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=f"{done}/{total} datapoints")

        yield show


def note(line: str) -> None:
    """A line for the user that is not part of what was said."""
    with suppress(OSError):  # a terminal that has hung up
        print(line, file=sys.stderr, flush=True)
