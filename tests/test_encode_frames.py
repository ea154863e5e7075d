"""Encoding videos ahead: the same bytes with any workers, and no stop for a bad video."""

import json
from pathlib import Path

import pytest
import torch

from data_prep.encode_frames import encode, main
from tests.tiny import save_tiny, tiny_video
from vlm_tsi.errors import UserError
from vlm_tsi.model.fingerprint import encoder_key
from vlm_tsi.model.loading import load_checkpoint
from vlm_tsi.streaming.frames import encode_video
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


def test_one_and_two_workers_write_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        done = encode([folder / "t.jsonl"], folder / "model", tmp_path / str(workers), 2.0, workers)
        assert (done.encoded, done.present, len(done.failed)) == (3, 0, 2)
    assert len(entries(tmp_path / "1")) == 3
    assert entries(tmp_path / "1") == entries(tmp_path / "2")


def test_bad_videos_are_lines_and_not_a_stop(folder: Path, tmp_path: Path, capsys) -> None:
    words = ["--timelines", folder / "t.jsonl", "--model", folder / "model", "--store", tmp_path]
    assert main([str(w) for w in words]) == 0
    told = capsys.readouterr()
    assert "3 encoded, 0 there already, 2 left out" in told.out
    assert sum(line.startswith("left out: ") for line in told.err.splitlines()) == 2
    (report,) = tmp_path.rglob("report.json")
    failed = json.loads(report.read_text())["failed"]
    assert [Path(f["video"]).name for f in failed] == ["bad.mp4", "gone.mp4"]
    assert main([str(w) for w in words]) == 0
    assert "0 encoded, 3 there already" in capsys.readouterr().out


def test_stored_features_are_the_encoders(folder: Path, tmp_path: Path) -> None:
    encode([folder / "t.jsonl"], folder / "model", tmp_path)
    model = load_checkpoint(folder / "model").model
    store = FeatureStore(tmp_path, encoder_key(model, model.config.fps))
    times, features = store.get(content_key(folder / "1.mp4"))
    asked, wanted = encode_video(model, folder / "1.mp4", model.config.fps)
    assert times.tolist() == asked.tolist() and features.shape == (4, 5, 32)
    torch.testing.assert_close(features, wanted.to(torch.bfloat16))


def test_what_cannot_work_is_one_line(folder: Path, tmp_path: Path) -> None:
    timelines = [folder / "t.jsonl"]
    with pytest.raises(UserError, match="workers 0"):
        encode(timelines, folder / "model", tmp_path, workers=0)
    with pytest.raises(UserError, match="fps"):
        encode(timelines, folder / "model", tmp_path, fps=-1.0)
    with pytest.raises(UserError, match="is not there"):
        encode(timelines, tmp_path / "none", tmp_path)
    write_timelines(tmp_path / "t.jsonl", [Timeline("v", "gone.mp4", 1.0)])
    with pytest.raises(UserError, match="none of 1 videos"):
        encode([tmp_path / "t.jsonl"], folder / "model", tmp_path)
