"""The reader: every odd kind of video works or is named in one line."""

import math
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiny import tiny_sound
from vlm_tsi.errors import UserError
from vlm_tsi.video import reader
from vlm_tsi.video.pixels import _upright
from vlm_tsi.video.reader import Frame, iter_camera, iter_frames, open_source, probe

Clip = Callable[..., Path]
STEADY = [i / 25 for i in range(75)]
GAPPY = [0.0, 0.03, 0.2, 0.49, 0.51, 0.9, 2.3, 2.31, 2.4, 2.6, 5.0, 5.49999, 5.7]
OPENS = {
    "ae_example.mp4",
    "ft_truncated.mkv",
    "m4_video_rotation_90.mp4",
    "mma_structuralize.mp4",
    "mpy_chaplin.mp4",
    "mpy_fire2.mp4",
    "mpy_no_duration.webm",
    "mpy_transparent.webm",
    "tc_h264_10bits.mp4",
    "tc_nasa_13013.mp4",
}
REFUSED = {"ft_corrupt.mkv": "cannot be read", "mpy_result_zero.webm": "is empty (0 bytes)"}


def times(path: Path, **how: object) -> list[float]:
    return [f.time for f in iter_frames(path, **how)]  # type: ignore[arg-type]


def all_times(path: Path) -> list[float]:
    """Independent and slow: decode all of it, one thread, plain PTS arithmetic."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        ticks = [f.pts for f in container.decode(stream)]
        return [float((p - ticks[0]) * stream.time_base) for p in ticks]


def by_the_rule(found: list[float], fps: float) -> list[float]:
    """The rule in words: at or after the next due grid point; then the next one after it."""
    due, kept = 0.0, []
    for t in found:
        if t >= due - 1e-6:
            kept.append(t)
            while due <= t + 1e-6:
                due += 1 / fps
    return kept


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        list(iter_frames(path))
    with pytest.raises(UserError) as also:
        probe(path)
    line = str(caught.value)
    assert str(also.value) == line
    assert "\n" not in line and str(path) in line
    return line


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


def test_no_duration(clip: Clip) -> None:
    path = clip(
        "live.webm",
        STEADY,
        codec="libvpx-vp9",
        options={"cpu-used": "8"},
        container_options={"live": "1"},
    )
    assert probe(path).duration is None
    assert len(times(path)) == 6


def test_missing(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.mp4")


def test_folder(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)


def test_zero_bytes(tmp_path: Path) -> None:
    (tmp_path / "zero.mp4").touch()
    assert "is empty (0 bytes)" in refusal(tmp_path / "zero.mp4")


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm", "avi", "txt"])
def test_rubbish(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rubbish.{suffix}"
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    assert "; " in refusal(path)


def test_not_a_video(tmp_path: Path) -> None:
    path = tmp_path / "notes.srt"
    path.write_text("1\n00:00:01,000 --> 00:00:02,000\nhello\n")
    assert "holds no video" in refusal(path)


def test_sound_only(tmp_path: Path) -> None:
    assert "holds sound but no video" in refusal(tiny_sound(tmp_path / "sound.m4a"))


def smash(path: Path, packets: range) -> None:
    """Overwrite some packets' bytes."""
    with av.open(str(path)) as container:
        places = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    data = bytearray(path.read_bytes())
    for at, size in (places[i] for i in packets):
        data[at : at + size] = b"\xff" * size
    path.write_bytes(data)


def test_nothing_decodes(clip: Clip) -> None:
    path = clip("a.mp4", STEADY)
    smash(path, range(75))
    assert "no frame of it can be decoded" in refusal(path)


def test_truncated_without_index(clip: Clip) -> None:
    path = clip("a.mp4", STEADY)
    path.write_bytes(path.read_bytes()[:-700])
    assert "cannot be read as a video" in refusal(path)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_truncated_yields_what_decodes_then_warns(
    clip: Clip, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    front = {"movflags": "faststart"} if name.endswith("mp4") else None
    path = clip(name, STEADY, options={"g": "5", "crf": "1"}, container_options=front)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    lines: list[str] = []
    found = times(path, on_warning=lines.append)
    assert 2 <= len(found) < 6
    assert len(lines) == 1 and "\n" not in lines[0] and lines[0].startswith(str(path))
    assert "its header says 3.0 s" in lines[0] and "frames decoded" in lines[0]
    assert times(path) == found
    assert capsys.readouterr().err == f"warning: {lines[0]}\n"
    assert times(path, end=0.7) == [t for t in found if t < 0.7]
    assert capsys.readouterr().err == ""


def test_damaged_packets_are_counted(clip: Clip) -> None:
    path = clip("a.mp4", STEADY, options={"g": "1"})
    smash(path, range(30, 33))
    lines: list[str] = []
    assert len(times(path, on_warning=lines.append)) == 6
    assert len(lines) == 1 and "3 damaged packets; 72 frames decoded" in lines[0]


def test_a_good_file_is_quiet(clip: Clip, capsys: pytest.CaptureFixture[str]) -> None:
    times(clip("a.mp4", STEADY))
    times(clip("b.mkv", GAPPY))
    assert capsys.readouterr().err == ""


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


@pytest.mark.parametrize("name", sorted(OPENS))
def test_real_clip(name: str, shared_data: Path) -> None:
    path = shared_data / "clips" / name
    if not path.exists():
        pytest.skip(f"no {name}")
    lines: list[str] = []
    frames = [(f.time, f.rgb_HWC.shape) for f in iter_frames(path, fps=2, on_warning=lines.append)]
    info = probe(path)
    assert [t for t, _ in frames] == by_the_rule(all_times(path), 2)
    assert {s for _, s in frames} == {(info.height, info.width, 3)}
    assert len(lines) == (name == "ft_truncated.mkv")
    if name == "m4_video_rotation_90.mp4":
        assert (info.width, info.height, info.rotation) == (60, 100, 90)
    if name == "mpy_no_duration.webm":
        assert info.duration is None


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_real_clip_is_refused(name: str, shared_data: Path) -> None:
    assert REFUSED[name] in refusal(shared_data / "clips" / name)


def test_all_real_clips_are_listed(shared_data: Path) -> None:
    found = {p.name for p in (shared_data / "clips").iterdir() if p.suffix != ".tsv"}
    assert found == OPENS | REFUSED.keys()


def test_a_renamed_video_is_read_by_content(clip: Clip, tmp_path: Path) -> None:
    copy = shutil.copy(clip("a.mp4", STEADY), tmp_path / "b.dat")
    assert len(times(copy)) == 6
