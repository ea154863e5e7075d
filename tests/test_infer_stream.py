"""infer_stream.py end to end on a tiny random model: files, workers, bad input."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infer_house import WARM, infer, point
from vlm_tsi.streaming import batch
from vlm_tsi.streaming.batch import stream_datapoints
from vlm_tsi.streaming.spool import SPOOL
from vlm_tsi.timeline import read_generated, write_timelines
from vlm_tsi.video.reader import iter_frames


def test_one_video(house, tmp_path, capsys):
    out, model = tmp_path / "out", house / "model"
    copy = tmp_path / "said.mp4"
    code = infer(house / "clip0.mp4", "--model", model, "--out", out, *WARM, "--annotate", copy)
    shown = capsys.readouterr()
    assert code == 0
    assert sorted(p.name for p in out.iterdir()) == [
        "clip0.srt", "clip0.vtt", "run.json", "utterances.jsonl"
    ]  # fmt: skip
    spoken = read_generated(out / "utterances.jsonl")
    assert spoken and {g.video_id for g in spoken} == {"clip0"}
    assert [line.split("] ")[1] for line in shown.out.splitlines()] == [g.text for g in spoken]
    assert re.match(r"\[ +\d+\.\d\d - +\d+\.\d\d\] ", shown.out)
    assert "p95" in shown.err and "wrote" in shown.err
    assert len(cues(out / "clip0.srt", ",")) == len(cues(out / "clip0.vtt", ".")) == len(spoken)
    assert len(list(iter_frames(copy, fps=None))) == 16
    facts = json.loads((out / "run.json").read_text())
    assert (facts["utterances"], facts["frames"], facts["dropped_frames"]) == (len(spoken), 8, 0)
    assert facts["settings"]["policy"] == "tsi" and facts["settings"]["fps"] == 2.0
    assert set(facts["step_latency"]) == {"p50", "p95", "max"} and facts["warnings"] == []


@pytest.mark.parametrize("window", ["2", "trained", "none"])
def test_a_window_that_holds_the_whole_clip_changes_nothing(window, house, tmp_path):
    said, facts = [], {}
    for name, words in (("plain", ()), ("kept", ("--window", window, "--window-keep", "distinct"))):
        out = tmp_path / name
        code = infer(house / "clip1.mp4", "--model", house / "model", "--out", out, *WARM, *words)
        facts = json.loads((out / "run.json").read_text())
        said.append((code, (out / "utterances.jsonl").read_bytes()))
    assert said[0] == said[1] and said[0][0] == 0
    assert facts["left_the_window"] == {}
    assert facts["settings"]["window"] == (2.0 if window == "2" else window)


def cues(path: Path, point: str) -> list[str]:
    stamp = rf"\d\d:\d\d:\d\d\{point}\d{{3}}"
    return re.findall(rf"^{stamp} --> {stamp}$", path.read_text(), re.M)


def test_real_time_and_typed_lines(house, tmp_path, capsys, monkeypatch):
    script = tmp_path / "typed"
    script.write_text("take the red part\n")
    with script.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code = infer(
            house / "short.mp4", "--model", house / "model", "--out", tmp_path / "out",
            "--realtime", "--user-input", "--fps", 4,
        )  # fmt: skip
    facts = json.loads((tmp_path / "out/run.json").read_text())
    assert code == 0 and facts["realtime"] is True
    assert facts["frames"] + facts["dropped_frames"] == 4
    assert [t["text"] for t in facts["user_turns"]] == ["take the red part"]
    assert "user: take the red part" in capsys.readouterr().out


def test_datapoints_in_order(house, reference):
    names = [json.loads(line)["video_id"] for line in reference.splitlines()]
    assert names == sorted(names) and len(set(names)) >= 4
    done = stream_datapoints(
        house / "model", house / "points.jsonl", temperature=0.2, seed=1, max_tokens=9
    )
    assert [u.video_id for d in done for u in d.utterances] == names


def test_two_workers_say_the_same(house, reference, tmp_path, capfd):
    words = ("--timeline", house / "points.jsonl", "--model", house / "model", "--out", tmp_path)
    assert infer(*words, *WARM, "--workers", 2) == 0
    assert (tmp_path / "utterances.jsonl").read_bytes() == reference
    shown = capfd.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 2
    assert "6 of 6 datapoints" in shown.err


def test_a_store_is_filled_and_used(house, tmp_path, monkeypatch):
    words = ["--timeline", house / "points.jsonl", "--model", house / "model", *WARM]
    words += ["--store", tmp_path / "store"]
    assert infer(*words, "--out", tmp_path / "a") == 0
    assert len(list(tmp_path.glob("store/*/*/*.feat"))) == 2
    monkeypatch.setattr("vlm_tsi.model.frames.encode_video", None)
    assert infer(*words, "--out", tmp_path / "b") == 0
    said = [(tmp_path / n / "utterances.jsonl").read_bytes() for n in "ab"]
    assert said[0] == said[1] != b""


def test_a_broken_off_run_goes_on(house, reference, tmp_path, monkeypatch):
    words = ["--timeline", house / "points.jsonl", "--model", house / "model", "--out", tmp_path]
    run = batch.Worker.run

    def breaks(self, job):
        if job.video.name == "clip1.mp4":
            raise KeyboardInterrupt
        return run(self, job)

    monkeypatch.setattr(batch.Worker, "run", breaks)
    assert infer(*words, *WARM) == 130
    assert not (tmp_path / "utterances.jsonl").exists()
    left = tmp_path / ".unfinished.jsonl"
    left.write_bytes(left.read_bytes() + b'{"video_id": "torn')
    jobs = []
    monkeypatch.setattr(batch.Worker, "run", lambda s, job: jobs.append(job) or run(s, job))
    assert infer(*words, *WARM) == 0
    assert [j.video.name for j in jobs] == ["clip1.mp4"]
    assert (tmp_path / "utterances.jsonl").read_bytes() == reference
    assert not left.exists()
    assert infer(*words, *WARM[:-1], "8") == 0
    assert len(jobs) == 3


def test_one_bad_video_does_not_stop_the_others(house, tmp_path, capsys):
    bad = [point(8, "missing.mp4"), point(0), point(9, "zero.mp4")]
    write_timelines(house / "some.jsonl", bad)
    code = infer("--timeline", house / "some.jsonl", "--model", house / "model", "--out", tmp_path)
    facts = json.loads((tmp_path / "run.json").read_text())
    assert code == 0
    assert [f["video_id"] for f in facts["failed"]] == ["p8", "p9"]
    assert facts["streamed"] == 1
    warning = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(warning) == 1 and "2 could not be streamed" in warning[0]


CASES = {
    "missing": (["{house}/none.mp4"], "none.mp4"),
    "zero bytes": (["{house}/zero.mp4"], "0 bytes"),
    "corrupt": (["{house}/corrupt.mp4"], "corrupt.mp4"),
    "truncated": (["{house}/cut.mp4"], "cut.mp4"),
    "a folder": (["{house}"], "is a folder"),
    "nothing": ([], "VIDEO"),
    "not mp4": (["{house}/clip0.mp4", "--annotate", "x.avi"], "x.avi"),
    "bad threshold": (["{house}/clip0.mp4", "--threshold", "3"], "threshold"),
    "bad fps": (["{house}/clip0.mp4", "--fps", "-1"], "fps"),
    "no number": (["{house}/clip0.mp4", "--fps", "two"], "--fps"),
    "unknown option": (["{house}/clip0.mp4", "--speed", "2"], "--speed"),
    "unknown policy": (["{house}/clip0.mp4", "--policy", "x"], "--policy"),
    "no camera": (["97"], "97"),
    "another architecture": (["{house}/clip0.mp4", "--model", "{house}/other"], "'llama'"),
    "no device": (["{house}/clip0.mp4", "--device", "toaster"], "'toaster'"),
    "no model": (["{house}/clip0.mp4", "--model", "{house}/nothing"], "nothing"),
    "no timeline": (["--timeline", "{house}/none.jsonl"], "none.jsonl"),
    "no workers": (["--timeline", "{house}/points.jsonl", "--workers", "0"], "workers"),
    "mixed": (["--timeline", "{house}/points.jsonl", "--realtime"], "--realtime"),
    "all bad": (["--timeline", "{house}/bad.jsonl"], "none of its 1"),
    "workers for a video": (["{house}/clip0.mp4", "--workers", "0"], "--workers"),
    "a store for a video": (["{house}/clip0.mp4", "--store", "x"], "--store"),
    "an unset variable": (["{house}/clip0.mp4", "--annotate", ""], "annotate"),
    "half an option": (["{house}/clip0.mp4", "--thresh", "0.5"], "--thresh"),
    "threshold of tsi": (["{house}/clip0.mp4", "--threshold", "0.5"], "--threshold"),
    "a base of a whole model": (["{house}/clip0.mp4", "--base", "{house}/model"], "--base"),
    "nothing computes": (["{house}/clip0.mp4", "--device", "meta"], "device"),
    "no out": (["{house}/clip0.mp4", "--out", ""], "out: is empty"),
    "no window": (["{house}/clip0.mp4", "--window", "0"], "window: is 0.0"),
    "an odd window": (["{house}/clip0.mp4", "--window", "soon"], "'soon'"),
    "a wide window": (["{house}/clip0.mp4", "--window", "1e6"], "the language model knows 16384"),
    "less than no text": (["{house}/clip0.mp4", "--window-text", "-1"], "window-text"),
    "bytes as text": (["{house}/clip0.mp4", "--system", "caf\udce9"], "system"),
    "no place": (["{house}/clip0.mp4", "--out", "{house}/zero.mp4/out"], "zero.mp4/out"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_exit_2(case, house, tmp_path, capsys):
    write_timelines(house / "bad.jsonl", [point(0, "corrupt.mp4")])
    words, named = CASES[case]
    defaults = ["--model", str(house / "model"), "--out", str(tmp_path / "out")]
    code = infer(*defaults, *(w.format(house=house) for w in words))
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    lines = shown.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and named in lines[0]


def test_a_bad_window_fails_its_datapoint_alone(house, tmp_path, capsys):
    bad = [replace(point(k), video_id=f"bad{k}", meta={"window": w}) for k, w in enumerate(BAD)]
    write_timelines(house / "windows.jsonl", [point(0), *bad, point(3)])
    out = tmp_path / "out"
    code = infer("--timeline", house / "windows.jsonl", "--model", house / "model", "--out", out)
    failed = json.loads((out / "run.json").read_text())["failed"]
    assert code == 0 and [f["video_id"] for f in failed] == [f"bad{k}" for k in range(len(BAD))]
    assert all(f"{f['video_id']}: meta.window is" in f["error"] for f in failed)
    assert "bad0: meta.window is [2.0, 1.0]" in capsys.readouterr().err
    assert {g.video_id for g in read_generated(out / "utterances.jsonl")} <= {"p0", "p3"}


@pytest.mark.parametrize("points", [[], [point(0, "gone.mp4")]], ids=["empty", "no video"])
def test_a_run_that_streams_nothing_keeps_an_earlier_runs_output(points, house, tmp_path, capsys):
    words = ["--model", house / "model", "--out", tmp_path / "out", "--timeline"]
    changing = house / "changing.jsonl"
    write_timelines(changing, [point(0)])
    assert infer(*words, changing) == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    write_timelines(changing, points)
    assert infer(*words, changing) == 2
    assert ("holds no datapoint", "none of its 1 datapoints")[
        len(points)
    ] in capsys.readouterr().err.splitlines()[-1]
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before


BAD = ([2.0, 1.0], [1.0], "all", [-1, 2], [1, None], {"start": 1})


def test_workers_name_a_bad_model(house, tmp_path, capfd):
    words = ["--timeline", house / "points.jsonl", "--model", house / "other", "--out", tmp_path]
    assert infer(*words, "--workers", 2) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "'llama'" in lines[0]


def test_a_full_disk_leaves_no_half_file(house, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", str(tmp_path / "clip0.srt"))

    monkeypatch.setattr("vlm_tsi.streaming.outputs.write_text", full)
    words = ("--model", house / "model", "--out", tmp_path, *WARM)
    assert infer(house / "clip0.mp4", *words) == 2
    assert "No space left" in capsys.readouterr().err.splitlines()[-1]
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"run.json", "utterances.jsonl", SPOOL}  # nothing said is lost
    said = read_generated(tmp_path / "utterances.jsonl")
    assert read_generated(tmp_path / SPOOL) == said != []
    monkeypatch.undo()
    assert infer(house / "clip0.mp4", *words) == 0  # the disk has room again
    assert not (tmp_path / SPOOL).exists()


def test_datapoints_note_the_settings_they_were_streamed_with(house, tmp_path):
    assert infer("--timeline", house / "points.jsonl", "--model", house / "model",
                 "--out", tmp_path) == 0  # fmt: skip
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    assert (settings["policy"], settings["fps"], settings["onset"]) == ("tsi", 2.0, 0.5)


@pytest.mark.parametrize(
    "clip",
    ["ft_corrupt.mkv", "ft_truncated.mkv", "mpy_no_duration.webm", "tc_h264_10bits.mp4"],
)
def test_real_clips_stream_or_end_in_one_line(clip, house, tmp_path, capsys, shared_data):
    words = (shared_data / "clips" / clip, "--model", house / "model", "--out", tmp_path / "out")
    code = infer(*words, "--fps", 1)
    shown = capsys.readouterr()
    if code == 2:
        assert len(shown.err.splitlines()) == 1 and clip in shown.err
    else:
        assert code == 0 and (tmp_path / "out/run.json").exists()
    assert "Traceback" not in shown.err
