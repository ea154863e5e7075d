"""Killed at a random moment and resumed, every step ends with an undisturbed run's bytes."""

from pathlib import Path

import pytest

from tests.data_prep.goalstep_records import meal
from tests.data_prep.killed import assert_killed_and_resumed_the_bytes_are_the_same as assert_same
from tests.data_prep.killed import start
from tests.data_prep.pbp_halves import put_labels
from tests.data_prep.test_holoassist import lesson
from tests.data_prep.test_soccernet_build import HALVES, folder
from tests.data_prep.test_soccernet_echoes import LINES, plain, release
from tests.data_prep.test_soccernet_transcribe import pulses, stand_in, words, write_video
from tests.tiny import save_tiny, tiny_video
from vlm_tsi.files import write_json
from vlm_tsi.timeline import Timeline, write_timelines

SOCCERNET, TINY = "data_prep.soccernet", "tests.data_prep.pbp_tiny"


def videos(root: Path, count: int) -> Path:
    for k, half in enumerate(HALVES[:count]):
        write_video(root / f"{half}.mkv", pulses(1.0 + k / 4, 2.0, 3.0))
    return root


@pytest.fixture(scope="module")
def labels(tmp_path_factory) -> Path:
    return put_labels(tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def trained(labels, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    step = [TINY, "train-filter", "--labels", str(labels), "--workers", "1"]
    assert start(step, out).wait(timeout=300) == 0
    return out


@pytest.mark.slow
def test_transcribe(tmp_path):
    assert_same(
        [SOCCERNET, *words(videos(tmp_path / "in", 2), stand_in(tmp_path / "asr"))], tmp_path
    )


def test_import_echoes(tmp_path):
    rows = {f"v/m{i:03}": plain(LINES * (20 + i % 7)) for i in range(9)}
    source = release(tmp_path / "in", rows)
    assert_same([SOCCERNET, "import-echoes", "--echoes", str(source)], tmp_path)


@pytest.mark.slow
def test_train_filter(labels, tmp_path):
    assert_same([TINY, "train-filter", "--labels", str(labels), "--workers", "1"], tmp_path)


@pytest.mark.slow
def test_filter(labels, trained, tmp_path):
    step = [TINY, "filter", "--transcripts", str(labels), "--filter", str(trained)]
    assert_same(step, tmp_path)


def test_build(tmp_path):
    source = folder(tmp_path / "in", HALVES)
    assert_same([SOCCERNET, "build", "--transcripts", str(source)], tmp_path)


def test_holoassist(tmp_path):
    write_json(tmp_path / "a.json", [lesson(f"v{k}") for k in range(40)])
    assert_same(["data_prep.holoassist", "--annotations", str(tmp_path / "a.json")], tmp_path)


def test_goalstep(tmp_path):
    write_json(tmp_path / "a.json", {"videos": [meal(f"v{k}") for k in range(40)]})
    assert_same(["data_prep.goalstep", "--annotations", str(tmp_path / "a.json")], tmp_path)


@pytest.mark.slow
def test_encode_frames(tmp_path):
    save_tiny(tmp_path / "model", 5)
    for seed in range(3):
        tiny_video(tmp_path / f"{seed}.mp4", seconds=2.0, seed=seed)
    lines = [Timeline(f"v{k}", f"{k}.mp4", 2.0) for k in range(3)]
    write_timelines(tmp_path / "t.jsonl", lines)
    named = ["--timelines", str(tmp_path / "t.jsonl"), "--model", str(tmp_path / "model")]
    assert_same(["data_prep.encode_frames", *named], tmp_path, "--store")


@pytest.mark.slow
def test_all(labels, tmp_path):
    """Of videos and labels, with the training of the filter."""
    _, *named = words(videos(tmp_path / "in", 4), stand_in(tmp_path / "asr"))
    assert_same([TINY, "all", *named, "--labels", str(labels)], tmp_path)
