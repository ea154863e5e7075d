"""Real and simulated time, frames paced by it, and how long each step took.

Input: a file's frames in time order and a clock. Output: the frames, each no earlier than
its time, and a `LatencySummary`. Invariant: frames keep their order; a frame is delivered
or handed to `on_drop`, never both and never neither; the last frame is always delivered.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol, TypeVar


class Clock(Protocol):
    """Seconds since the stream began."""

    def now(self) -> float:
        """The time now, in seconds."""
        ...

    def wait_until(self, t: float) -> None:
        """Return when `now() >= t`; at once if that is so already."""
        ...


class RealClock:
    """Wall time; it reads 0 when first looked at, so that loading a model costs nothing."""

    def __init__(self) -> None:
        self._origin: float | None = None

    def now(self) -> float:
        """Seconds since the first look."""
        if self._origin is None:
            self._origin = time.perf_counter()
        return time.perf_counter() - self._origin

    def wait_until(self, t: float) -> None:
        """Sleep until `t`."""
        while (left := t - self.now()) > 0:
            time.sleep(left)


class SimClock:
    """Time that passes only when told: by a wait (at once) or by `advance`."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """The simulated time in seconds."""
        return self._now

    def wait_until(self, t: float) -> None:
        """Jump to `t`; time never runs backwards."""
        self._now = max(self._now, t)

    def advance(self, seconds: float) -> None:
        """Let work take `seconds`."""
        if seconds < 0:
            raise ValueError(f"seconds is {seconds!r}; time runs forwards, use >= 0")
        self._now += seconds


class _Timed(Protocol):
    @property
    def time(self) -> float: ...


F = TypeVar("F", bound=_Timed)


def paced(
    frames: Iterator[F], clock: Clock, on_drop: Callable[[F], object] = lambda frame: None
) -> Iterator[F]:
    """Deliver each frame when the clock reaches its time; drop what has gone stale.

    Rule: a frame is stale when the time of the frame after it has passed already, that is
    when the consumer is late by more than one frame gap. Stale frames go to `on_drop` and
    the newest frame that is due comes next. A consumer that is late by less loses nothing.

    Args:
        frames: a file's frames, in time order (one may be read ahead of its time).
        clock: real or simulated.
        on_drop: told of each dropped frame, e.g. `LatencyLog.drop`.
    """
    frame = next(frames, None)
    while frame is not None:
        ahead = None
        if clock.now() > frame.time:
            frame, ahead = _newest_due(frame, frames, clock, on_drop)
        clock.wait_until(frame.time)
        yield frame
        frame = ahead if ahead is not None else next(frames, None)


def _newest_due(
    frame: F, frames: Iterator[F], clock: Clock, on_drop: Callable[[F], object]
) -> tuple[F, F | None]:
    """The newest due frame, and the one read beyond it (None at the end)."""
    ahead = next(frames, None)
    while ahead is not None and clock.now() > ahead.time:
        on_drop(frame)
        frame, ahead = ahead, next(frames, None)
    return frame, ahead


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Step durations in seconds; `real_time_factor` is work per second of video.

    Below 1 the system keeps up. All are 0 where no step was made.
    """

    steps: int
    p50: float
    p95: float
    max: float
    real_time_factor: float
    dropped: int

    def __str__(self) -> str:
        return (
            f"{self.steps} frames, step p50 {self.p50 * 1e3:.1f} ms, p95 {self.p95 * 1e3:.1f} ms, "
            f"max {self.max * 1e3:.1f} ms, real-time factor {self.real_time_factor:.2f}, "
            f"dropped {self.dropped}"
        )


@dataclass(slots=True)
class LatencyLog:
    """Collects the duration of each step, and how much was not seen or not kept.

    Attributes:
        dropped: frames that came too fast.
        evicted: units that have left the stream's window, by kind.
    """

    durations: list[float] = field(default_factory=list)
    dropped: int = 0
    evicted: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Time the body as one step."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(time.perf_counter() - begin)

    def add(self, seconds: float) -> None:
        """Record one step's duration."""
        self.durations.append(seconds)

    def drop(self, frame: object = None) -> None:
        """Count one dropped frame (fits `paced`'s `on_drop`)."""
        self.dropped += 1

    def summary(self, video_seconds: float) -> LatencySummary:
        """Percentiles over the steps so far; `video_seconds` is the time streamed."""
        ordered = sorted(self.durations)
        factor = sum(ordered) / video_seconds if video_seconds > 0 else 0.0
        return LatencySummary(
            steps=len(ordered),
            p50=_nearest_rank(ordered, 0.50),
            p95=_nearest_rank(ordered, 0.95),
            max=ordered[-1] if ordered else 0.0,
            real_time_factor=factor,
            dropped=self.dropped,
        )

    def curve(self, most: int = 100) -> list[tuple[int, float, float]]:
        """At most `most` equal stretches of steps: the first one's number, median, longest (s)."""
        length = max(1, math.ceil(len(self.durations) / most))
        parts = [self.durations[k : k + length] for k in range(0, len(self.durations), length)]
        return [(k * length + 1, median(part), max(part)) for k, part in enumerate(parts)]


def _nearest_rank(ordered: list[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0
