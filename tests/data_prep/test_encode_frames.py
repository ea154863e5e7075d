"""Encoding videos ahead: the same bytes with any workers, and no stop for a bad video."""

import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from data_prep.encode_frames import encoder, main, videos_of
from tests.tiny import save_tiny, tiny_sound, tiny_video
from vlm_tsi.model.fingerprint import encoder_key
from vlm_tsi.model.frames import encode_video, stored_frames
from vlm_tsi.model.loading import load_checkpoint
from vlm_tsi.timeline import Timeline, write_timelines
from vlm_tsi.video.features import FeatureStore, content_key

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    *("0.mp4", "1.mp4", "corrupt.mp4", "2.mp4", "gone.mp4", "0.mp4", "empty.mp4", "sound.m4a"),
    *("copy/1.mp4", "cut.mkv"),
]


@pytest.fixture(autouse=True)
def fresh_encoder() -> None:
    """The process keeps its encoder; a test may have written another one to its path."""
    encoder.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three good videos and a copy of one, one cut short, four bad ones; a model."""
    root = tmp_path_factory.mktemp("encode")
    save_tiny(root / "model", 5)
    for seed in range(3):
        tiny_video(root / f"{seed}.mp4", seconds=2.0, seed=seed)
    (root / "copy").mkdir()
    shutil.copy(root / "1.mp4", root / "copy")
    (root / "corrupt.mp4").write_bytes(b"no video at all")
    (root / "empty.mp4").touch()
    tiny_sound(root / "sound.m4a")
    write_cut(root / "cut.mkv")
    write_timelines(root / "t.jsonl", [Timeline(f"v{i}", n, 2.0) for i, n in enumerate(NAMES)])
    return root


def write_cut(path: Path) -> None:
    """Eight seconds of noise, of which the file keeps about half."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=8)
        stream.width = stream.height = 32
        stream.pix_fmt, stream.codec_context.time_base = "yuv420p", Fraction(1, 1000)
        for i in range(64):
            frame = av.VideoFrame.from_ndarray(rng.integers(0, 256, (32, 32, 3), np.uint8))
            frame.pts, frame.time_base = i * 125, Fraction(1, 1000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def files_of(store: Path) -> dict[str, bytes]:
    return {str(p.relative_to(store)): p.read_bytes() for p in store.rglob("*") if p.is_file()}


def words(folder: Path, store: Path, **options: object) -> list[str]:
    given = {"timelines": folder / "t.jsonl", "model": folder / "model", "store": store} | options
    return [str(word) for key, value in given.items() for word in (f"--{key}", value)]


def start(folder: Path, store: Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "data_prep.encode_frames", *words(folder, store, **options)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    env["RAY_worker_niceness"] = "0"  # Ray's workers would wait for all else on a busy machine
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def undisturbed(folder: Path, tmp_path_factory) -> dict[str, bytes]:
    """What one worker leaves."""
    store = tmp_path_factory.mktemp("undisturbed")
    encoder.cache_clear()
    assert main(words(folder, store)) == 0
    return files_of(store)


@pytest.mark.slow
def test_workers_and_processes_on_one_store_encode_each_video_once(
    folder: Path, tmp_path: Path, undisturbed
) -> None:
    several = [start(folder, tmp_path / "shared", workers=n) for n in (1, 2)]
    told = [finish(p).split("shared: ")[1].split() for p in several]
    assert sum(int(words[0]) for words in told) == 4
    assert all(int(words[0]) + int(words[2]) == 5 for words in told)
    assert files_of(tmp_path / "shared") == undisturbed
    kinds = sorted(Path(name).suffix for name in undisturbed)
    assert kinds == [*[".feat"] * 4, ".json", ".txt", ".txt"]


@pytest.mark.slow
def test_ray_leaves_the_same_bytes(folder: Path, tmp_path: Path, undisturbed) -> None:
    pytest.importorskip("ray", reason="Ray (extra `cluster`) is not installed")
    out = finish(start(folder, tmp_path / "ray", workers=2, executor="ray"))
    assert "4 encoded, 1 stored before, 4 failed" in out
    assert files_of(tmp_path / "ray") == undisturbed


def test_bad_videos_are_lines_and_not_a_stop(folder: Path, tmp_path: Path, capsys) -> None:
    assert main(words(folder, tmp_path)) == 0
    told = capsys.readouterr()
    assert sum(line.startswith("left out: ") for line in told.err.splitlines()) == 4
    assert sum(line.startswith("warning: ") for line in told.err.splitlines()) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["read"], report["kept"]) == (9, 5)
    assert report["repaired"] == {"cut short or damaged: kept as far as it decodes": 1}
    dropped = {reason: report["examples"][reason] for reason in report["dropped"]}
    assert dropped == {
        "No such file or directory": ["gone.mp4"],
        "cannot be read as a video (Invalid data found when processing input)": ["corrupt.mp4"],
        "holds sound but no video": ["sound.m4a"],
        "is empty (0 bytes)": ["empty.mp4"],
    }
    (line,) = report["examples"]["cut short or damaged: kept as far as it decodes"]
    assert line.startswith("cut.mkv: ends at ") and "though its header says 8.0 s" in line
    assert str(folder) not in (tmp_path / "report.json").read_text()


def test_the_report_is_the_same_whether_encoded_now_or_before(
    folder: Path, tmp_path: Path, capsys
) -> None:
    assert main([*words(folder, tmp_path), "--limit", "4"]) == 0
    assert "3 encoded, 0 stored before, 1 failed" in capsys.readouterr().out
    assert main(words(folder, tmp_path)) == 0
    assert "1 encoded, 4 stored before, 4 failed" in capsys.readouterr().out
    first = files_of(tmp_path)
    assert main(words(folder, tmp_path)) == 0
    assert "0 encoded, 5 stored before, 4 failed" in capsys.readouterr().out
    assert files_of(tmp_path) == first


def test_a_video_that_ends_before_its_timeline_is_noted(folder: Path, tmp_path: Path) -> None:
    lines = [Timeline("a", "0.mp4", 2.0), Timeline("b", "0.mp4", 9.0), Timeline("c", "1.mp4", 2.5)]
    write_timelines(folder / "short.jsonl", lines)
    assert main(words(folder, tmp_path, timelines=folder / "short.jsonl")) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["noted"] == {"ends before its timeline": 1}
    assert report["examples"] == {"ends before its timeline": ["0.mp4: 2.0 s of 9.0 s"]}


def test_videos_of_several_folders_are_told_apart(tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / split).mkdir()
        write_timelines(tmp_path / split / "t.jsonl", [Timeline("v", "v.mp4", 1.0)])
    found = videos_of([str(tmp_path / split / "t.jsonl") for split in ("train", "val")])
    assert [v.name for v in found] == ["train/v.mp4", "val/v.mp4"]
    assert [v.path for v in found] == [tmp_path / "train/v.mp4", tmp_path / "val/v.mp4"]


def test_stored_features_are_the_encoders(folder: Path, tmp_path: Path) -> None:
    main(words(folder, tmp_path))
    model = load_checkpoint(folder / "model").model
    store = FeatureStore(tmp_path, encoder_key(model, model.config.fps))
    times, features = store.get(content_key(folder / "1.mp4"))
    asked, wanted = encode_video(model, folder / "1.mp4", model.config.fps)
    assert times.tolist() == asked.tolist() and features.shape == (4, 5, 32)
    torch.testing.assert_close(features, wanted.to(torch.bfloat16))


def test_a_stored_video_is_warned_of_each_time(folder: Path, tmp_path: Path) -> None:
    model = load_checkpoint(folder / "model").model
    store, lines = FeatureStore(tmp_path, "an encoder"), []
    for _ in range(2):
        stored_frames(model, folder / "cut.mkv", 2.0, store, lines.append)
    assert len(lines) == 2 and lines[0] == lines[1]
    assert lines[0].startswith(f"{folder / 'cut.mkv'}: ends at ")


def test_a_changed_encoder_reads_nothing_stale(folder: Path, tmp_path: Path, capsys) -> None:
    shutil.copytree(folder / "model", tmp_path / "model")
    both = words(folder, tmp_path / "store", model=tmp_path / "model")
    main(both)
    old = files_of(tmp_path / "store")
    save_tiny(tmp_path / "model", 5, seed=1)
    encoder.cache_clear()
    main(both)
    assert "4 encoded, 1 stored before" in capsys.readouterr().out.splitlines()[-1]
    kept = files_of(tmp_path / "store")
    assert {n: kept[n] for n in old if n != "report.json"} == {
        n: data for n, data in old.items() if n != "report.json"
    }
    assert sum(name.endswith(".feat") for name in kept) == 8


def test_a_damaged_entry_is_encoded_again(folder: Path, tmp_path: Path, undisturbed) -> None:
    main(words(folder, tmp_path))
    path = next(tmp_path.rglob("*.feat"))
    path.write_bytes(path.read_bytes()[:-10])
    main(words(folder, tmp_path))
    assert files_of(tmp_path) == undisturbed


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"fps": -1.0}, {"limit": 0}, {"model": "none"}])
def test_what_cannot_work_is_one_line(folder: Path, tmp_path: Path, capsys, wrong: dict) -> None:
    assert main(words(folder, tmp_path, **wrong)) == 2
    told = capsys.readouterr().err
    assert sum(line.startswith("error: ") for line in told.splitlines()) == 1
    assert next(iter(wrong)) in told or "is not there" in told


def test_not_one_readable_video_is_an_error(folder: Path, tmp_path: Path, capsys) -> None:
    write_timelines(tmp_path / "t.jsonl", [Timeline("v", "gone.mp4", 1.0)])
    assert main(words(folder, tmp_path / "s", timelines=tmp_path / "t.jsonl")) == 2
    assert "none of their videos" in capsys.readouterr().err
