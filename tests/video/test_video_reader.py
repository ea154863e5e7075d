"""The reader: which frames it gives, when, and how they look."""

import math
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.video.reading import GAPPY, STEADY, Clip, all_times, by_the_rule, times
from vlm_tsi.errors import UserError
from vlm_tsi.video import reader
from vlm_tsi.video.pixels import _upright
from vlm_tsi.video.reader import Frame, iter_camera, iter_frames, open_source, probe


def test_steady_clip(clip: Clip) -> None:
    path = clip("a.mp4", STEADY)
    frames = list(iter_frames(path, fps=2))
    assert [f.idx for f in frames] == list(range(6))
    assert [f.time for f in frames] == pytest.approx([0, 0.52, 1.0, 1.52, 2.0, 2.52])
    assert all(f.rgb_HWC.shape == (48, 64, 3) and f.rgb_HWC.dtype == np.uint8 for f in frames)
    info = probe(path)
    assert (info.width, info.height, info.rotation, info.codec) == (64, 48, 0, "h264")
    assert info.duration == pytest.approx(3.0) and info.rate == pytest.approx(25)


def test_every_frame_without_fps(clip: Clip) -> None:
    path = clip("a.mkv", GAPPY)
    assert times(path, fps=None) == pytest.approx(GAPPY, abs=1e-3)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("fps", [0.7, 2, 3, 8, 100])
def test_variable_rate_never_repeats_a_frame(clip: Clip, suffix: str, fps: float) -> None:
    path = clip(f"vfr.{suffix}", GAPPY)
    assert times(path, fps=fps) == by_the_rule(all_times(path), fps)


@pytest.mark.parametrize("first", [1.0, 7.3])
def test_clock_starts_at_the_first_frame(clip: Clip, first: float) -> None:
    path = clip("late.mkv", [first + t for t in GAPPY])
    assert times(path, fps=None) == pytest.approx(GAPPY, abs=1.1e-3)


class Stub:
    """A decoded frame as far as the clock looks at it."""

    def __init__(self, pts: int | None, dts: int | None = None) -> None:
        self.pts, self.dts, self.duration = pts, dts, 0


class StubStream:
    time_base = None
    average_rate = 25
    guessed_rate = None


def clocked(*stamps: int | None) -> list[float | None]:
    clock = reader._Clock(StubStream())  # type: ignore[arg-type]
    return [clock.time(Stub(p)) for p in stamps]  # type: ignore[arg-type]


def test_rule_for_odd_timestamps() -> None:
    second = 90_000
    assert clocked(second, second, second // 2, 2 * second) == [0.0, None, None, 1.0]
    assert clocked(None, None, None) == pytest.approx([0.0, 0.04, 0.08])
    assert clocked(5 * second, None, 6 * second) == pytest.approx([0.0, 0.04, 1.0])
    assert clocked(0, 9 * second, 0, second) == pytest.approx([0.0, 9.0, 9.04, 10.04])
    clock = reader._Clock(StubStream())  # type: ignore[arg-type]
    assert [clock.time(Stub(None, d)) for d in (10, 90_010)] == [0.0, 1.0]  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    gaps=st.lists(st.integers(1, 400_000), max_size=60),
    fps=st.floats(0.05, 120),
    start=st.floats(0, 60),
)
def test_cells_hold_one_frame_each(gaps: list[int], fps: float, start: float) -> None:
    ticks = np.cumsum([0, *gaps])
    timed = [(t / 90_000, Shown()) for t in ticks.tolist()]
    kept = [f.time for f in sampled(timed, reader._Wish(fps, None))]
    assert kept[0] == 0 and kept == sorted(set(kept))
    cells = [math.floor((t + reader.EPSILON) * fps) for t in kept]
    assert len(set(cells)) == len(cells)
    assert {math.floor((t + reader.EPSILON) * fps) for t, _ in timed} == set(cells)
    window = [f.time for f in sampled(timed, reader._Wish(fps, None, start, start + 7))]
    assert window == [t for t in kept if start <= t < start + 7]


class Shown:
    """Stands for a decoded frame that is never looked into."""


def sampled(timed: list, wish: reader._Wish) -> list[Frame]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "to_rgb", lambda *_: np.zeros((1, 1, 3), np.uint8))
        return list(reader._sample(iter(timed), wish))


def test_only_delivered_frames_are_converted(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls, real = clip("a.mp4", STEADY), [], reader.to_rgb
    monkeypatch.setattr(reader, "to_rgb", lambda *a: calls.append(1) or real(*a))
    assert len(times(path, fps=2, start=1.0)) == 4
    assert len(calls) == 4


def test_windows_are_parts_of_the_whole(clip: Clip) -> None:
    path = clip("long.mp4", [i / 5 for i in range(150)], options={"g": "20"})
    whole = {f.time: f.rgb_HWC for f in iter_frames(path, fps=1.7)}
    for start, end in [
        (0.0, 4.0),
        (9.9, 13.0),
        (11.3, 11.4),
        (20.15, 99.0),
        (28.0, None),
        (50, 60),
    ]:
        part = list(iter_frames(path, fps=1.7, start=start, end=end))
        expected = [t for t in whole if start <= t < (end or math.inf)]
        assert [f.time for f in part] == expected
        assert [f.idx for f in part] == list(range(len(part)))
        assert all(np.array_equal(f.rgb_HWC, whole[f.time]) for f in part)


def test_a_far_window_is_sought(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clip("long.mp4", [i / 5 for i in range(300)], options={"g": "20"})
    seen: list[reader._Tally] = []
    real = reader._Tally
    monkeypatch.setattr(reader, "_Tally", lambda: seen.append(real()) or seen[-1])
    assert len(times(path, fps=2, start=55.0)) == 10
    assert sum(t.decoded for t in seen) < 60


@pytest.mark.parametrize(("height", "width"), [(48, 64), (64, 48), (10, 100), (128, 128), (31, 17)])
def test_letterbox(clip: Clip, height: int, width: int) -> None:
    path = clip("a.mkv", [0.0], height=height, width=width, codec="ffv1", pix_fmt="yuv444p")
    (frame,) = iter_frames(path, size=32)
    rgb_HWC = frame.rgb_HWC
    assert rgb_HWC.shape == (32, 32, 3)
    rows, columns = np.nonzero(rgb_HWC.sum(2) > 30)
    tall, wide = rows.max() - rows.min() + 1, columns.max() - columns.min() + 1
    scale = 32 / max(height, width)
    assert (tall, wide) == (round(height * scale), round(width * scale))
    assert abs(rows.min() - (31 - rows.max())) <= 1
    assert abs(columns.min() - (31 - columns.max())) <= 1


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_rotation_is_applied(clip: Clip, degrees: int) -> None:
    path = clip("a.mp4", [0.0, 0.1], rotate=degrees, options={"crf": "5"})
    with av.open(str(path)) as container:
        stored = next(container.decode(video=0))
    upright = np.rot90(stored.to_ndarray(format="rgb24"), round(stored.rotation / 90))
    (frame,) = iter_frames(path)
    assert np.abs(frame.rgb_HWC.astype(int) - upright).max() <= 2
    info = probe(path)
    assert (info.height, info.width) == upright.shape[:2]
    assert info.rotation == round(-stored.rotation) % 360
    (small,) = iter_frames(path, size=16)
    assert small.rgb_HWC.shape == (16, 16, 3)


def test_mirrored() -> None:
    rgb_HWC = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    one = 1 << 16
    assert np.array_equal(_upright(rgb_HWC, [-one, 0, 0, 0, one, 0]), rgb_HWC[:, ::-1])
    assert np.array_equal(_upright(rgb_HWC, [one, 0, 0, 0, -one, 0]), rgb_HWC[::-1])
    assert np.array_equal(_upright(rgb_HWC, [0, one, 0, one, 0, 0]), rgb_HWC.swapaxes(0, 1))
    assert np.array_equal(_upright(rgb_HWC, [0, one, 0, -one, 0, 0]), np.rot90(rgb_HWC, -1))


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("1x1.mkv", {"codec": "ffv1", "pix_fmt": "bgr0", "height": 1, "width": 1}),
        ("1x1.mp4", {"pix_fmt": "yuv444p", "height": 1, "width": 1}),
        ("odd.mkv", {"codec": "ffv1", "pix_fmt": "yuv420p", "height": 33, "width": 47}),
        ("deep.mp4", {"pix_fmt": "yuv420p10le"}),
        ("alpha.mkv", {"codec": "ffv1", "pix_fmt": "yuva420p"}),
        ("grey.mkv", {"codec": "ffv1", "pix_fmt": "gray"}),
        ("raw.avi", {"codec": "mpeg4", "tick": Fraction(1, 25)}),
        ("stream.ts", {"codec": "mpeg2video", "tick": Fraction(1, 25)}),
        ("bare.h264", {}),
        ("2024:01 %d.mp4", {}),
    ],
)
@pytest.mark.parametrize("size", [None, 24])
def test_odd_kinds_work(clip: Clip, name: str, how: dict, size: int | None) -> None:
    path = clip(name, [i / 25 for i in range(30)], **how)
    lines: list[str] = []
    frames = list(iter_frames(path, fps=2, size=size, on_warning=lines.append))
    assert [round(f.time, 2) for f in frames] == [0.0, 0.52, 1.0]
    shape = (size, size) if size else (how.get("height", 48), how.get("width", 64))
    assert all(f.rgb_HWC.shape == (*shape, 3) for f in frames)
    assert lines == []
    assert frames[0].rgb_HWC.max() > 30


@pytest.mark.parametrize(
    "how",
    [
        {"fps": 0},
        {"fps": -1.0},
        {"fps": math.nan},
        {"size": 0},
        {"start": -1.0},
        {"start": 3.0, "end": 2.0},
    ],
)
def test_bad_arguments_stop_at_once(tmp_path: Path, how: dict) -> None:
    with pytest.raises(UserError, match="; use "):
        iter_frames(tmp_path / "not looked at.mp4", **how)


def test_leaving_early_closes_the_file(clip: Clip) -> None:
    frames = iter_frames(clip("a.mp4", STEADY))
    next(frames)
    frames.close()  # type: ignore[attr-defined]


def test_source_decides(clip: Clip, tmp_path: Path) -> None:
    path = clip("a.mp4", STEADY)
    assert [f.time for f in open_source(path)] == times(path)
    assert [f.time for f in open_source(f"file://{path}")] == times(path)
    assert reader.is_live("0") and reader.is_live("/dev/video3") and reader.is_live(1)
    assert not reader.is_live(path)
    with pytest.raises(UserError, match="camera is plugged in"):
        next(open_source("973"))
    with pytest.raises(UserError, match="check the address"):
        next(iter_camera(f"file://{tmp_path}/none.mp4"))
