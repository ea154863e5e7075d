"""Ctrl-C, SIGTERM and hang-ups, as ways to end a stream in good order.

Input: signals. Output: which came first. Invariant: only the first one is caught, so that a
second one stops the program as always; a signal that is ignored (nohup) stays ignored; the
former handlers are back when the block ends.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def asked_to_stop(*, at_once: bool = False) -> Iterator[list[int]]:
    """Yield a list that the first of the signals fills.

    Args:
        at_once: raise KeyboardInterrupt as well, for a block that cannot look at the list.
    """
    asked: list[int] = []
    before: dict[int, Any] = {}

    def once(number: int, frame: object) -> None:
        asked.append(number)
        _give_back(before)
        if at_once:
            raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():  # only it can catch signals
        before |= _caught(once)
    try:
        yield asked
    finally:
        _give_back(before)


def _caught(handler: Callable[[int, object], None]) -> dict[int, Any]:
    """Set the handler; the former ones by signal."""
    found: dict[int, Any] = {number: signal.getsignal(number) for number in STOPS}
    former = {n: h for n, h in found.items() if h not in (signal.SIG_IGN, None)}
    for number in former:
        signal.signal(number, handler)
    return former


def _give_back(former: dict[int, Any]) -> None:
    for number, handler in former.items():
        signal.signal(number, handler)
