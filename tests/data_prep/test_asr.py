"""Sound on the video's clock, clips and words kept out of pauses, sentences, settings."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.asr import base
from data_prep.asr.audio import Placed, load_sound
from data_prep.asr.base import (
    LANGUAGES,
    RATE,
    AsrSettings,
    HeardWord,
    NotLoaded,
    in_order,
    model_name,
)
from data_prep.asr.pauses import LONGEST, clips_of, out_of_pauses
from data_prep.asr.sentences import sentences_of
from data_prep.asr.whisperx_backend import WORKER
from tests.data_prep.asr_speech import write_video
from vlm_tsi.errors import UserError


def click(at: float, seconds: float = 4.0, rate: int = RATE) -> np.ndarray:
    """Silence with one burst of 10 ms."""
    audio = np.zeros(round(seconds * rate), np.float32)
    audio[round(at * rate) : round(at * rate) + rate // 100] = 0.8
    return audio


def heard_at(samples: np.ndarray) -> float:
    """When the burst begins (s)."""
    return float(np.argmax(np.abs(samples) > 0.3)) / RATE


@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
@pytest.mark.parametrize("video_from, audio_from", [(0, 0), (0, 1.5), (1, 0), (2, 2.25)])
def test_sound_is_on_the_clock_of_the_first_video_frame(suffix, video_from, audio_from, tmp_path):
    path = tmp_path / f"v.{suffix}"
    write_video(path, click(2.0), video_from=video_from, audio_from=audio_from)
    samples = load_sound(path).samples
    assert heard_at(samples) == pytest.approx(2.0 + audio_from - video_from, abs=0.01)
    assert len(samples) / RATE == pytest.approx(4.0 + audio_from - video_from, abs=0.01)


def test_other_rates_are_resampled(tmp_path):
    write_video(tmp_path / "v.mkv", click(2.0, rate=44_100), rate=44_100)
    sound = load_sound(tmp_path / "v.mkv")
    assert heard_at(sound.samples) == pytest.approx(2.0, abs=0.005)
    assert sound.samples.dtype == np.float32 and sound.samples.max() == pytest.approx(0.8, abs=0.2)


@pytest.mark.parametrize("shift, heard", [(3.0, 6.0), (-0.5, 2.5), (-1.5, 3.0), (1000.0, 3.0)])
def test_jumps_of_the_sounds_clock(shift, heard):
    """A gap is silence, an overlap is heard once; a restart or a mad time goes on as before."""
    placed = Placed(origin=10.0, longest=60.0)
    for at in range(0, 4 * RATE, 4000):
        part = (click(3.0)[at : at + 4000] * 32767).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(part, "s16", "mono")
        frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
        frame.pts = at + 10 * RATE + (round(shift * RATE) if at >= 1.75 * RATE else 0)
        placed.add(frame)
    placed.flush()
    assert heard_at(placed.samples()) == pytest.approx(heard, abs=0.001)
    assert len(placed.samples()) / RATE == pytest.approx(4 + heard - 3, abs=0.001)


def test_the_track_is_chosen_and_may_be_missing(tmp_path):
    write_video(tmp_path / "v.mkv", click(2.0), tracks=2)
    assert not load_sound(tmp_path / "v.mkv").samples.any()
    assert heard_at(load_sound(tmp_path / "v.mkv", 1).samples) == pytest.approx(2.0, abs=0.01)
    assert load_sound(tmp_path / "v.mkv", 2) is None
    write_video(tmp_path / "mute.mkv", None, seconds=1.0)
    assert load_sound(tmp_path / "mute.mkv") is None


def test_a_video_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "v.mkv").write_bytes(b"no video at all")
    with pytest.raises(UserError, match="v.mkv: cannot be read as a video"):
        load_sound(tmp_path / "v.mkv")


def test_a_cut_file_is_read_as_far_as_it_goes(tmp_path):
    write_video(tmp_path / "v.mkv", click(1.0, seconds=8))
    whole = (tmp_path / "v.mkv").read_bytes()
    (tmp_path / "v.mkv").write_bytes(whole[: len(whole) * 2 // 3])
    assert heard_at(load_sound(tmp_path / "v.mkv").samples) == pytest.approx(1.0, abs=0.01)


def test_real_clips_with_two_tracks_and_without_sound(shared_data):
    clips = shared_data / "clips"
    first, second = (load_sound(clips / "tc_nasa_13013.mp4", n).samples for n in (0, 1))
    assert len(first) == len(second) == pytest.approx(13.056 * RATE, abs=200)
    assert load_sound(clips / "tc_nasa_13013.mp4", 2) is None
    assert load_sound(clips / "mma_structuralize.mp4") is None
    with pytest.raises(UserError, match="ft_corrupt"):
        load_sound(clips / "ft_corrupt.mkv")


@st.composite
def spans(draw, longest: float = 29.0):
    """Spans of speech in order, with gaps (s)."""
    at, found = draw(st.floats(0, 5)), []
    steps = st.tuples(st.floats(0.1, longest), st.floats(0.1, 5))
    for length, gap in draw(st.lists(steps, max_size=12)):
        found.append((at, at + length))
        at += length + gap
    return found


@given(spans())
def test_every_span_is_in_exactly_one_clip(found):
    clips = clips_of(found, found[-1][1] + 1 if found else 1.0)
    for start, end in found:
        assert sum(a <= start and end <= b for a, b in clips) == 1
    assert all(b - a <= LONGEST + 1e-6 for a, b in clips)
    assert all(clips[i][1] <= clips[i + 1][0] + 1e-9 for i in range(len(clips) - 1))


def test_a_full_clip_ends_at_the_longest_pause_of_its_second_half():
    found = [(0.0, 10.0), (13.0, 16.0), (18.0, 20.0), (20.2, 29.0), (29.2, 33.0)]
    assert [round(start, 1) for start, _ in clips_of(found, 40.0)] == [0.0, 17.8]


def slow_out_of_pauses(word, found):
    """Try every span."""
    shared = [(min(word.end, e) - max(word.start, s), -i) for i, (s, e) in enumerate(found)]
    if not shared or max(shared)[0] <= 0:
        return word
    start, end = found[-max(shared)[1]]
    return replace(word, start=max(word.start, start), end=min(word.end, end))


@given(spans(longest=3.0), st.lists(st.tuples(st.floats(0, 40), st.floats(0, 3)), max_size=8))
def test_words_go_where_most_of_them_is_spoken(found, drawn):
    words = [HeardWord(str(i), at, at + length) for i, (at, length) in enumerate(drawn)]
    moved = out_of_pauses(words, found)
    assert moved == [slow_out_of_pauses(w, found) for w in words]
    assert all(w.start <= m.start <= m.end <= w.end for w, m in zip(words, moved, strict=True))


def test_the_first_word_after_a_pause_begins_with_the_speech():
    words = [HeardWord("box.", 1.0, 1.4), HeardWord("Pressure", 1.4, 6.4), HeardWord("oh", 8, 9)]
    moved = out_of_pauses(words, [(0.5, 1.45), (6.0, 7.0)])
    assert [(w.start, w.end) for w in moved] == [(1.0, 1.4), (6.0, 6.4), (8, 9)]


def test_words_are_put_in_order_and_inside_the_audio():
    told = [HeardWord(" a", 1.0004, 2.0), HeardWord("b ", 0.5, 0.7), HeardWord("c", 9.0, 12.0)]
    ordered = in_order([*told, HeardWord("  ", 9.5, 9.6)], 10.0)
    assert [(w.text, w.start, w.end) for w in ordered] == [
        ("a", 1.0, 2.0), ("b", 1.0, 1.0), ("c", 9.0, 10.0)
    ]  # fmt: skip


def spoken(text: str, step: float = 0.4):
    return [HeardWord(t, i * step, i * step + 0.3) for i, t in enumerate(text.split())]


def test_sentences_end_at_full_stops_but_not_after_titles_and_initials():
    made = sentences_of(spoken('Mr. Smith of St. Mary, J. Doe scores! "Goal." It is 2-0. And'))
    texts = [" ".join(w.text for w in s) for s in made]
    assert texts == ["Mr. Smith of St. Mary, J. Doe scores!", '"Goal."', "It is 2-0.", "And"]


def test_sentences_end_at_long_pauses_and_new_speakers():
    a, b, c = spoken("one two three")
    assert len(sentences_of([a, b, c])) == 1
    assert len(sentences_of([a, replace(b, start=2.0, end=2.2), replace(c, start=2.5, end=3)])) == 2
    assert len(sentences_of([a, b, replace(c, speaker="S1")])) == 2
    assert sentences_of([]) == []


def test_settings_are_checked_and_make_a_key_without_paths(tmp_path):
    with pytest.raises(UserError, match="--batch-size: is 0"):
        AsrSettings(batch_size=0)
    with pytest.raises(UserError, match="--diarize: faster-whisper has no such step"):
        AsrSettings(diarize=True)
    with pytest.raises(UserError, match="--align-model"):
        AsrSettings(align_model="x")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.bin").write_bytes(b"weights")
    first = AsrSettings(model=str(tmp_path / "m")).key()
    assert first["model"].startswith("m@") and str(tmp_path) not in str(first)
    (tmp_path / "m" / "model.bin").write_bytes(b"WEIGHTS")
    assert AsrSettings(model=str(tmp_path / "m")).key() != first
    assert model_name("large-v2") == "large-v2"


def test_not_loaded_travels_between_processes():
    told = pickle.loads(pickle.dumps(NotLoaded("--model x", "not there", "give one"))).told()
    assert str(told) == "--model x: not there; give one"


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("device", ["auto", "cpu", "cuda"])
def test_device_and_number_format_are_told_for_the_key(device, seen, monkeypatch):
    monkeypatch.setattr(base, "_sees_accelerator", lambda: seen)
    told = AsrSettings(device=device).resolved()
    on_gpu = device == "cuda" or (device == "auto" and seen)
    assert (told.device, told.compute_type) == (("cuda", "float16") if on_gpu else ("cpu", "int8"))
    assert told.key()["compute_type"] == told.compute_type and told.resolved() == told
    named = AsrSettings(device=device, compute_type="float32").resolved()
    assert named.compute_type == "float32"


def test_the_codes_are_whispers():
    tokenizer = pytest.importorskip("faster_whisper.tokenizer", reason="needs the extra `asr`")
    assert set(tokenizer._LANGUAGE_CODES) == LANGUAGES
    for name in ("english", "EN", "en-GB", "xx", ""):
        with pytest.raises(UserError, match="--language: is .*give one such as en"):
            AsrSettings(language=name)


NOISY = """
import os
os.write(1, b"a compiled library's banner\\n")
print("a banner")
def load_model(*args, **named):
    os.system("echo a child process")
    return Pipe()
def load_align_model(*args, **named):
    return None, None
def align(segments, *rest):
    print("aligning")
    return {"segments": segments}
class Pipe:
    def detect_language(self, audio):
        os.write(1, b"0.9")
        return "en"
    def transcribe(self, audio, **named):
        return {"segments": [{"start": 0, "end": 1, "text": "goal", "words": []}]}
"""


def test_nothing_that_a_library_prints_gets_among_the_answers(tmp_path):
    """Not even past Python, on descriptor 1 itself."""
    (tmp_path / "whisperx").mkdir()
    (tmp_path / "whisperx/__init__.py").write_text(NOISY)
    (tmp_path / "whisperx/alignment.py").touch()
    (tmp_path / "torch.py").write_text("def set_num_threads(n): print(n)")
    np.zeros(RATE, np.float32).tofile(tmp_path / "sound.f32")
    first = {"device": "cpu", "compute_type": "int8", "model": "m", "language": "en",
             "align_model": None, "diarize": False, "batch_size": 1}  # fmt: skip
    jobs = [json.dumps(first), *[json.dumps({"audio": str(tmp_path / "sound.f32")})] * 2]
    told = subprocess.run(
        [sys.executable, str(WORKER)], input="\n".join(jobs), capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True, timeout=60,
    )  # fmt: skip
    ready, *heard = map(json.loads, told.stdout.splitlines())
    assert ready == {"ready": True} and len(heard) == 2
    assert heard[0]["segments"][0]["text"] == "goal"
    for noise in ("a compiled library's banner", "a banner", "a child process", "aligning"):
        assert noise in told.stderr
