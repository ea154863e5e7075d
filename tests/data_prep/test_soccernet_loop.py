"""A spoken commentary with known words through transcribe, filter and build, on the CPU."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from data_prep.soccernet import __main__ as cli
from data_prep.soccernet import pbp_train
from data_prep.soccernet.pbp_fit import ContextRecipe, LstmRecipe, Recipes
from data_prep.validate import main as validate
from tests.data_prep.asr_speech import (
    COMMENTARY,
    RATE,
    WHISPER,
    needs_flite,
    needs_whisper,
    pairs,
    plain,
    speech,
    write_video,
)
from tests.data_prep.pbp_halves import MATCHES, put
from vlm_tsi.files import read_json
from vlm_tsi.timeline import Timeline, Word, read_timelines

pytest.importorskip("faster_whisper", reason="faster-whisper (extra `asr`) is not installed")
EMBEDDER = WHISPER.parent / "all-MiniLM-L6-v2"
pytestmark = [
    needs_flite,
    needs_whisper,
    pytest.mark.skipif(not EMBEDDER.is_dir(), reason=f"no {EMBEDDER}: run `make weights`"),
    pytest.mark.slow,
]
SECONDS = 180
PAUSES = [0.6, 3.0, 1.2, 0.4, 6.0, 2.0]
TALK = {0, 6, 7, 14, 15, 28, 29, 32, 34}
"""Sentences of the commentary that do not tell the play, as a person marks them."""
HALF = f"{MATCHES[0]}/1_224p"
SMALL = Recipes(
    lstm=LstmRecipe(hidden=4, most_epochs=1),
    context=ContextRecipe(hidden=16, epochs=12, members=1, batch_size=2, learning_rate=3e-3),
)


def put_labels(root: Path) -> Path:
    """Labelled halves: runs of the commentary's two kinds of sentences, in other orders."""
    for m, match in enumerate(MATCHES):
        for half in (1, 2):
            rng, told, at = random.Random(10 * m + half), [], 2.0
            while len(told) < 60:
                is_pbp = rng.random() < 0.6
                kind = [i for i in range(len(COMMENTARY)) if (i not in TALK) == is_pbp]
                for i in rng.sample(kind, rng.randint(1, 5)):
                    seconds = rng.uniform(0.2, 0.35) * len(COMMENTARY[i].split())
                    span = {"start": at, "end": at + seconds}
                    told.append({**span, "text": COMMENTARY[i], "is_pbp": is_pbp})
                    at = span["end"] + rng.choice(PAUSES)
            put(root, f"{match}/{half}_224p", {"segments": told})
    return root


@dataclass(frozen=True)
class Loop:
    """What was said, and what came out."""

    said: list[Word]
    out: Path

    def timeline(self) -> Timeline:
        (timeline,) = read_timelines(self.out / "timelines/timelines.jsonl")
        return timeline


@pytest.fixture(scope="module")
def loop(tmp_path_factory) -> Loop:
    """Three minutes of speech in one half, no sound in the other; a filter of made-up labels."""
    root = tmp_path_factory.mktemp("loop")
    audio, said = speech(COMMENTARY, PAUSES, lead=2.0)
    audio = np.concatenate([audio, np.zeros(SECONDS * RATE - len(audio), np.float32)])
    write_video(root / f"videos/{HALF}.mkv", audio, video_from=1.0, audio_from=1.0)
    write_video(root / f"videos/{MATCHES[0]}/2_224p.mkv", None, seconds=2.0)
    train = ["--labels", put_labels(root / "labels"), "--out", root / "filter"]
    embedder = ["--embedder", EMBEDDER]
    words = [str(w) for w in (*train, *embedder, "--workers", "1")]
    assert pbp_train.run(cli.parser_of("train-filter").parse_args(words), SMALL) == 0
    everything = ["all", "--videos", root / "videos", "--out", root / "out", *embedder]
    everything += ["--filter", root / "filter", "--asr-model", WHISPER]
    assert cli.main([str(w) for w in everything]) == 0
    return Loop(said, root / "out")


def test_nine_words_in_ten_are_heard_within_a_third_of_a_second(loop):
    """Of all words said, so that a word not heard counts as wrong; in the finished timeline."""
    heard = [w for u in loop.timeline().utterances for w in u.words]
    matched = pairs(loop.said, heard)
    starts, ends = (
        np.array([abs(getattr(a, at) - getattr(b, at)) for a, b in matched])
        for at in ("start", "end")
    )
    total = len(loop.said)
    both = np.maximum(starts, ends) <= 0.3
    print(
        f"{total} words said, {len(matched)} heard; within 0.3 s: starts "
        f"{(starts <= 0.3).sum() / total:.1%}, ends {(ends <= 0.3).sum() / total:.1%}, both "
        f"{both.sum() / total:.1%}; median {np.median(starts):.3f} and {np.median(ends):.3f} s"
    )
    assert total > 300
    assert (starts <= 0.3).sum() >= 0.9 * total
    assert (ends <= 0.3).sum() >= 0.9 * total
    assert both.sum() >= 0.9 * total


def test_every_sentence_arrives_and_is_marked(loop):
    timeline = loop.timeline()
    assert timeline.video_id == HALF and timeline.duration == pytest.approx(SECONDS, abs=1.5)
    assert all(u.words and u.role == "assistant" for u in timeline.utterances)
    wanted = {plain(s): i not in TALK for i, s in enumerate(COMMENTARY)}
    marks = [(bool(u.eval), wanted.get(plain(u.text))) for u in timeline.utterances]
    known = [mark == want for mark, want in marks if want is not None]
    print(f"{len(marks)} sentences, {len(known)} word for word; {np.mean(known):.0%} marked right")
    assert len(known) >= 0.5 * len(COMMENTARY)
    assert np.mean(known) >= 0.9
    assert {mark for mark, _ in marks} == {True, False}


def test_the_reports_add_up_along_the_way(loop):
    transcribed, filtered, built = (
        read_json(loop.out / part / "report.json")
        for part in ("transcripts", "filtered", "timelines")
    )
    assert transcribed["dropped"] == {"no audio track": 1} and transcribed["kept"] == 1
    sentences = transcribed["also"]["segment"]["kept"]
    assert sentences == filtered["kept"] == built["read"] == len(loop.timeline().utterances)
    assert built["also"]["file"]["dropped"] == {"no audio": 1}


def test_what_comes_out_keeps_its_contracts(loop):
    assert validate([str(loop.out / "timelines/timelines.jsonl")]) == 0
