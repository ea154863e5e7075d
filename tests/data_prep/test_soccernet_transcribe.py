"""transcribe: which halves become what, by a stand-in recogniser that hears loudness."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from data_prep.asr.base import HeardWord
from data_prep.asr.sentences import sentences_of
from data_prep.common.tasks import GONE
from data_prep.soccernet import __main__ as cli
from data_prep.soccernet.transcribe import SHORT, SPARE, find_halves, segment_of
from data_prep.soccernet.transcript import find_transcripts, read_transcript
from tests.data_prep.asr_speech import RATE, write_video
from tests.data_prep.killed import start
from vlm_tsi.files import read_json

HEARS_LOUDNESS = """#!{python} -I
import array, json, os, sys, time
log = os.path.join(os.path.dirname(__file__), "log")
def note(word):
    with open(log, "a") as out:
        out.write(word + chr(10))
settings = json.loads(sys.stdin.readline())
note("load")
print(json.dumps({{"ready": True}}), flush=True)
for line in sys.stdin:
    note("hear")
    time.sleep({sleep})
    sound = array.array("f", open(json.loads(line)["audio"], "rb").read())
    loud = [i / 16000 for i in range(0, len(sound), 160) if abs(sound[i]) > 0.2]
    soft = any(abs(x) > 0.05 for x in sound)
    words = [{{"word": f"Goal{{round(t)}}.", "start": t, "end": t + 0.3}} for t in loud]
    said = [{{"start": 0, "end": 9, "text": "", "words": words}}] if words else []
    language = "en" if loud else "es" if soft else None
    print(json.dumps({{"language": language, "probability": 0.9, "segments": said}}), flush=True)
"""
MATCH = "north_premier/2001-2002/2001-09-01 - 16-00 Rovers 1 - 0 United"
OTHER = "south_premier/2002-2003/2002-10-05 - 18-00 City 0 - 3 Athletic"
STATUS = {
    f"{MATCH}/1_224p": "ok",
    f"{MATCH}/2_224p": "no_audio",
    f"{OTHER}/1_224p": "no_speech",
    f"{OTHER}/2_224p": "other_language",
}


def pulses(*at: float, level: float = 0.8, seconds: float = 4.0) -> np.ndarray:
    """Silence with bursts of 10 ms."""
    audio = np.zeros(round(seconds * RATE), np.float32)
    for t in at:
        audio[round(t * RATE) : round(t * RATE) + 160] = level
    return audio


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """A half of each kind; the first one's sound and video begin at other times than 0."""
    root = tmp_path_factory.mktemp("corpus")
    sounds = [pulses(1.0, 3.0), None, pulses(), pulses(2.0, level=0.1)]
    for half, sound in zip(STATUS, sounds, strict=True):
        late = {"video_from": 1.0, "audio_from": 1.5} if sound is sounds[0] else {}
        write_video(root / f"{half}.mkv", sound, seconds=4.0, **late)
    return root


def stand_in(folder: Path, sleep: float = 0.0) -> Path:
    """An interpreter for `--whisperx-python`; it logs each load and each half."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "python"
    python.write_text(HEARS_LOUDNESS.format(python=sys.executable, sleep=sleep))
    python.chmod(0o755)
    return python


def words(videos: Path, python: Path, *more: str) -> list[str]:
    named = ["--backend", "whisperx", "--whisperx-python", str(python)]
    return ["transcribe", "--videos", str(videos), *named, *more]


def transcribe(videos: Path, out: Path, python: Path, *more: str) -> int:
    return cli.main([*words(videos, python, *more), "--out", str(out)])


def bytes_below(folder: Path) -> dict[str, bytes]:
    """All files but locks and temporary ones."""
    shown = (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    return {str(p.relative_to(folder)): p.read_bytes() for p in shown}


def logged(python: Path) -> list[str]:
    return (python.parent / "log").read_text().split()


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory) -> Path:
    """What one worker leaves in one go."""
    root = tmp_path_factory.mktemp("undisturbed")
    assert transcribe(corpus, root / "out", stand_in(root)) == 0
    assert logged(root / "python") == ["load", "hear", "hear", "hear"]
    return root / "out"


def test_each_half_is_a_transcript_whatever_is_in_it(undisturbed):
    found = {half: read_transcript(path, half) for half, path in find_transcripts(undisturbed)}
    assert {half: t.status for half, t in found.items()} == STATUS
    assert [t.language for t in found.values()] == ["en", None, None, "es"]
    assert [bool(t.segments) for t in found.values()] == [True, False, False, False]
    assert [t.duration for t in found.values()][1:] == [pytest.approx(4.0, abs=0.2)] * 3


def test_words_are_on_the_clock_of_the_video(undisturbed):
    """The sound begins half a second after the first frame."""
    record = read_json(undisturbed / f"{MATCH}/1_224p.json")
    starts = [w["start"] for s in record["segments"] for w in s["words"]]
    assert starts == pytest.approx([1.5, 3.5], abs=0.02)


def test_the_report_counts_every_half_and_knows_no_path(undisturbed, corpus):
    report = read_json(undisturbed / "report.json")
    assert (report["unit"], report["read"], report["kept"]) == ("video", 4, 1)
    assert report["dropped"] == {"no audio track": 1, "no speech": 1, "other language: es": 1}
    assert report["also"]["segment"]["kept"] == report["also"]["word"]["kept"] == 2
    shown = b"".join(bytes_below(undisturbed).values()).decode()
    assert str(corpus) not in shown and str(undisturbed) not in shown


def test_two_workers_leave_the_same_bytes(corpus, undisturbed, tmp_path):
    assert transcribe(corpus, tmp_path / "out", stand_in(tmp_path), "--workers", "2") == 0
    assert bytes_below(tmp_path / "out") == bytes_below(undisturbed)


@pytest.mark.slow
def test_ray_leaves_the_same_bytes_and_tells_what_is_missing(corpus, undisturbed, tmp_path, capsys):
    pytest.importorskip("ray", reason="Ray (extra `cluster`) is not installed")
    ray = ("--workers", "2", "--executor", "ray")
    assert transcribe(corpus, tmp_path / "out", stand_in(tmp_path), *ray) == 0
    assert bytes_below(tmp_path / "out") == bytes_below(undisturbed)
    broken = tmp_path / "broken"
    broken.write_text(f"#!{sys.executable}\nraise SystemExit('no module named whisperx')\n")
    broken.chmod(0o755)
    capsys.readouterr()
    assert transcribe(corpus, tmp_path / "none", broken, *ray) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("error: --asr whisperx: not loaded (no module named whisperx); ")


def test_processes_that_share_the_folder_hear_each_half_once(corpus, undisturbed, tmp_path):
    python = stand_in(tmp_path, sleep=0.3)
    args = ["data_prep.soccernet", *words(corpus, python, "--resume")]
    runs = [start(args, tmp_path / "out") for _ in range(2)]
    assert [run.wait(timeout=120) for run in runs] == [0, 0]
    assert logged(python).count("hear") == 3
    assert bytes_below(tmp_path / "out") == bytes_below(undisturbed)


def test_killed_and_resumed_leaves_the_same_bytes_and_hears_no_half_twice(
    corpus, undisturbed, tmp_path
):
    python = stand_in(tmp_path, sleep=0.5)
    run = start(["data_prep.soccernet", *words(corpus, python)], tmp_path / "out")
    while run.poll() is None and (
        not (python.parent / "log").exists() or logged(python).count("hear") < 2
    ):
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait(timeout=60) == -signal.SIGKILL
    left = bytes_below(tmp_path / "out")
    assert 1 <= len(left) < 4 and left.items() <= bytes_below(undisturbed).items()
    assert transcribe(corpus, tmp_path / "out", python, "--resume") == 0
    assert bytes_below(tmp_path / "out") == bytes_below(undisturbed)
    assert logged(python).count("hear") == 4  # the one that was cut short is heard again


def test_what_is_finished_needs_no_recogniser(corpus, undisturbed, tmp_path):
    python = stand_in(tmp_path)
    assert transcribe(corpus, tmp_path / "out", python) == 0
    before = logged(python)
    assert transcribe(corpus, tmp_path / "out", python, "--resume") == 0
    assert logged(python) == before
    assert bytes_below(tmp_path / "out") == bytes_below(undisturbed)


def test_a_half_fetched_again_is_heard_again(tmp_path):
    video, python = tmp_path / "videos/l/s/m/1_224p.mkv", stand_in(tmp_path)
    for at in (1.0, 2.0):
        write_video(video, pulses(at))
        assert transcribe(tmp_path / "videos", tmp_path / "out", python, "--resume") == 0
        record = read_json(tmp_path / "out/l/s/m/1_224p.json")
        assert record["segments"][0]["start"] == pytest.approx(at, abs=0.02)


def test_what_cannot_be_read_is_a_line_and_a_cut_file_is_noted(tmp_path, capsys):
    videos, python = tmp_path / "videos", stand_in(tmp_path)
    cut, bad = (videos / f"l/s/m/{half}_224p.mkv" for half in (1, 2))
    write_video(cut, pulses(1.0, seconds=20.0))
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    bad.write_bytes(b"no video at all")
    assert transcribe(videos, tmp_path / "out", python) == 0
    report = read_json(tmp_path / "out/report.json")
    assert (report["read"], report["kept"]) == (2, 1)
    assert report["dropped"] == {"cannot be read": 1} and report["noted"] == {SHORT: 1}
    (line,) = report["examples"]["cannot be read"]
    assert line.startswith("l/s/m/2_224p: cannot be read as a video")
    assert f"left out: {line}" in capsys.readouterr().err
    assert not (tmp_path / "out/l/s/m/2_224p.json").exists()
    cut.unlink()
    assert transcribe(videos, tmp_path / "none", python) == 2
    assert "no half could be read" in capsys.readouterr().err


def test_the_limit_and_the_track(tmp_path):
    videos, python = tmp_path / "videos", stand_in(tmp_path)
    for half in (1, 2):
        write_video(videos / f"l/s/m/{half}_224p.mkv", pulses(1.0), tracks=2)
    for track, status in ((0, "no_speech"), (1, "ok"), (2, "no_audio")):
        out, code = tmp_path / str(track), 0 if status == "ok" else 2
        assert transcribe(videos, out, python, "--track", str(track), "--limit", "1") == code
        assert set(bytes_below(out)) == {"report.json", "l/s/m/1_224p.json"}
        assert read_json(out / "l/s/m/1_224p.json")["status"] == status


@pytest.mark.parametrize(
    "options, told",
    [
        (["--model", "weights/no-such-whisper"], "--model weights/no-such-whisper: not loaded"),
        (["--model", "EMPTY"], "no model.bin in it"),
        (["--backend", "whisperx", "--whisperx-python", "/none"], "run `make whisperx`"),
        (["--diarize"], "--diarize: faster-whisper has no such step"),
        (["--batch-size", "0"], "--batch-size: is 0"),
        (["--track", "-1"], "--track: is -1"),
        (["--language", "english"], "no code that Whisper knows; give one such as en"),
        (["--compute-type", "float"], "invalid choice: 'float'"),
        (["--videos", "EMPTY"], "holds no half"),
        (["--videos", "/none"], "/none is no folder"),
    ],
)
def test_what_is_missing_is_one_line_before_any_work(options, told, corpus, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    options = [str(tmp_path / "empty") if o == "EMPTY" else o for o in options]
    out = tmp_path / "out"
    assert cli.main(["transcribe", "--videos", str(corpus), "--out", str(out), *options]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and told in lines[0]
    assert not out.exists()


def test_a_second_video_of_a_half_is_told(tmp_path):
    for suffix in ("mp4", "mkv"):
        write_video(tmp_path / f"v/l/s/m/1_224p.{suffix}", pulses(1.0))
    assert transcribe(tmp_path / "v", tmp_path / "out", stand_in(tmp_path)) == 0
    report = read_json(tmp_path / "out/report.json")
    assert report["read"] == 1 and report["noted"] == {SPARE: 1}
    assert report["examples"][SPARE] == ["l/s/m/1_224p.mp4"]


def test_nothing_kept_is_an_error_with_its_report(tmp_path, capsys):
    write_video(tmp_path / "v/l/s/m/1_224p.mkv", pulses(2.0, level=0.1))
    assert transcribe(tmp_path / "v", tmp_path / "out", stand_in(tmp_path)) == 2
    assert "no half has speech in 'en'; see report.json" in capsys.readouterr().err
    report = read_json(tmp_path / "out/report.json")
    assert report["dropped"] == {"other language: es": 1}
    assert (tmp_path / "out/l/s/m/1_224p.json").exists()


def test_a_half_that_is_gone_leaves_nothing_for_the_next_step(tmp_path):
    videos, python, out = tmp_path / "v", stand_in(tmp_path / "asr"), tmp_path / "out"
    halves = [f"l/s/m/{k}_224p" for k in (1, 2)]
    for half in halves:
        write_video(videos / f"{half}.mkv", pulses(1.0))
    assert transcribe(videos, out, python) == 0
    gone = (videos / f"{halves[1]}.mkv").read_bytes()
    (videos / f"{halves[1]}.mkv").unlink()
    assert transcribe(videos, out, python, "--resume") == 0
    assert [half for half, _ in find_transcripts(out)] == halves[:1]
    assert read_json(out / "report.json")["noted"] == {GONE: 1}
    (videos / f"{halves[1]}.mkv").write_bytes(gone)
    assert transcribe(videos, out, python, "--resume") == 0
    assert logged(python).count("hear") == 2, "what comes back is not heard again"
    assert [half for half, _ in find_transcripts(out)] == halves


def test_the_number_format_is_told_before_it_goes_into_the_key(undisturbed):
    assert read_json(undisturbed / "report.json")["settings"]["compute_type"] == "int8"


def test_a_missing_package_is_named_with_its_extra(corpus, tmp_path, capsys, monkeypatch):
    from data_prep.asr import faster

    monkeypatch.setattr(faster, "find_spec", lambda name: None)
    assert cli.main(["transcribe", "--videos", str(corpus), "--out", str(tmp_path / "o")]) == 2
    assert "pip install 'vlm-tsi[asr]'" in capsys.readouterr().err


def test_halves_are_found_at_any_depth_by_the_first_suffix(tmp_path):
    for name in ("v/l/s/m/1_224p.mp4", "v/l/s/m/1_224p.mkv", "v/l/s/m/2_224p.mp4",
                 "v/l/s/m/1_720p.mkv", "v/.hidden/1_224p.mkv", "v/l/s/m/1_224p.json"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/corpus").symlink_to(tmp_path / "v")
    spare = []
    found = find_halves(tmp_path / "linked", spare)
    assert spare == ["corpus/l/s/m/1_224p.mp4"]
    assert [(h, p.suffix) for h, p in found] == [
        ("corpus/l/s/m/1_224p", ".mkv"), ("corpus/l/s/m/2_224p", ".mp4"),
    ]  # fmt: skip


def test_a_sentence_holds_its_words_and_its_speaker():
    said = segment_of(
        [
            HeardWord("Well,", 1.0, 3.0),
            HeardWord("shot!", 2.0, 2.5, "S1"),
            HeardWord("oh", 2.2, 2.4),
        ]
    )
    assert (said.text, said.start, said.end, said.speaker) == ("Well, shot! oh", 1.0, 3.0, "S1")
    assert [w.text for w in said.words] == ["Well,", "shot!", "oh"]


def test_a_word_without_a_speaker_breaks_no_sentence():
    speakers = ["S0", None, "S0", "S1", None]
    said = [HeardWord("a", i / 2, i / 2 + 0.4, speaker) for i, speaker in enumerate(speakers)]
    assert [len(words) for words in sentences_of(said)] == [3, 2]


def test_loops_are_noted_and_kept(tmp_path):
    write_video(tmp_path / "v/l/s/m/1_224p.mkv", pulses(1.0, 1.1, 1.2))
    assert transcribe(tmp_path / "v", tmp_path / "out", stand_in(tmp_path)) == 0
    sentences = read_json(tmp_path / "out/report.json")["also"]["segment"]
    assert sentences["kept"] == 3 and list(sentences["noted"].values()) == [2]
    assert json.dumps(sentences["examples"]).count("l/s/m/1_224p at 1.") == 2
