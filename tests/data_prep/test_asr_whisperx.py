"""The hand-over to WhisperX: by a stand-in that answers as it does, and by the real one."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from data_prep.asr.base import RATE, AsrSettings, HeardWord, NotLoaded
from data_prep.asr.load import load_transcriber
from data_prep.asr.whisperx_backend import PYTHON, WhisperX, heard_of
from tests.data_prep.asr_speech import (
    COMMENTARY,
    WHISPER,
    needs_flite,
    needs_whisper,
    share_heard,
    speech,
)
from vlm_tsi.errors import UserError

STANDS_IN = """#!{python}
import json, sys, pathlib
here = pathlib.Path(__file__).parent
answers = json.loads((here / "answers.json").read_text())
for line, answer in zip(sys.stdin, answers):
    job = json.loads(line)
    if "audio" in job:
        job["bytes"] = pathlib.Path(job["audio"]).stat().st_size
    with (here / "jobs.jsonl").open("a") as log:
        log.write(json.dumps([sys.argv[1:], job]) + chr(10))
    if answer is None:
        print("Killed for want of memory", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(answer), flush=True)
"""
SEGMENT = {
    "start": 1.0,
    "end": 4.0,
    "text": " Carter scores 2 goals.",
    "words": [
        {"word": "Carter", "start": 1.0, "end": 1.5, "score": 0.9, "speaker": "SPEAKER_00"},
        {"word": "scores", "start": 1.5, "end": 2.0, "score": 0.9},
        {"word": "2"},
        {"word": "goals.", "start": 3.0, "end": 4.0, "score": 0.8},
    ],
}
SAID = {"language": "en", "probability": 0.8, "segments": [SEGMENT]}


def stand_in(folder: Path, answers: list[object], **settings) -> AsrSettings:
    """Settings whose WhisperX environment gives these answers in turn."""
    (folder / "answers.json").write_text(json.dumps(answers))
    python = folder / "python"
    python.write_text(STANDS_IN.format(python=sys.executable))
    python.chmod(0o755)
    return AsrSettings(backend="whisperx", whisperx_python=str(python), **settings)


def jobs(folder: Path) -> list[tuple[list[str], dict[str, object]]]:
    return [json.loads(line) for line in (folder / "jobs.jsonl").read_text().splitlines()]


def test_settings_and_sound_go_over_and_words_come_back(tmp_path):
    settings = stand_in(tmp_path, [{"ready": True}, SAID, SAID], model="large-v2", batch_size=3)
    whisperx = WhisperX(settings)
    for _ in range(2):
        heard = whisperx.hear(np.zeros(5 * RATE, np.float32))
    assert (heard.language, heard.probability) == ("en", 0.8)
    assert heard.words == (
        HeardWord("Carter", 1.0, 1.5, "SPEAKER_00"),
        HeardWord("scores", 1.5, 2.0),
        HeardWord("2", 2.0, 3.0),
        HeardWord("goals.", 3.0, 4.0),
    )
    (args, first), (_, second), _ = jobs(tmp_path)
    assert args[0] == "-I" and args[1].endswith("whisperx_worker.py")
    assert (first["model"], first["batch_size"], first["language"]) == ("large-v2", 3, "en")
    assert second["bytes"] == 5 * RATE * 4 and not Path(str(second["audio"])).exists()


def test_what_the_aligner_gives_up_keeps_its_words():
    lost = {"start": 6.0, "end": 8.0, "text": " What a goal !", "words": []}
    ends = {**SEGMENT, "words": [{"word": "well"}, *SEGMENT["words"][:2], {"word": "2"}]}
    answer = {"language": "en", "probability": 1, "segments": [ends, lost]}
    words = heard_of(answer, 7.5).words
    assert [(w.text, w.start, w.end) for w in words] == [
        ("well", 1.0, 1.0), ("Carter", 1.0, 1.5), ("scores", 1.5, 2.0), ("2", 2.0, 4.0),
        ("What", 6.0, 6.5), ("a", 6.5, 7.0), ("goal", 7.0, 7.5), ("!", 7.5, 7.5),
    ]  # fmt: skip


def test_other_languages_and_silence_have_no_words(tmp_path):
    silent = {"language": None, "probability": 0.0, "segments": []}
    spanish = {"language": "es", "probability": 1.0, "segments": []}
    whisperx = WhisperX(stand_in(tmp_path, [{"ready": True}, silent, spanish]))
    assert [whisperx.hear(np.zeros(9, np.float32)).language for _ in range(2)] == [None, "es"]


def test_a_half_that_fails_is_one_line_and_the_next_one_starts_anew(tmp_path):
    whisperx = WhisperX(
        stand_in(tmp_path, [{"ready": True}, {"error": "RuntimeError: CUDA"}, None])
    )
    with pytest.raises(UserError, match="whisperx: RuntimeError: CUDA"):
        whisperx.hear(np.zeros(9, np.float32))
    with pytest.raises(UserError, match="its process died .Killed for want of memory"):
        whisperx.hear(np.zeros(9, np.float32))
    (tmp_path / "answers.json").write_text(json.dumps([{"ready": True}, SAID]))
    assert whisperx.hear(np.zeros(5 * RATE, np.float32)).words


@pytest.mark.parametrize(
    "answer, settings, told",
    [
        ({"error": 'ValueError: The chosen align_model "x"'}, {}, "--align-model.*local wav2vec2"),
        ({"error": "OSError: pyannote/x is gated"}, {"diarize": True}, "--diarize.*set HF_TOKEN"),
        ({"error": "RuntimeError: no model.bin"}, {}, "--asr whisperx: .*check --model"),
        (None, {}, "Killed for want of memory.*check --model"),
    ],
)
def test_what_cannot_be_loaded_is_named(answer, settings, told, tmp_path):
    with pytest.raises(NotLoaded) as info:
        load_transcriber(stand_in(tmp_path, [answer], **settings))
    assert re.search(told, str(info.value.told()))


def test_a_missing_environment_is_named_with_its_command(tmp_path):
    settings = AsrSettings(backend="whisperx", whisperx_python=str(tmp_path / "none"))
    with pytest.raises(NotLoaded) as info:
        WhisperX(settings)
    assert "no WhisperX environment there; run `make whisperx`" in str(info.value.told())


def save_random_aligner(folder: Path) -> str:
    """A wav2vec2 that has learnt nothing, with letters for its alphabet."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijklmnopqrstuvwxyz'"]
    config = Wav2Vec2Config(
        vocab_size=len(letters), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, conv_dim=(8,) * 7, num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    Wav2Vec2ForCTC(config).save_pretrained(folder)
    files = {
        "vocab.json": {letter: i for i, letter in enumerate(letters)},
        "tokenizer_config.json": {"tokenizer_class": "Wav2Vec2CTCTokenizer"},
        "preprocessor_config.json": {
            "feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": RATE
        },
    }  # fmt: skip
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    return str(folder)


@needs_flite
@needs_whisper
@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-whisperx: run `make whisperx`")
def test_the_real_whisperx_hands_its_words_over(tmp_path):
    """Its aligner is a random replica here, so that only the words and their order are known."""
    audio, said = speech(COMMENTARY[:3], [0.8])
    settings = AsrSettings(
        backend="whisperx", model=str(WHISPER), device="cpu", batch_size=2,
        align_model=save_random_aligner(tmp_path),
    )  # fmt: skip
    heard = WhisperX(settings).hear(audio)
    assert heard.language == "en"
    assert share_heard(said, heard.words) >= 0.9
    assert 0 <= heard.words[0].start <= heard.words[-1].end <= len(audio) / RATE
