"""Frames -> mp4 (H.264, yuv420p) that plays everywhere.

Input: uint8 RGB frames [H,W,3], at a fixed rate or each with its own time (s).
Output: one mp4 file. Invariant: the same frames give the same bytes (one encoder thread, no
clock read); times survive to 1/90,000 s; the file appears whole or not at all.
An odd width or height is made even by repeating the last column or row.
"""

import contextlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import numpy as np
from av.container import OutputContainer
from av.video.stream import VideoStream

from vlm_tsi.files import atomic_path

TIME_BASE = Fraction(1, 90_000)
"""Seconds: 24, 25, 30 and 29.97 frames a second all fall on it exactly."""
_LIMITED_RANGE, _BT601 = 1, 6  # FFmpeg's numbers for what the conversion below makes


def write_mp4(
    path: str | Path,
    frames: Iterable[np.ndarray],
    fps: float,
    crf: int = 18,
    preset: str = "ultrafast",
) -> int:
    """Write uint8 frames [H,W,3] at `fps`; returns how many.

    Args:
        path: where to write; the container is mp4 whatever the suffix.
        frames: all of one size.
        fps: frames a second, above 0.
        crf: x264's constant quality, 0 (lossless) to 51.
        preset: x264's speed against size, "ultrafast" to "veryslow".

    Raises:
        UserError: the file cannot be written.
        ValueError: no frame, another shape or dtype, a bad fps.
    """
    with Mp4Writer(path, fps, crf=crf, preset=preset) as writer:
        for rgb_HWC in frames:
            writer.write(rgb_HWC)
    return writer.count


class Mp4Writer:
    """Write an mp4 frame by frame; leaving the `with` block by an error leaves no file."""

    def __init__(
        self, path: str | Path, fps: float, *, crf: int = 18, preset: str = "ultrafast"
    ) -> None:
        """Set up; nothing is written before the `with` block.

        Args:
            path: where to write.
            fps: the rate of frames written without a time, and the length of the last.
            crf: x264's constant quality.
            preset: x264's preset.
        """
        if not 0 < fps <= 1000:
            raise ValueError(f"fps is {fps}; use more than 0, at most 1000")
        self.path, self.fps, self.count = Path(path), fps, 0
        self._options = {"crf": str(crf), "preset": preset, "threads": "1"}
        self._shape: tuple[int, ...] = ()
        self._last_pts = -1
        self._container: OutputContainer | None = None

    def __enter__(self) -> Self:
        self._whole = self._session()
        self._whole.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._whole.__exit__(kind, err, trace)

    @contextlib.contextmanager
    def _session(self) -> Iterator[None]:
        with atomic_path(self.path) as temp, temp.open("wb") as self._file:
            try:
                yield
                if self._container is None:
                    raise ValueError(f"{self.path}: no frame to write")
                self._container.mux(self._stream.encode(None))
            finally:
                if self._container is not None:
                    self._container.close()

    def write(self, rgb_HWC: np.ndarray, time: float | None = None) -> None:
        """Add one frame: uint8 [H,W,3], at `time` (s; count / fps if None).

        Raises:
            ValueError: another shape or dtype than the first, or a time not after the last.
        """
        pts = round((self.count / self.fps if time is None else time) / TIME_BASE)
        if pts <= self._last_pts:
            raise ValueError(f"time {time} s is not after the last frame's")
        container = self._container or self._open(rgb_HWC)
        if rgb_HWC.shape != self._shape or rgb_HWC.dtype != np.uint8:
            found = f"{rgb_HWC.dtype}{list(rgb_HWC.shape)}"
            raise ValueError(f"frame {self.count} is {found}, not uint8{list(self._shape)}")
        frame = av.VideoFrame.from_ndarray(_even(rgb_HWC), format="rgb24")
        frame.pts, frame.time_base = pts, TIME_BASE
        frame.duration = round(1 / self.fps / TIME_BASE)
        container.mux(self._stream.encode(frame))
        self._last_pts = pts
        self.count += 1

    def _open(self, rgb_HWC: np.ndarray) -> OutputContainer:
        if rgb_HWC.ndim != 3 or rgb_HWC.shape[2] != 3 or 0 in rgb_HWC.shape:
            raise ValueError(f"a frame of shape {list(rgb_HWC.shape)}; use [H,W,3]")
        self._shape = rgb_HWC.shape
        height, width = (n + n % 2 for n in rgb_HWC.shape[:2])
        self._container = av.open(self._file, "w", format="mp4")
        rate = Fraction(self.fps).limit_denominator(1001)
        self._stream = self._container.add_stream("libx264", rate=rate, options=self._options)
        _describe(self._stream, width, height)
        return self._container


def _describe(stream: VideoStream, width: int, height: int) -> None:
    context = stream.codec_context
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    context.time_base = TIME_BASE
    context.thread_count = 1
    context.color_range = _LIMITED_RANGE
    context.colorspace = context.color_primaries = context.color_trc = _BT601


def _even(rgb_HWC: np.ndarray) -> np.ndarray:
    height, width = rgb_HWC.shape[:2]
    if height % 2 or width % 2:
        rgb_HWC = np.pad(rgb_HWC, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
    return np.ascontiguousarray(rgb_HWC)
