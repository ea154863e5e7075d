"""The writer: what goes in comes out, at its time, whole or not at all."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vlm_tsi.errors import UserError
from vlm_tsi.video.reader import iter_frames, probe
from vlm_tsi.video.writer import Mp4Writer, write_mp4


def pictures(count: int, height: int = 32, width: int = 48) -> list[np.ndarray]:
    """Flat blocks of colour that change from frame to frame."""
    rng = np.random.default_rng(count)
    small = rng.integers(0, 256, (count, height // 8 + 1, width // 8 + 1, 3), np.uint8)
    return [s.repeat(8, 0).repeat(8, 1)[:height, :width] for s in small]


@pytest.mark.parametrize("fps", [8, 25, 29.97, 7.3])
def test_frames_and_times_come_back(tmp_path: Path, fps: float) -> None:
    path, made = tmp_path / "a.mp4", pictures(20)
    assert write_mp4(path, iter(made), fps) == 20
    back = list(iter_frames(path, fps=None))
    assert [f.time for f in back] == pytest.approx([i / fps for i in range(20)], abs=1e-5)
    for frame, rgb_HWC in zip(back, made, strict=True):
        inner = np.abs(frame.rgb_HWC.astype(int) - rgb_HWC)[2:6, 2:6]
        assert inner.max() <= 24
    info = probe(path)
    assert info.duration == pytest.approx(20 / fps, abs=2e-3)
    assert (info.codec, info.pixel_format) == ("h264", "yuv420p")


def test_the_same_frames_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_mp4(tmp_path / name, pictures(40), 8)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


@pytest.mark.parametrize("shape", [(1, 1), (31, 47), (32, 47), (3, 2)])
def test_odd_sizes_are_made_even(tmp_path: Path, shape: tuple[int, int]) -> None:
    rgb_HWC = np.full((*shape, 3), (200, 40, 90), np.uint8)
    write_mp4(tmp_path / "a.mp4", [rgb_HWC], 8)
    (frame,) = iter_frames(tmp_path / "a.mp4")
    assert frame.rgb_HWC.shape[:2] == tuple(n + n % 2 for n in shape)
    assert np.abs(frame.rgb_HWC.astype(int) - (200, 40, 90)).max() < 8


def test_explicit_times(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.35, 2.0, 2.04]
    with Mp4Writer(tmp_path / "a.mp4", 25) as writer:
        for t, rgb_HWC in zip(times, pictures(5), strict=True):
            writer.write(rgb_HWC, t)
    back = [f.time for f in iter_frames(tmp_path / "a.mp4", fps=None)]
    assert back == pytest.approx(times, abs=1e-5)


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    def broken():
        yield from pictures(3)
        raise RuntimeError("the world broke")

    with pytest.raises(RuntimeError, match="the world broke"):
        write_mp4(tmp_path / "a.mp4", broken(), 8)
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_survives_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    write_mp4(path, pictures(3), 8)
    old = path.read_bytes()
    with pytest.raises(ValueError, match="frame 3 is uint8"):
        write_mp4(path, [*pictures(3), *pictures(1, 40, 40)], 8)
    assert path.read_bytes() == old


@pytest.mark.parametrize(
    ("frames", "fps", "problem"),
    [
        ([], 8, "no frame"),
        ([np.zeros((4, 4), np.uint8)], 8, "use \\[H,W,3\\]"),
        ([np.zeros((4, 4, 3), np.float32)], 8, "is float32"),
        ([np.zeros((4, 4, 3), np.uint8)], 0, "fps is 0"),
    ],
)
def test_wrong_use(tmp_path: Path, frames: list, fps: float, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        write_mp4(tmp_path / "a.mp4", frames, fps)
    assert list(tmp_path.iterdir()) == []


def test_times_must_increase(tmp_path: Path) -> None:
    first, second = pictures(2)
    with pytest.raises(ValueError, match="not after"), Mp4Writer(tmp_path / "a.mp4", 8) as writer:
        writer.write(first, 1.0)
        writer.write(second, 1.0)


def test_an_unwritable_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file"):
        write_mp4(tmp_path / "file" / "a.mp4", pictures(1), 8)


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
import numpy as np
from vlm_tsi.errors import UserError
from vlm_tsi.video.writer import write_mp4
rng = np.random.default_rng(0)
try:
    write_mp4(sys.argv[1], (rng.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(60)), 8)
except UserError as err:
    print(err)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs file size limits")
def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith(f"{path}: ") and done.stdout.count("\n") == 1, done.stderr
    assert list(tmp_path.iterdir()) == []
