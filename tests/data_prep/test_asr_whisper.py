"""Real Whisper base on synthesised speech whose word times are known."""

from functools import lru_cache

import numpy as np
import pytest

from data_prep.asr import faster
from data_prep.asr.base import RATE, AsrSettings, Heard, NotLoaded
from data_prep.asr.load import load_transcriber
from data_prep.asr.pauses import speech_spans
from data_prep.asr.sentences import sentences_of
from tests.data_prep.asr_speech import (
    COMMENTARY,
    WHISPER,
    needs_flite,
    needs_whisper,
    pairs,
    share_heard,
    speech,
)  # fmt: skip

SPOKEN = COMMENTARY[6:12]
PAUSES = [0.6, 3.0, 1.2]
pytest.importorskip("faster_whisper", reason="faster-whisper (extra `asr`) is not installed")


@lru_cache
def settings(**changes) -> AsrSettings:
    return AsrSettings(**{"model": str(WHISPER), "device": "cpu", "batch_size": 2} | changes)


@lru_cache
def heard() -> Heard:
    return load_transcriber(settings()).hear(speech(SPOKEN, PAUSES)[0])


@needs_flite
@needs_whisper
def test_words_are_heard_within_a_third_of_a_second():
    said = speech(SPOKEN, PAUSES)[1]
    assert (heard().language, len(sentences_of(heard().words))) == ("en", len(SPOKEN))
    assert share_heard(said, heard().words) >= 0.9
    assert share_heard(said, heard().words, within=0.3) >= 0.9
    ends = [abs(a.end - b.end) <= 0.3 for a, b in pairs(said, heard().words)]
    assert np.mean(ends) >= 0.9


@needs_flite
@needs_whisper
def test_the_same_sound_gives_the_same_words():
    audio = speech(SPOKEN[:2], PAUSES)[0]
    again = [load_transcriber(settings()).hear(audio) for _ in range(2)]
    assert again[0] == again[1] and again[0].words


@needs_flite
@needs_whisper
def test_another_language_is_told_and_left(monkeypatch):
    """The wanted one is Spanish here: English speech is then the other language."""
    monkeypatch.setattr(faster.FasterWhisper, "_words", None)
    audio = speech(SPOKEN[:2], PAUSES)[0]
    told = load_transcriber(settings(language="es")).hear(audio)
    assert (told.language, told.words) == ("en", ()) and told.probability > 0.8


@needs_whisper
def test_silence_and_noise_are_no_speech():
    noise = np.random.default_rng(0).normal(0, 0.05, 5 * RATE).astype(np.float32)
    whisper = load_transcriber(settings())
    for audio in (np.zeros(5 * RATE, np.float32), noise, np.zeros(0, np.float32)):
        assert whisper.hear(audio) == Heard(None, 0.0)


@needs_flite
def test_speech_is_found_offline_where_it_is():
    audio, said = speech(SPOKEN[:2], [2.0], lead=3.0)
    spans = speech_spans(audio)
    assert spans[0][0] == pytest.approx(said[0].start, abs=0.15)
    assert spans[-1][1] == pytest.approx(said[-1].end, abs=0.15)


@pytest.mark.parametrize("model", ["no/such-model", "EMPTY"])
def test_a_model_that_cannot_be_loaded_is_named(model, tmp_path):
    name = str(tmp_path) if model == "EMPTY" else model
    with pytest.raises(NotLoaded) as info:
        load_transcriber(settings(model=name))
    assert f"--model {name}: not loaded" in str(info.value.told())
