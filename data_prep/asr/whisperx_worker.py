"""The WhisperX side of the hand-over; runs in WhisperX's own environment.

Input: one JSON job a line on stdin: the first says what to load, on which device and in which
number format, each later one names a raw float32 file of mono samples at 16 kHz. Output: one JSON
answer a line on stdout (`language`, `probability`, `segments`), or `error`. What WhisperX itself
prints goes to stderr.
Invariant: imports nothing of this project: it must start where only WhisperX is installed.

    python whisperx_worker.py < jobs
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

RATE = 16_000
WINDOW = 30 * RATE
PROBES = 5
SILENCE: dict[str, Any] = {"language": None, "probability": 0.0, "segments": []}


class OneSentence:
    """Stands in for nltk's punkt, which would be fetched; the other side finds the sentences."""

    @staticmethod
    def span_tokenize(text: str) -> list[tuple[int, int]]:
        """The whole text as one (start, end)."""
        return [(0, len(text))]


class Recogniser:
    """The models of one list of jobs, loaded once and before the first of them."""

    def __init__(self, job: dict[str, Any]) -> None:
        import torch
        import whisperx
        import whisperx.alignment

        torch.set_num_threads(1)  # the last digits of a sum depend on the number of threads
        self.whisperx, self.job = whisperx, job
        self.device = job["device"]
        self.pipe = whisperx.load_model(
            job["model"],
            self.device,
            compute_type=job["compute_type"],
            vad_method="pyannote",
            threads=int(os.environ.get("OMP_NUM_THREADS") or 4),
        )
        whisperx.alignment.nltk_load = lambda name: OneSentence
        self.aligner = whisperx.load_align_model(
            job["language"], self.device, model_name=job["align_model"]
        )
        self.speakers = self.load_speakers() if job["diarize"] else None

    def load_speakers(self) -> Any:
        """Pyannote's pipeline: a local one, or its hub's with the user's token."""
        from whisperx.diarize import DiarizationPipeline

        name, token = self.job["diarize_model"], os.environ.get("HF_TOKEN")
        return DiarizationPipeline(model_name=name, token=token, device=self.device)

    def hear(self, path: str) -> dict[str, Any]:
        """Transcribe one file of samples; returns the answer."""
        import numpy as np

        audio = np.fromfile(path, np.float32)
        language, probability = self.language(audio)
        answer = {"language": language, "probability": probability, "segments": []}
        if language != self.job["language"]:
            return answer if self.is_speech(audio) else SILENCE
        said = self.pipe.transcribe(audio, batch_size=self.job["batch_size"], language=language)
        if not said["segments"]:
            return SILENCE
        said = self.whisperx.align(said["segments"], *self.aligner, audio, self.device)
        if self.speakers:
            said = self.whisperx.assign_word_speakers(self.speakers(audio), said)
        return {**answer, "segments": said["segments"]}

    def is_speech(self, audio: Any) -> bool:
        """Whether anybody speaks: silence, too, is taken for some language."""
        vad, options = self.pipe.vad_model, self.pipe._vad_params
        found = vad({"waveform": vad.preprocess_audio(audio), "sample_rate": RATE})
        onset, offset = options["vad_onset"], options["vad_offset"]
        return bool(vad.merge_chunks(found, WINDOW / RATE, onset=onset, offset=offset))

    def language(self, audio: Any) -> tuple[str, float]:
        """The language heard in most of several windows, and the share of them that agree."""
        last = max(0, len(audio) - WINDOW)
        starts = sorted({last * i // (PROBES - 1) for i in range(PROBES)})
        heard = Counter(self.pipe.detect_language(audio[at : at + WINDOW]) for at in starts)
        language, votes = min(heard.items(), key=lambda item: (-item[1], item[0]))
        return language, votes / len(starts)


def answers(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the answer to each line: `{"ready": true}` to the first."""
    recogniser = None
    for line in lines:
        job = json.loads(line)
        try:
            if recogniser is None:
                recogniser = Recogniser(job)
                yield {"ready": True}
            else:
                yield recogniser.hear(job["audio"])
        except Exception as err:
            yield {"error": f"{type(err).__name__}: {err}"}


def main() -> None:
    """Answer on the real stdout; all else that is printed goes to stderr.

    That holds for what compiled libraries write to descriptor 1 as well.
    """
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        for answer in answers(sys.stdin):
            print(json.dumps(answer, default=float), file=out, flush=True)


if __name__ == "__main__":
    main()
