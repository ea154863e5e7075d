"""Damaged, odd and real videos: each works, or is refused in one line."""

import shutil
from pathlib import Path

import av
import numpy as np
import pytest

from tests.tiny import tiny_sound
from tests.video.reading import GAPPY, STEADY, Clip, all_times, by_the_rule, refusal, times
from vlm_tsi.video.reader import iter_frames, probe

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
