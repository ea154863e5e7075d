"""Encoding videos ahead: the same bytes with any workers, and no stop for a bad video."""

import json
from pathlib import Path

import pytest
import torch

from data_prep.encode_frames import encode, main, videos_of
from tests.tiny import save_tiny, tiny_video
from vlm_tsi.model.fingerprint import encoder_key
from vlm_tsi.model.frames import encode_video
from vlm_tsi.model.loading import load_checkpoint
from vlm_tsi.timeline import Timeline, write_timelines
from vlm_tsi.video.features import FeatureStore, content_key


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three good videos, one corrupt, one missing; a model."""
    root = tmp_path_factory.mktemp("encode")
    save_tiny(root / "model", 5)
    for seed in range(3):
        tiny_video(root / f"{seed}.mp4", seconds=2.0, seed=seed)
    (root / "bad.mp4").write_bytes(b"no video at all")
    names = ["0.mp4", "1.mp4", "bad.mp4", "2.mp4", "gone.mp4", "0.mp4"]
    write_timelines(root / "t.jsonl", [Timeline(f"v{i}", n, 2.0) for i, n in enumerate(names)])
    return root


def entries(store: Path) -> dict[str, bytes]:
    return {str(p.relative_to(store)): p.read_bytes() for p in store.rglob("*.feat")}


def words(folder: Path, store: Path, **options: object) -> list[str]:
    given = {"timelines": folder / "t.jsonl", "model": folder / "model", "store": store} | options
    return [str(word) for key, value in given.items() for word in (f"--{key}", value)]


def test_one_and_two_workers_write_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    videos = videos_of([str(folder / "t.jsonl")])
    assert len(videos) == 5
    for workers in (1, 2):
        store = str(tmp_path / str(workers))
        done = encode(videos, str(folder / "model"), store, 2.0, workers)
        states = [o.state for o in done]
        assert states == ["encoded", "encoded", "failed", "encoded", "failed"]
    assert len(entries(tmp_path / "1")) == 3
    assert entries(tmp_path / "1") == entries(tmp_path / "2")


def test_bad_videos_are_lines_and_not_a_stop(folder: Path, tmp_path: Path, capsys) -> None:
    assert main(words(folder, tmp_path)) == 0
    told = capsys.readouterr()
    assert "3 encoded, 0 stored before, 2 failed" in told.out
    assert sum(line.startswith("left out: ") for line in told.err.splitlines()) == 2
    report = json.loads((tmp_path / "report.json").read_text())
    assert [Path(f["video"]).name for f in report["why"]] == ["bad.mp4", "gone.mp4"]
    assert main(words(folder, tmp_path)) == 0
    assert "0 encoded, 3 stored before" in capsys.readouterr().out


def test_stored_features_are_the_encoders(folder: Path, tmp_path: Path) -> None:
    encode([str(folder / "1.mp4")], str(folder / "model"), str(tmp_path))
    model = load_checkpoint(folder / "model").model
    store = FeatureStore(tmp_path, encoder_key(model, model.config.fps))
    times, features = store.get(content_key(folder / "1.mp4"))
    asked, wanted = encode_video(model, folder / "1.mp4", model.config.fps)
    assert times.tolist() == asked.tolist() and features.shape == (4, 5, 32)
    torch.testing.assert_close(features, wanted.to(torch.bfloat16))


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"fps": -1.0}, {"model": "none"}])
def test_what_cannot_work_is_one_line(folder: Path, tmp_path: Path, capsys, wrong: dict) -> None:
    assert main(words(folder, tmp_path, **wrong)) == 2
    told = capsys.readouterr().err
    assert sum(line.startswith("error: ") for line in told.splitlines()) == 1
    assert next(iter(wrong)) in told or "is not there" in told


def test_not_one_readable_video_is_an_error(folder: Path, tmp_path: Path, capsys) -> None:
    write_timelines(tmp_path / "t.jsonl", [Timeline("v", "gone.mp4", 1.0)])
    assert main(words(folder, tmp_path / "s", timelines=tmp_path / "t.jsonl")) == 2
    assert "none of their videos" in capsys.readouterr().err
