"""Video -> frames, by the timestamps the video carries.

Input: a video file (any codec, rate, bit depth, rotation), a camera or a stream's URL.
Output: `Frame` values (time in s, running index, upright uint8 RGB), and `VideoInfo`.
Invariant: times are PTS less the first frame's PTS and strictly increase; there is at most
one frame for each cell [k/fps, (k+1)/fps) of the video's own clock; a frame that is not
delivered is never converted to RGB. What cannot be read raises a UserError; what is cut
short or damaged yields what decodes, then one warning.

Rule for odd timestamps: a frame without PTS takes its packet's DTS, and without that one
frame gap after the last; a frame not later than the last is left out (and counted), except
that a jump back by `RESTART` seconds or more restarts the clock one gap after the last.

Shapes: H height, W width, C = 3.
"""

import contextlib
import math
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from vlm_tsi.errors import UserError
from vlm_tsi.video.opening import FETCH, opened, opened_live, said_duration
from vlm_tsi.video.pixels import display_matrix, to_rgb

EPSILON = 1e-6
"""Seconds by which a frame may come before its grid point and still meet it."""
RESTART = 1.0
"""Seconds: a jump back this large is a restarted clock, a smaller one a stray frame."""
SEEK_FROM = 10.0
"""Seconds: a window that starts earlier is reached by decoding from the beginning."""
_SEEK_MARGIN = 1.0

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a file says of itself; width and height are those after rotation.

    `duration` (s) and `rate` (frames/s, average) are None where the file does not say;
    `rotation` is clockwise, one of 0, 90, 180, 270.
    """

    width: int
    height: int
    duration: float | None
    rotation: int
    rate: float | None
    codec: str
    pixel_format: str


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A delivered frame: time (s), running index from 0, upright RGB uint8 [H,W,3]."""

    time: float
    idx: int
    rgb_HWC: np.ndarray


@dataclass(frozen=True, slots=True)
class _Wish:
    """Which frames are wanted, and how large."""

    fps: float | None
    size: int | None
    start: float = 0.0
    end: float = math.inf

    def __post_init__(self) -> None:
        if self.fps is not None and not 0 < self.fps < math.inf:
            raise UserError("fps", f"{self.fps} is not a rate", "use a number above 0")
        if self.size is not None and self.size < 1:
            raise UserError("size", f"{self.size} is not a size", "use 1 pixel or more")
        if not 0 <= self.start <= self.end:
            window = f"{self.start} to {self.end} is not a span of time"
            raise UserError("start, end", window, "use 0 <= start <= end, in seconds")

    def cell(self, t: float) -> float:
        """The grid cell that `t` falls in; each frame is its own cell without fps."""
        return t if self.fps is None else math.floor((t + EPSILON) * self.fps)

    @property
    def begin(self) -> float:
        """Where the first wanted cell begins (s): reading from here shows all of it."""
        return self.start if self.fps is None else max(0.0, self.cell(self.start) / self.fps)


@dataclass(slots=True)
class _Tally:
    """What was met on the way, for the one warning at the end."""

    decoded: int = 0
    damaged: int = 0
    stray: int = 0
    broke_off: str = ""
    reached: float = 0.0

    def line(self, name: str, duration: float | None) -> str | None:
        """The warning, or None if all was well."""
        missing = 0.0 if duration is None else duration - self.reached
        parts = []
        if duration is not None and missing > max(1.0, 0.05 * duration):
            parts.append(f"ends at {self.reached:.1f} s though its header says {duration:.1f} s")
        if self.broke_off:
            parts.append(f"breaks off ({self.broke_off})")
        if self.damaged:
            parts.append(f"{self.damaged} damaged packets")
        if self.stray:
            parts.append(f"{self.stray} frames out of time order left out")
        if not parts:
            return None
        return f"{name}: {', '.join(parts)}; {self.decoded} frames decoded; fetch the file again"


class _Clock:
    """Timestamps -> seconds since the first frame, strictly increasing (None: stray)."""

    def __init__(self, stream: VideoStream) -> None:
        self.time_base = stream.time_base or Fraction(1, 90_000)
        self.gap = float(1 / (stream.average_rate or stream.guessed_rate or 25))
        self.origin: int | None = None
        self.last = -math.inf

    def time(self, frame: VideoFrame) -> float | None:
        """The frame's time (s), or None if it is to be left out."""
        pts = frame.pts if frame.pts is not None else frame.dts
        due = 0.0 if self.last < 0 else self.last + self.gap
        if pts is None:
            self.last = due
            return due
        if self.origin is None:
            self.origin = pts - round(due / self.time_base)
        t = self.seconds(pts - self.origin)
        if self.last - t >= RESTART:
            self.origin, t = pts - round(due / self.time_base), due
        if t <= self.last:
            return None
        self.last = t
        return t

    def seconds(self, ticks: int) -> float:
        """Ticks of the time base as seconds, rounded once."""
        return ticks * self.time_base.numerator / self.time_base.denominator

    def ticks(self, t: float) -> int:
        """The PTS at `t` s."""
        return (self.origin or 0) + math.floor(t / self.time_base)


def probe(path: str | Path) -> VideoInfo:
    """What is in a video file; decodes its first frame.

    Raises:
        UserError: missing, a folder, empty, not a video, no video in it, nothing decodes.
    """
    with opened(Path(path)) as (container, stream):
        frame = next(_decode(container, stream, _Tally()), None)
        if frame is None:
            raise _no_frame(path)
        matrix = display_matrix(frame)
        is_turned = matrix[0] == 0 if matrix else False
        width, height = frame.width, frame.height
        return VideoInfo(
            width=height if is_turned else width,
            height=width if is_turned else height,
            duration=said_duration(container, stream),
            rotation=round(-frame.rotation / 90) % 4 * 90,
            rate=float(stream.average_rate) if stream.average_rate else None,
            codec=stream.codec_context.name,
            pixel_format=frame.format.name,
        )


def iter_frames(
    path: str | Path,
    *,
    fps: float | None = 2.0,
    size: int | None = None,
    start: float = 0.0,
    end: float | None = None,
    on_warning: Warn | None = None,
) -> Iterator[Frame]:
    """Frames of a file, at most one for each cell [k/fps, (k+1)/fps): the first in it.

    Args:
        path: a video file; of several video streams the first that is no cover picture.
        fps: frames a second on the video's clock; None delivers every frame.
        size: longest side scaled to this many pixels and padded with black to a square
            (pixels are taken as square); None keeps the frame's size.
        start: frames with time >= start (s); the same ones as of the whole video.
        end: frames with time < end (s); None reads to the end.
        on_warning: takes the one line on a damaged or truncated file; stderr otherwise.

    Raises:
        UserError: an argument or the file cannot be used (see `probe`); the file's errors
            come with the first frame.
    """
    wish = _Wish(fps, size, start, math.inf if end is None else end)
    return _iter_file(Path(path), wish, on_warning or to_stderr)


def iter_camera(
    device_or_url: str | int,
    *,
    fps: float | None = 2.0,
    size: int | None = None,
    on_warning: Warn | None = None,
) -> Iterator[Frame]:
    """Frames of a camera (0, /dev/video0) or a stream (rtsp://…) as they arrive.

    Waits for each frame; the time is the source's timestamp less the first one's. Frames
    that arrive between two grid points are passed over. See `iter_frames` for the rest.

    Raises:
        UserError: it cannot be opened, or no frame arrives.
    """
    return _iter_live(str(device_or_url), _Wish(fps, size), on_warning or to_stderr)


def open_source(
    source: str | int | Path,
    *,
    fps: float | None = 2.0,
    size: int | None = None,
    on_warning: Warn | None = None,
) -> Iterator[Frame]:
    """A camera for a number or /dev/video*, a stream for a URL, else a file."""
    if is_live(source):
        return iter_camera(str(source), fps=fps, size=size, on_warning=on_warning)
    return iter_frames(str(source), fps=fps, size=size, on_warning=on_warning)


def is_live(source: str | int | Path) -> bool:
    """Whether `open_source` takes it as a camera or stream rather than a file."""
    name = str(source)
    return name.isdecimal() or name.startswith("/dev/video") or "://" in name


def _iter_file(path: Path, wish: _Wish, warn: Warn) -> Iterator[Frame]:
    tally = _Tally()
    with opened(path) as (container, stream):
        clock = _Clock(stream)
        if wish.begin > SEEK_FROM:
            clock.origin = _seekable_origin(path, wish.begin)
            if clock.origin is not None:
                _seek(container, stream, clock, wish.begin)
        timed = _timed(_decode(container, stream, tally), clock, tally)
        is_whole = yield from _sample(timed, wish)
        if not tally.decoded:
            raise _no_frame(path)
        line = tally.line(str(path), said_duration(container, stream)) if is_whole else None
        if line is not None:
            warn(line)


def _seek(container: InputContainer, stream: VideoStream, clock: _Clock, begin: float) -> None:
    container.seek(clock.ticks(begin - _SEEK_MARGIN), stream=stream)


def _seekable_origin(path: Path, begin: float) -> int | None:
    """The first frame's PTS if a seek lands at or before `begin` s, else None."""
    with opened(path) as (container, stream), contextlib.suppress(av.FFmpegError):
        clock = _Clock(stream)
        first = next(_decode(container, stream, _Tally()), None)
        if first is None or first.pts is None:
            return None
        clock.origin = first.pts
        _seek(container, stream, clock, begin)
        landed = next(_decode(container, stream, _Tally()), None)
        if landed is not None and landed.pts is not None:
            is_early = clock.seconds(landed.pts - first.pts) <= begin
            return first.pts if is_early else None
    return None


def _iter_live(name: str, wish: _Wish, warn: Warn) -> Iterator[Frame]:
    tally = _Tally()
    with opened_live(name) as (container, stream):
        yield from _sample(_timed(_decode(container, stream, tally), _Clock(stream), tally), wish)
    if not tally.decoded:
        raise UserError(name, "no frame arrives", "check that the camera or stream is on")
    if line := tally.line(name, None):
        warn(line)


def _sample(timed: Iterator[tuple[float, VideoFrame]], wish: _Wish) -> Generator[Frame, None, bool]:
    """Yield the first frame of each cell in the window; returns whether all was read."""
    reformatter, idx, last_cell = VideoReformatter(), 0, -math.inf
    for t, frame in timed:
        if t >= wish.end:
            return False
        cell = wish.cell(t)
        if cell <= last_cell:
            continue
        last_cell = cell
        if t >= wish.start:
            yield Frame(t, idx, to_rgb(frame, wish.size, reformatter))
            idx += 1
    return True


def _timed(
    frames: Iterator[VideoFrame], clock: _Clock, tally: _Tally
) -> Iterator[tuple[float, VideoFrame]]:
    for frame in frames:
        t = clock.time(frame)
        if t is None:
            tally.stray += 1
            continue
        tally.reached = t + (clock.seconds(frame.duration) or clock.gap)
        yield t, frame


def _decode(container: InputContainer, stream: VideoStream, tally: _Tally) -> Iterator[VideoFrame]:
    """Frames in order of presentation; a damaged packet is counted and passed over."""
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except (av.FFmpegError, OSError) as err:
            tally.broke_off = str(getattr(err, "strerror", None) or err)
            packet = None
        if packet is None:
            return
        try:
            frames = packet.decode()
        except av.EOFError:
            return
        except (av.FFmpegError, OSError):
            tally.damaged += 1
            continue
        tally.damaged += packet.is_corrupt
        tally.decoded += len(frames)
        yield from frames


def _no_frame(path: str | Path) -> UserError:
    return UserError(path, "no frame of it can be decoded", FETCH)


def to_stderr(line: str) -> None:
    """Print a warning: what becomes of one that nobody takes."""
    print(f"warning: {line}", file=sys.stderr)
