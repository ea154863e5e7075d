"""Speech with known word times, for the tests of transcription.

Input: sentences and the pauses around them (s). Output: 16 kHz mono samples and the true
start and end of each word, from the synthesiser's own phone durations; videos that carry it.
Invariant: needs `flite` (Debian's package); the same sentences give the same samples.
"""

import re
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Sequence
from difflib import SequenceMatcher
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from vlm_tsi.timeline import Word

RATE = 16_000
WHISPER = Path(__file__).resolve().parents[2] / "weights" / "whisper-base-ct2"
needs_flite = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
needs_whisper = pytest.mark.skipif(not WHISPER.is_dir(), reason=f"no {WHISPER}: run `make weights`")
COMMENTARY = (
    "Good evening and welcome to the stadium on a cold night.",
    "The home side kick off from left to right.",
    "Martin plays it back to the goalkeeper.",
    "A long ball forward and the defender wins the header.",
    "It falls to Carter in the middle of the field.",
    "He turns away from his marker and finds space.",
    "This team won the league two years ago under a different manager.",
    "They have not lost at home since the winter.",
    "Now the visitors come forward down the right wing.",
    "The cross comes in and the keeper takes it easily.",
    "He throws it out quickly to the full back.",
    "Carter again with the ball at his feet.",
    "He passes to Miller on the edge of the box.",
    "Miller shoots and it goes just over the bar.",
    "That was the best chance of the game so far.",
    "You can see the manager shaking his head.",
    "The goal kick is taken short to the centre half.",
    "Pressure now from the two strikers in red.",
    "The captain slides in and wins the tackle.",
    "A free kick is given by the referee.",
    "It was a late challenge and he gets a yellow card.",
    "Miller stands over the ball with Carter beside him.",
    "The wall is ten yards back.",
    "He curls it around the wall and hits the post.",
    "The rebound is cleared behind for a corner.",
    "The corner is played to the near post.",
    "Headed away but only as far as the midfield.",
    "A shot from distance and the keeper saves.",
    "What a brilliant stop with his left hand.",
    "The crowd are on their feet now.",
    "Another corner and this time it is deep.",
    "A header at the far post and it is in the net.",
    "The home side lead by one goal to nothing.",
    "The whole team run to the corner flag.",
    "He has scored in four games in a row.",
    "Back to the centre circle for the restart.",
)


def flite(*args: str) -> str:
    """What the synthesiser prints."""
    command = ["flite", "-voice", "slt", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@lru_cache(maxsize=256)
def say(sentence: str) -> tuple[np.ndarray, tuple[Word, ...]]:
    """A sentence's samples, and its words with their true times (s)."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "said.wav")
        printed = flite("-psdur", "-t", sentence, "-o", path)
        with wave.open(path) as source:
            assert source.getframerate() == RATE
            raw = source.readframes(source.getnframes())
    samples = np.frombuffer(raw, np.int16).astype(np.float32) / 32768
    return samples, _words(sentence, printed)


def _words(sentence: str, printed: str) -> tuple[Word, ...]:
    """Deal the phones' spans out to the words, each of which is spoken with its own number."""
    spans, last = [], 0.0
    for pair in printed.split():
        phone, _, end = pair.partition(":")
        if phone != "pau":
            spans.append((last, float(end)))
        last = float(end)
    texts = sentence.split()
    alone = flite("-ps", "-t", " ".join(f"{t.strip('.,!?')}." for t in texts), "-o", "none")
    counts = [len(phones.split()) for phones in alone.split("pau") if phones.strip()]
    assert (len(counts), sum(counts)) == (len(texts), len(spans)), f"{sentence!r}: {alone}"
    lasts = [sum(counts[: i + 1]) - 1 for i in range(len(counts))]
    return tuple(
        Word(text, spans[last - count + 1][0], spans[last][1])
        for text, count, last in zip(texts, counts, lasts, strict=True)
    )


def speech(
    sentences: Sequence[str], pauses: Sequence[float], lead: float = 1.0, noise: float = 0.0
) -> tuple[np.ndarray, list[Word]]:
    """Sentences one after the other: samples, and all words with their true times (s).

    Args:
        sentences: what is said.
        pauses: seconds of silence after each sentence, in turn.
        lead: seconds of silence before the first.
        noise: RMS of white noise over all of it (a stadium is never silent).
    """
    parts, words = [np.zeros(round(lead * RATE), np.float32)], []
    for i, sentence in enumerate(sentences):
        samples, said = say(sentence)
        at = sum(map(len, parts)) / RATE
        words += [Word(w.text, at + w.start, at + w.end) for w in said]
        parts += [samples, np.zeros(round(pauses[i % len(pauses)] * RATE), np.float32)]
    audio = np.concatenate(parts)
    hiss = np.random.default_rng(0).normal(0, noise, len(audio)) if noise else 0
    return (audio + hiss).astype(np.float32), words


def plain(text: str) -> str:
    """A word as it is compared: small letters, no punctuation."""
    return re.sub(r"[^a-z0-9']", "", text.lower())


def pairs(said: Sequence[Word], heard: Sequence[Any]) -> list[tuple[Word, Any]]:
    """Each said word that was heard as such, with its hearing; both have `text` and times."""
    a, b = [[plain(w.text) for w in words] for words in (said, heard)]
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(said[m.a + i], heard[m.b + i]) for m in blocks for i in range(m.size)]


def share_heard(said: Sequence[Word], heard: Sequence[Any], within: float = 1e9) -> float:
    """The share of said words that were heard, with their starts within so many seconds."""
    good = [1 for a, b in pairs(said, heard) if abs(a.start - b.start) <= within]
    return len(good) / len(said)


def write_video(
    path: Path,
    audio: np.ndarray | None,
    *,
    video_from: float = 0.0,
    audio_from: float = 0.0,
    seconds: float | None = None,
    rate: int = RATE,
    tracks: int = 1,
) -> None:
    """A small video (5 fps, 32 x 32) with sound; its streams begin at these timestamps (s).

    Of several tracks only the last one sounds.
    """
    length = seconds if seconds is not None else len(audio if audio is not None else []) / RATE
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as out:
        video = out.add_stream("mpeg4", rate=5)
        video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
        video.time_base = video.codec_context.time_base = Fraction(1, 1000)
        sounds = [] if audio is None else [out.add_stream("flac", rate=rate) for _ in range(tracks)]
        for stream in sounds:
            stream.codec_context.layout, stream.codec_context.format = "mono", "s16"
        for i in range(max(1, round(5 * length))):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), i % 256, np.uint8), "rgb24")
            frame.pts, frame.time_base = round(1000 * (video_from + i / 5)), Fraction(1, 1000)
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
        for i, stream in enumerate(sounds):
            is_last = i == len(sounds) - 1
            _mux_sound(out, stream, audio if is_last else np.zeros_like(audio), audio_from, rate)


def _mux_sound(out, stream, audio: np.ndarray, begin: float, rate: int) -> None:
    samples = (np.clip(audio, -1, 1) * 32767).astype(np.int16)[None]
    for at in range(0, samples.shape[1], 4096):
        frame = av.AudioFrame.from_ndarray(samples[:, at : at + 4096], "s16", "mono")
        frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
        frame.pts = at + round(begin * rate)
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))
