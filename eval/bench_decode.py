"""Reading a video at the sampling rate, beside decoding alone and converting every frame.

Input: two made videos of the corpora's kinds (H.264 with B-frames): 398 x 224 at 25 frames a
second, 1280 x 720 at 30. Output: rows in the video's own frames a second.
Invariant: all sides decode the same file with the same thread settings and agree on frames,
times and pixels before they are timed.
"""

import contextlib
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from eval.bench_timing import Bench, Row, Sides, rate_row, time_sides
from vlm_tsi.video.reader import iter_frames
from vlm_tsi.video.writer import write_mp4

FPS, SIZE = 2.0, 384
"""Frames a second that are sampled; side of the square that the model sees (SigLIP's)."""
UNIT = "video frames/s"
Frames = list[tuple[float, np.ndarray]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of video: frame size in pixels, frames a second, length in seconds."""

    width: int
    height: int
    rate: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


KINDS = (Kind(398, 224, 25, 60), Kind(1280, 720, 30, 20))
"""As SoccerNet's and HoloAssist's."""


def rows(bench: Bench) -> list[Row]:
    """All rows of the section."""
    found: list[Row] = []
    kinds = [replace(kind, seconds=3) for kind in KINDS] if bench.smoke else KINDS
    paths = {kind: make_video(bench.folder / f"{kind}.mp4", kind) for kind in kinds}
    for kind, path in paths.items():
        found += reading_rows(bench, kind, path)
    return [*found, workers_row(bench, paths[kinds[0]])]


def reading_rows(bench: Bench, kind: Kind, path: Path) -> list[Row]:
    """Our reader beside the peers, on one video."""
    count = kind.seconds * kind.rate
    check_equal(path, kind, count)
    sides: Sides = {
        "ours": partial(sampled, path),
        "plain": partial(decode_only, path),
        "every": partial(convert_every, path, kind),
        "kept": partial(convert_every, path, kind, VideoReformatter()),
        "whole": partial(preprocess_every, path, kind),
    }
    seconds = time_sides(sides, bench.rounds)
    is_aim = kind.rate == KINDS[0].rate  # the aims are for 25 frames a second
    least, most = (0.9, 5.0) if is_aim else (None, None)
    return [
        rate_row(f"{kind} / decoding only", UNIT, seconds, "plain", count, least),
        rate_row(f"{kind} / each frame preprocessed", UNIT, seconds, "whole", count, most),
        rate_row(f"{kind} / each frame to RGB", UNIT, seconds, "every", count),
        rate_row(f"{kind} / so, one converter", UNIT, seconds, "kept", count),
    ]


def check_equal(path: Path, kind: Kind, count: int) -> None:
    """Same frames, same times, and pixels that differ by rounding and order of steps only."""
    ours, peer = sampled(path), convert_every(path, kind)
    every = preprocess_every(path, kind)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(peer, every, strict=True))
    assert decode_only(path) == count, "plain decoding does not see every frame"
    assert [t for t, _ in ours] == [t for t, _ in peer], "other frames are sampled"
    for (_, a), (_, b) in zip(ours, peer, strict=True):
        assert a.shape == b.shape == (SIZE, SIZE, 3) and a.dtype == b.dtype == np.uint8
        difference = np.abs(a.astype(int) - b).mean()
        assert difference < 4, f"pixels differ by {difference:.1f} of 255"


def sampled(path: Path) -> Frames:
    """Ours: frames at the sampling rate, scaled, padded, RGB."""
    return [(f.time, f.rgb_HWC) for f in iter_frames(path, fps=FPS, size=SIZE)]


def decode_only(path: Path) -> int:
    """How many frames there are."""
    with decoding(path) as frames:
        return sum(1 for _ in frames)


def convert_every(path: Path, kind: Kind, converter: VideoReformatter | None = None) -> Frames:
    """Each frame to an RGB array, then every 12th or 13th (15th) is taken and scaled.

    Without a converter as PyAV's users write it: `frame.to_ndarray(format="rgb24")`.
    """
    picked: Frames = []
    wanted = _wanted(kind)
    with decoding(path) as frames:
        for number, frame in enumerate(frames):
            if converter is None:
                rgb_HWC = frame.to_ndarray(format="rgb24")
            else:
                rgb_HWC = converter.reformat(frame, format="rgb24", threads=1).to_ndarray()
            if number in wanted:
                picked.append((frame.time or 0.0, letterboxed(rgb_HWC)))
    return picked


def preprocess_every(path: Path, kind: Kind) -> Frames:
    """Each frame to RGB and to the model's square, then every 12th or 13th (15th) is taken."""
    with decoding(path) as frames:
        made = ((f.time or 0.0, letterboxed(f.to_ndarray(format="rgb24"))) for f in frames)
        wanted = _wanted(kind)
        return [pair for number, pair in enumerate(made) if number in wanted]


def _wanted(kind: Kind) -> set[int]:
    return {math.ceil(k * kind.rate / FPS) for k in range(int(kind.seconds * FPS) + 1)}


def letterboxed(rgb_HWC: np.ndarray) -> np.ndarray:
    """Scaled by area to the model's square, on black."""
    height, width = rgb_HWC.shape[:2]
    scale = SIZE / max(height, width)
    wide, high = round(width * scale), round(height * scale)
    small = VideoFrame.from_ndarray(rgb_HWC, format="rgb24").reformat(
        wide, high, interpolation="AREA", threads=1
    )
    square_HWC = np.zeros((SIZE, SIZE, 3), np.uint8)
    top, left = (SIZE - high) // 2, (SIZE - wide) // 2
    square_HWC[top : top + high, left : left + wide] = small.to_ndarray()
    return square_HWC


@contextlib.contextmanager
def decoding(path: Path) -> Iterator[Iterator[VideoFrame]]:
    """All frames, with the thread settings of our reader."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        yield container.decode(stream)


def workers_row(bench: Bench, path: Path) -> Row:
    """Videos a second by two processes and by one; both pools are warm."""
    videos = [path] * (4 if bench.smoke else 8)
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as one, ProcessPoolExecutor(2, spawn) as two:
        sides: Sides = {
            "ours": lambda: list(two.map(_count, videos)),
            "one": lambda: list(one.map(_count, videos)),
        }
        assert sides["ours"]() == sides["one"]()
        seconds = time_sides(sides, 3 if bench.smoke else 5)
    return rate_row(f"{KINDS[0]} / two processes, one", "videos/s", seconds, "one", len(videos))


def _count(path: Path) -> int:
    return len(sampled(path))


def make_video(path: Path, kind: Kind) -> Path:
    """A camera that pans over a pattern, with grain; H.264 as players and sites make it."""
    write_mp4(path, _pictures(kind), kind.rate, crf=23, preset="medium")
    return path


def _pictures(kind: Kind) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    height, width = kind.height, kind.width
    grey = rng.integers(40, 180, (height // 8 + 40, width // 8 + 200, 1), np.uint8)
    wall = (grey + rng.integers(0, 50, (1, grey.shape[1], 3), np.uint8)).repeat(8, 0).repeat(8, 1)
    grain = rng.integers(0, 12, (8, height, width, 1), np.uint8)
    for number in range(kind.seconds * kind.rate):
        x, y = number * 3 % 1500, number % 300
        yield wall[y : y + height, x : x + width] + grain[number % 8]
