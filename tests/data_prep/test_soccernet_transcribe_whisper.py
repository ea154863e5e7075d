"""transcribe with the real Whisper base: real clips, threads and workers, both backends."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data_prep.asr import faster
from data_prep.asr.whisperx_backend import PYTHON
from data_prep.soccernet import __main__ as cli
from data_prep.soccernet.transcript import read_transcript
from tests.data_prep.asr_speech import (
    COMMENTARY,
    WHISPER,
    needs_flite,
    needs_whisper,
    share_heard,
    speech,
    write_video,
)
from tests.data_prep.killed import ROOT
from tests.data_prep.test_asr_whisperx import save_random_aligner
from vlm_tsi.files import read_json

pytest.importorskip("faster_whisper", reason="faster-whisper (extra `asr`) is not installed")
pytestmark = [needs_whisper, pytest.mark.slow]


def transcribe(videos: Path, out: Path, *more: str) -> int:
    named = ["--videos", str(videos), "--out", str(out), "--model", str(WHISPER)]
    return cli.main(["transcribe", *named, "--device", "cpu", *more])


def test_real_clips_become_what_they_are(shared_data, tmp_path):
    clips = {
        "m1/1_224p.mp4": "ae_example.mp4",
        "m1/2_224p.mp4": "tc_nasa_13013.mp4",
        "m2/1_224p.mp4": "mma_structuralize.mp4",
        "m2/2_224p.mkv": "ft_corrupt.mkv",
    }
    for name, clip in clips.items():
        (tmp_path / "v/l/s" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(shared_data / "clips" / clip, tmp_path / "v/l/s" / name)
    assert transcribe(tmp_path / "v", tmp_path / "out") == 0
    told = [
        read_transcript(tmp_path / f"out/l/s/{half}_224p.json", half)
        for half in ("m1/1", "m1/2", "m2/1")
    ]
    assert [t.status for t in told] == ["ok", "ok", "no_audio"]
    for transcript, fewest in zip(told[:2], (40, 20), strict=True):
        assert transcript.language == "en"
        heard = [w for s in transcript.segments for w in s.words]
        print(f"{len(heard)} words in {transcript.duration:.1f} s")
        assert len(heard) >= fewest
        assert all(0 <= w.start <= w.end <= transcript.duration + 0.1 for w in heard)
    # the clip's own clock, burnt into its frames, shows 40 s when the last word is said
    assert told[0].segments[-1].start == pytest.approx(40.0, abs=0.3)
    report = read_json(tmp_path / "out/report.json")
    assert (report["read"], report["kept"]) == (4, 2)
    assert report["dropped"] == {"cannot be read": 1, "no audio track": 1}


def test_a_half_that_the_recogniser_fails_on_is_a_line(tmp_path, monkeypatch, capsys):
    def fails(audio):
        raise RuntimeError("CUDA failed with error out of memory")

    monkeypatch.setattr(faster, "speech_spans", fails)
    write_video(tmp_path / "v/l/s/m/1_224p.mkv", np.zeros(16_000, np.float32))
    assert transcribe(tmp_path / "v", tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert "left out: l/s/m/1_224p: faster-whisper: CUDA failed" in told
    assert "give a smaller --batch-size" in told


@needs_flite
def test_threads_and_workers_change_no_byte(tmp_path):
    """Left alone, the numbers of BLAS hang on its threads, and word times on them."""
    audio, said = speech(COMMENTARY[:6], [0.5, 1.0])
    for half in (1, 2):
        write_video(tmp_path / f"v/l/s/m/{half}_224p.mkv", audio)
    for out, workers in (("threads", "1"), ("workers", "2")):  # of which each has one thread
        named = ["--videos", tmp_path / "v", "--out", tmp_path / out, "--model", WHISPER]
        words = [sys.executable, "-m", "data_prep.soccernet", "transcribe", *named]
        env = {**os.environ, "OMP_NUM_THREADS": "4"}
        subprocess.run([*map(str, words), "--workers", workers], cwd=ROOT, env=env, check=True)
    for name in ("report.json", "l/s/m/1_224p.json", "l/s/m/2_224p.json"):
        assert (tmp_path / "threads" / name).read_bytes() == (
            tmp_path / "workers" / name
        ).read_bytes()
    told = read_transcript(tmp_path / "threads/l/s/m/1_224p.json", "m")
    heard = [w for s in told.segments for w in s.words]
    assert share_heard(said, heard, within=0.3) >= 0.9


@needs_flite
@pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-whisperx: run `make whisperx`")
def test_the_real_whisperx_leaves_the_same_form_and_tells_silence(tmp_path):
    """Its aligner is a random replica here, so that only the words and their order are known."""
    audio, said = speech(COMMENTARY[:3], [0.8])
    write_video(tmp_path / "v/l/s/m/1_224p.mkv", audio)
    write_video(tmp_path / "v/l/s/m/2_224p.mkv", 0 * audio)
    aligner = save_random_aligner(tmp_path / "aligner")
    more = ["--backend", "whisperx", "--align-model", aligner]
    assert transcribe(tmp_path / "v", tmp_path / "out", *more) == 0
    spoken, silent = (
        read_transcript(tmp_path / f"out/l/s/m/{half}_224p.json", "m") for half in (1, 2)
    )
    assert (spoken.status, spoken.language, silent.status) == ("ok", "en", "no_speech")
    assert share_heard(said, [w for s in spoken.segments for w in s.words]) >= 0.9
