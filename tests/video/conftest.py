"""Small clips of odd kinds, made with PyAV; nothing is downloaded.

Output: `clip`, which writes one and returns its path.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

Clip = Callable[..., Path]


def picture(i: int, height: int, width: int) -> np.ndarray:
    """A picture that differs from frame to frame and is not symmetric."""
    rgb_HWC = np.full((height, width, 3), 40 + 5 * i % 160, np.uint8)
    rgb_HWC[: height // 2, : width // 2] = (230, 20, 20)
    rgb_HWC[height // 2 :, : width // 2] = (20, 20, 230)
    return rgb_HWC


def write_clip(
    path: Path,
    times: Sequence[float],
    *,
    height: int = 48,
    width: int = 64,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    rotate: float | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    tick: Fraction = Fraction(1, 90_000),
) -> Path:
    """Write one video stream with a frame at each of `times` (s), to the nearest `tick`."""
    with av.open(str(path), "w", container_options=container_options) as out:
        stream = out.add_stream(codec, rate=25, options=options or {})
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        stream.codec_context.time_base = tick
        stream.codec_context.thread_count = 1
        if rotate is not None:
            stream.set_display_rotation(rotate)
        for i, t in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(i, height, width), format="rgb24")
            frame.pts, frame.time_base = round(t / tick), tick
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


@pytest.fixture
def clip(tmp_path: Path) -> Clip:
    """`clip(name, times, **how)` -> the path of a new clip."""
    return lambda name, times, **how: write_clip(tmp_path / name, times, **how)
