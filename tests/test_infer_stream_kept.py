"""infer_stream.py keeps what was said: other sources, kills, signals, closed and full outputs."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.infer_house import ROOT, WARM, infer, point
from vlm_tsi.errors import UserError
from vlm_tsi.streaming import batch, live
from vlm_tsi.streaming.display import Display
from vlm_tsi.streaming.spool import SPOOL, Spool, check_output
from vlm_tsi.timeline import Generated, read_generated, write_timelines


def test_one_folder_holds_one_videos_results(house, tmp_path, capsys, monkeypatch):
    words = ("--model", house / "model", "--out", tmp_path, *WARM)
    assert infer(house / "clip0.mp4", *words) == 0
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    monkeypatch.chdir(house)
    assert infer("clip0.mp4", *words) == 0  # the same again, by another name, is fine
    for other in (["clip1.mp4"], ["--timeline", "points.jsonl"]):
        words_of = [w if w.startswith("--") else house / w for w in other]
        assert infer(*words_of, *words) == 2
        assert "holds what was said over" in capsys.readouterr().err.splitlines()[-1]
    assert before["utterances.jsonl"] == (tmp_path / "utterances.jsonl").read_bytes()


def test_a_folder_of_unknown_results_is_left_alone(tmp_path):
    (tmp_path / "utterances.jsonl").write_text("")
    for facts in ("", "[]", '{"source": 5}', '{"source": "other.mp4"}'):
        (tmp_path / "run.json").write_text(facts)
        with pytest.raises(UserError, match="holds what was said"):
            check_output(tmp_path, "clip.mp4")


def test_a_cameras_results_are_never_replaced(tmp_path):
    check_output(tmp_path, "0", is_live=True)
    spool = Spool(tmp_path)
    spool.add(Generated("live", 0.0, 1.0, "hello"))
    with pytest.raises(UserError, match="was killed"):
        check_output(tmp_path, "0", is_live=True)
    spool.remove()
    (tmp_path / "utterances.jsonl").write_text("")
    (tmp_path / "run.json").write_text('{"source": "0"}')
    with pytest.raises(UserError, match="said over 0"):
        check_output(tmp_path, "0", is_live=True)


def test_what_a_killed_run_said_is_replaced_by_its_own_rerun_only(tmp_path):
    Spool(tmp_path).add(Generated("clip", 0.0, 1.0, "hello"))
    check_output(tmp_path, "videos/clip.mp4", "clip")
    for name in ("other", ""):
        with pytest.raises(UserError, match="was killed"):
            check_output(tmp_path, "x", name)
    (tmp_path / SPOOL).write_text("torn")
    with pytest.raises(UserError, match="was killed"):
        check_output(tmp_path, "videos/clip.mp4", "clip")


def test_a_source_that_breaks_ends_with_its_line_and_the_files(
    house, tmp_path, capsys, monkeypatch
):
    whole = live.open_source

    def breaks(*args, **options):
        yield from islice(whole(*args, **options), 4)
        raise UserError("the camera", "is gone", "plug it in")

    monkeypatch.setattr(live, "open_source", breaks)
    code = infer(house / "clip0.mp4", "--model", house / "model", "--out", tmp_path, *WARM)
    assert code == 2 and "error: the camera: is gone" in capsys.readouterr().err
    facts = json.loads((tmp_path / "run.json").read_text())
    assert facts["frames"] == 4 and "is gone" in facts["broken"]
    assert read_generated(tmp_path / "utterances.jsonl")


def test_each_utterance_is_on_the_disk_when_it_has_ended(tmp_path):
    spool, said = Spool(tmp_path), [Generated("a", i, i + 1.0, f"word {i}") for i in range(3)]
    for i, spoken in enumerate(said):
        spool.add(spoken)
        assert read_generated(tmp_path / SPOOL) == said[: i + 1]
    spool.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_the_spooling_and_not_the_stream():
    spool = Spool(Path("/proc"))  # takes no file, not even of root
    for _ in range(2):
        spool.add(Generated("a", 0.0, 1.0, "hello"))
    assert spool.problem is not None and SPOOL in spool.problem
    spool.remove()


def test_sigterm_writes_the_files_and_says_so(house, tmp_path, monkeypatch):
    at = Display.at
    monkeypatch.setattr(Display, "at", lambda self, t: at(self, t) or raise_at(t, 1.5))
    code = infer(house / "clip0.mp4", "--model", house / "model", "--out", tmp_path, *WARM)
    facts = json.loads((tmp_path / "run.json").read_text())
    assert (code, facts["frames"], facts["interrupted"]) == (128 + signal.SIGTERM, 4, True)
    assert len(read_generated(tmp_path / "utterances.jsonl")) == facts["utterances"] > 0


def raise_at(time: float, when: float) -> None:
    if time == when:
        signal.raise_signal(signal.SIGTERM)


def test_a_closed_stdout_ends_the_stream_and_the_files_are_written(house, tmp_path):
    words = [house / "clip0.mp4", "--model", house / "model", "--out", tmp_path, *WARM]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "infer_stream.py", *map(str, words)], cwd=ROOT, stdout=writer,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 128 + signal.SIGPIPE and "Traceback" not in done.stderr
    assert read_generated(tmp_path / "utterances.jsonl")


def test_a_stdout_that_is_not_there_or_full(house, tmp_path):
    words = [house / "clip0.mp4", "--model", house / "model", *WARM, "--out"]
    for name, where, code in (("closed", ">&-", 0), ("full", ">/dev/full", 141)):
        line = " ".join(["exec", sys.executable, "infer_stream.py", *map(str, words)])
        done = subprocess.run(
            ["bash", "-c", f"{line} {tmp_path / name} {where}"], cwd=ROOT, capture_output=True,
            text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == code and "Traceback" not in done.stderr
        assert ("No space left" in done.stderr) == (name == "full")
        assert read_generated(tmp_path / name / "utterances.jsonl")


def test_a_signal_in_a_file_of_datapoints_says_how_to_go_on(
    house, reference, tmp_path, capsys, monkeypatch
):
    words = ["--timeline", house / "points.jsonl", "--model", house / "model", "--out", tmp_path]
    run = batch.Worker.run

    def stopped(self, job):
        if job.video.name == "clip1.mp4":
            signal.raise_signal(signal.SIGTERM)
        return run(self, job)

    monkeypatch.setattr(batch.Worker, "run", stopped)
    assert infer(*words, *WARM) == 128 + signal.SIGTERM
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(batch.Worker, "run", run)
    assert infer(*words, *WARM) == 0
    assert (tmp_path / "utterances.jsonl").read_bytes() == reference


def test_a_video_shorter_than_its_datapoints_is_told(house, tmp_path, capsys):
    long = replace(point(0, "short.mp4"), duration=30.0, meta={"window": [0.0, 20.0]})
    write_timelines(house / "long.jsonl", [long])
    assert infer("--timeline", house / "long.jsonl", "--model", house / "model",
                 "--out", tmp_path) == 0  # fmt: skip
    assert "its last frame is at 0.50 s, its datapoints last to 20.00" in capsys.readouterr().err
