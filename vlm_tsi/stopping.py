"""Ctrl-C, SIGTERM and hang-ups, as ways to end a stream in good order.

Input: signals. Output: which came first. Invariant: only the first one is caught, and what
comes within `REPEAT` after it; a later one stops the program as always. A signal that is
ignored (nohup) stays ignored; the former handlers are back when the block ends.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

REPEAT = 2.0
"""Seconds: launchers pass a signal on that the terminal has sent already; that is no second."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def asked_to_stop(*, at_once: bool = False) -> Iterator[list[int]]:
    """Yield a list that the first of the signals fills.

    Args:
        at_once: raise KeyboardInterrupt as well, for a block that cannot look at the list.
    """
    asked: list[int] = []
    before: dict[int, Any] = {}

    since = 0.0

    def caught(number: int, frame: object) -> None:
        nonlocal since
        if not asked:
            asked.append(number)
            since = time.monotonic()
            if at_once:
                raise KeyboardInterrupt
        elif time.monotonic() - since > REPEAT:
            _give_back(before)
            signal.raise_signal(number)

    if threading.current_thread() is threading.main_thread():  # only it can catch signals
        before |= _set(caught)
    try:
        yield asked
    finally:
        _give_back(before)


def _set(handler: Callable[[int, object], None]) -> dict[int, Any]:
    """Set the handler; the former ones by signal."""
    found: dict[int, Any] = {number: signal.getsignal(number) for number in STOPS}
    former = {n: h for n, h in found.items() if h not in (signal.SIG_IGN, None)}
    for number in former:
        signal.signal(number, handler)
    return former


def _give_back(former: dict[int, Any]) -> None:
    for number, handler in former.items():
        signal.signal(number, handler)
