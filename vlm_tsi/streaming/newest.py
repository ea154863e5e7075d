"""The newest frame of a live source.

Input: frames as a camera gives them. Output: each time the one that came last.
Invariant: frames keep their order; a frame is delivered or handed to `on_drop`; what the
source raises is raised to the reader; the last frame is always delivered.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

F = TypeVar("F")


class Newest(Generic[F]):
    """Iterate over what has come last; a thread of its own keeps up with the source."""

    def __init__(self, frames: Iterator[F], on_drop: Callable[[F], object]) -> None:
        self._frames, self._on_drop = frames, on_drop
        self._slot: list[F] = []
        self._error: BaseException | None = None
        self._ended = False
        self._changed = threading.Condition()
        threading.Thread(target=self._pull, daemon=True).start()

    def __iter__(self) -> Iterator[F]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._slot or self._ended)
                frames, self._slot = self._slot, []
            if not frames:
                break
            yield frames[0]
        if self._error is not None:
            raise self._error

    def _pull(self) -> None:
        try:
            for frame in self._frames:
                self._offer(frame)
        except BaseException as err:  # noqa: B036 (it is raised where the frames are read)
            self._error = err
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _offer(self, frame: F) -> None:
        with self._changed:
            for stale in self._slot:
                self._on_drop(stale)
            self._slot = [frame]
            self._changed.notify()
