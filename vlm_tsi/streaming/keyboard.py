"""Lines that a user types while the stream goes on.

Input: a file descriptor (the terminal's, or a pipe's). Output: whole lines, when asked.
Invariant: asking never waits; a line is given once; a last line without its newline counts.
"""

import os
import queue
import threading
from collections.abc import Iterable


class TypedLines:
    """Reads a descriptor in a thread of its own, which ends with the input or the program."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def take(self) -> list[str]:
        """The lines that have come since the last call, blank ones left out."""
        return [self._lines.get_nowait() for _ in range(self._lines.qsize())]

    def _read(self) -> None:
        """`os.read` holds no lock of Python's, so a program can end while it waits."""
        rest = b""
        while chunk := self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            self._put(lines)
        self._put([rest])

    def _chunk(self) -> bytes:
        try:
            return os.read(self._descriptor, 4096)
        except OSError:
            return b""

    def _put(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            text = " ".join(line.decode("utf-8", "replace").split())
            if text:
                self._lines.put(text)


def is_at_terminal(descriptor: int) -> bool:
    """A terminal that this program may read (it is not in the background)."""
    try:
        return os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp()
    except (OSError, AttributeError):
        return False
