"""Whisper by faster-whisper (CTranslate2), in the core environment.

Input: mono samples at 16 kHz. Output: `Heard`.
Invariant: the same audio, model and number format give the same words on one machine, with
any number of threads: no sampling, no text carried from clip to clip (where loops come from),
and the clips do not depend on how many are decoded together.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from data_prep.asr.base import RATE, AsrSettings, Heard, HeardWord, NotLoaded, in_order
from data_prep.asr.pauses import Span, clips_of, out_of_pauses, speech_spans
from vlm_tsi.errors import UserError

PROBES = 5
"""Clips, spread over the audio, that the language is read from."""


class FasterWhisper:
    """A loaded model."""

    def __init__(self, settings: AsrSettings) -> None:
        self.settings = settings
        self._model = _load(settings)

    def hear(self, audio: np.ndarray) -> Heard:
        """Find the speech, then its language, then its words.

        Raises:
            UserError: the recogniser fails on this audio (no memory left).
        """
        try:
            return self._hear(audio)
        except RuntimeError as err:  # CTranslate2 and ONNX Runtime have no other
            reason = " ".join(str(err).split())[:200]
            mend = "give a smaller --batch-size; then --resume"
            raise UserError("faster-whisper", reason, mend) from err

    def _hear(self, audio: np.ndarray) -> Heard:
        duration = len(audio) / RATE
        spans = speech_spans(audio)
        clips = clips_of(spans, duration)
        if not clips:
            return Heard(None, 0.0)
        language, probability = self._language(audio, clips)
        if language != self.settings.language:
            return Heard(language, probability)
        words = [w for group in self._groups(clips) for w in self._words(audio, group)]
        return Heard(language, probability, in_order(out_of_pauses(words, spans), duration))

    def _groups(self, clips: Sequence[Span]) -> Iterator[Sequence[Span]]:
        """As many clips as are decoded together; only these have features in memory."""
        size = self.settings.batch_size
        return (clips[i : i + size] for i in range(0, len(clips), size))

    def _language(self, audio: np.ndarray, clips: Sequence[Span]) -> tuple[str, float]:
        """The language most probable over clips spread over the audio, and its probability.

        One place is not enough: anthems and announcements are often in another language.
        """
        if not self._model.model.is_multilingual:
            return "en", 1.0
        at = np.linspace(0, len(clips) - 1, min(PROBES, len(clips))).round().astype(int)
        total: Counter[str] = Counter()
        for start, end in (clips[i] for i in at):
            clip = audio[int(start * RATE) : int(end * RATE)]
            for language, probability in self._model.detect_language(clip)[2]:
                total[language] += probability / len(at)
        language, probability = min(total.items(), key=lambda item: (-item[1], item[0]))
        return language, round(float(probability), 3)

    def _words(self, audio: np.ndarray, clips: Sequence[Span]) -> Iterator[HeardWord]:
        from faster_whisper import BatchedInferencePipeline

        segments, _ = BatchedInferencePipeline(self._model).transcribe(
            audio,
            language=self.settings.language,
            clip_timestamps=[{"start": start, "end": end} for start, end in clips],
            batch_size=len(clips),
            word_timestamps=True,
            temperature=0.0,
            condition_on_previous_text=False,
        )
        for segment in segments:
            for word in segment.words:
                yield HeardWord(word.word, word.start, word.end)


def need_package() -> None:
    """Raise NotLoaded where faster-whisper is not installed."""
    if find_spec("faster_whisper") is None:
        mend = "pip install 'vlm-tsi[asr]', or give --asr whisperx"
        raise NotLoaded("--asr faster-whisper", "faster-whisper is not installed", mend)


def _load(settings: AsrSettings) -> Any:
    need_package()
    from faster_whisper import WhisperModel

    # CTranslate2's own default keeps what the file holds: float16 there is slow on a CPU
    told = settings.resolved()
    try:
        model = WhisperModel(settings.model, device=told.device, compute_type=told.compute_type)
    except (OSError, RuntimeError, ValueError) as err:
        reason = " ".join(str(err).split())[:200]
        mend = (
            "give a folder that holds a CTranslate2 Whisper, or a size while the hub is reachable"
        )
        raise NotLoaded(f"--model {settings.model}", f"not loaded ({reason})", mend) from err
    # A dense product depends, in its last digits, on how many threads BLAS has, and word times
    # hang on them; a sparse one (nearly all of these weights are 0) has one thread and is faster.
    model.feature_extractor.mel_filters = csr_array(model.feature_extractor.mel_filters)
    return model
