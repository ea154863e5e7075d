"""What a speech recogniser is asked, and what it answers.

Input: settings of a recogniser; mono samples at `RATE`. Output: `Heard`: the language, and
the words with their times.
Invariant: word times are seconds from the first sample, in order, inside the audio; the
settings that change what is heard make a key without any path of the machine in it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from vlm_tsi.errors import UserError
from vlm_tsi.video.features import content_key

RATE = 16_000
"""Samples a second that every recogniser is given."""
Backend = Literal["faster-whisper", "whisperx"]
Device = Literal["auto", "cpu", "cuda"]
COMPUTE_TYPES = (
    *("default", "int8", "int8_float32", "int8_float16", "int8_bfloat16"),
    *("int16", "float16", "bfloat16", "float32"),
)
_CODES = (
    "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw "
    "he hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my "
    "ne nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt "
    "uk ur uz vi yi yo yue zh"
)
LANGUAGES = frozenset(_CODES.split())
"""The codes that Whisper knows."""


@dataclass(frozen=True, slots=True)
class HeardWord:
    """One word: as written (with its punctuation), start and end (s), who said it."""

    text: str
    start: float
    end: float
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What a recogniser made of some audio.

    Attributes:
        language: its code (`en`), or None where nobody speaks.
        probability: how sure the recogniser is of the language, 0 to 1.
        words: none where nobody speaks, or where another language than the wanted is spoken.
    """

    language: str | None
    probability: float
    words: tuple[HeardWord, ...] = ()


class NotLoaded(Exception):
    """A recogniser that cannot be had: it stops the run, where a bad video would not."""

    def __init__(self, thing: object, problem: str, mend: str) -> None:
        super().__init__(str(thing), problem, mend)

    def told(self) -> UserError:
        """The one line for the user."""
        return UserError(*self.args)


class Transcriber(Protocol):
    """A recogniser, with its model loaded."""

    def hear(self, audio: np.ndarray) -> Heard:
        """Transcribe mono float32 samples at `RATE`, values from -1 to 1."""


@dataclass(frozen=True, kw_only=True)
class AsrSettings:
    """Which recogniser, and how it runs.

    Attributes:
        backend: faster-whisper in this environment, or WhisperX in one of its own.
        model: a Whisper size (`large-v2`) that the hub knows, or a local CTranslate2 folder.
        batch_size: clips that are decoded together.
        device: where; `auto` takes an accelerator if there is one.
        compute_type: CTranslate2's number format; `default` is int8 on the CPU and float16
            on an accelerator (`resolved` says which).
        language: the one that is kept.
        diarize: tell speakers apart (WhisperX only).
        align_model: WhisperX: a local wav2vec2 folder; else its own choice from the hub.
        diarize_model: WhisperX: a local pyannote pipeline; else its own from the hub.
        whisperx_python: the interpreter of WhisperX's environment.
    """

    backend: Backend = "faster-whisper"
    model: str = "large-v2"
    batch_size: int = 8
    device: Device = "auto"
    compute_type: str = "default"
    language: str = "en"
    diarize: bool = False
    align_model: str | None = None
    diarize_model: str | None = None
    whisperx_python: str = ""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UserError("--batch-size", f"is {self.batch_size}", "give 1 or more")
        if self.language not in LANGUAGES:
            problem = f"is {self.language!r}, which is no code that Whisper knows"
            raise UserError("--language", problem, "give one such as en, de or yue")
        is_local = self.backend == "faster-whisper"
        for option in ("diarize", "align_model", "diarize_model"):
            if is_local and getattr(self, option):
                name = f"--{option.replace('_', '-')}"
                raise UserError(name, "faster-whisper has no such step", "add --asr whisperx")

    def resolved(self) -> "AsrSettings":
        """The same with device and number format told, as they come out on this machine.

        Results depend on the format: left open, a key would say the same of different words.
        """
        found: Device = "cuda" if _sees_accelerator() else "cpu"
        device = found if self.device == "auto" else self.device
        default = "float16" if device == "cuda" else "int8"
        told = default if self.compute_type == "default" else self.compute_type
        return replace(self, device=device, compute_type=told)

    def key(self) -> dict[str, object]:
        """What the words depend on, for reports and for `--resume`."""
        key: dict[str, object] = {
            "asr": self.backend,
            "model": model_name(self.model),
            "compute_type": self.compute_type,
            "language": self.language,
            "diarize": self.diarize,
        }
        if self.align_model:
            key["align_model"] = model_name(self.align_model)
        if self.diarize_model:
            key["diarize_model"] = model_name(self.diarize_model)
        return key


def _sees_accelerator() -> bool:
    """Whether a library of this environment sees one: CTranslate2, or else PyTorch."""
    try:
        from ctranslate2 import get_cuda_device_count
    except ImportError:
        import torch

        return torch.cuda.is_available()
    return bool(get_cuda_device_count())


def model_name(model: str) -> str:
    """A hub's name as it is; a local folder as its name and a digest of its weights."""
    folder = Path(model)
    if not folder.is_dir():
        return model
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(folder)} {content_key(path)}\n".encode())
    return f"{folder.resolve().name}@{digest.hexdigest()[:12]}"


def in_order(words: Sequence[HeardWord], duration: float) -> tuple[HeardWord, ...]:
    """The words with times rounded to ms, inside the audio (s), no start before the last one's."""
    ordered: list[HeardWord] = []
    for word in words:
        earliest = ordered[-1].start if ordered else 0.0
        start = round(min(max(word.start, earliest), duration), 3)
        end = round(max(min(word.end, duration), start), 3)
        ordered.append(HeardWord(word.text.strip(), start, end, word.speaker))
    return tuple(w for w in ordered if w.text)
