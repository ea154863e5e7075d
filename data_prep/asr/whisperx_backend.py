"""Whisper by WhisperX, in an environment of its own (`make whisperx`).

Input: mono samples at 16 kHz. Output: `Heard`.
Invariant: nothing of WhisperX is imported here: one process of its environment stays up for all
halves, is told each job by a line of JSON, and ends with this one. What its aligner could not
place in time keeps its text: such words share the time between their neighbours.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.asr.base import RATE, AsrSettings, Heard, HeardWord, NotLoaded, in_order
from vlm_tsi.errors import UserError

WORKER = Path(__file__).with_name("whisperx_worker.py")
PYTHON = Path(__file__).parents[2] / ".venv-whisperx" / "bin" / "python"
"""Where `make whisperx` puts the environment."""


class WhisperX:
    """WhisperX's process, started with the first use and again if it died."""

    def __init__(self, settings: AsrSettings) -> None:
        self.settings = settings
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as the process)
        self._process: subprocess.Popen[str] | None = None
        self._start()

    def hear(self, audio: np.ndarray) -> Heard:
        """Hand the samples over in a file, and take the words back."""
        if self._process is None:
            self._start()
        with tempfile.NamedTemporaryFile(suffix=".f32") as file:
            audio.astype(np.float32, copy=False).tofile(file.name)
            answer = self._ask({"audio": file.name})
        if answer is None or "error" in answer:
            problem = answer["error"] if answer else f"its process died ({self._last_words()})"
            raise UserError("whisperx", problem, "see the message; then --resume")
        return heard_of(answer, len(audio) / RATE)

    def _start(self) -> None:
        python = self.settings.whisperx_python or str(PYTHON)
        try:
            self._process = subprocess.Popen(
                [python, "-I", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
        except OSError as err:
            raise _no_environment(python) from err
        answer = self._ask(asdict(self.settings.resolved()))
        if answer is None or "error" in answer:
            raise _not_loaded(answer["error"] if answer else self._last_words(), self.settings)

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to a job; None if the process is gone."""
        assert self._process and self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            if line:
                return json.loads(line)  # type: ignore[no-any-return]
        self._process.kill()
        self._process.wait()
        self._process = None
        return None

    def _last_words(self) -> str:
        """What the process said last."""
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"


def need_environment(settings: AsrSettings) -> None:
    """Raise NotLoaded where WhisperX's interpreter is not to be found."""
    python = settings.whisperx_python or str(PYTHON)
    if shutil.which(python) is None:
        raise _no_environment(python)


def _no_environment(python: str) -> NotLoaded:
    mend = "run `make whisperx`, or name its interpreter with --whisperx-python"
    return NotLoaded(python, "no WhisperX environment there", mend)


def _not_loaded(reason: str, settings: AsrSettings) -> NotLoaded:
    reason = " ".join(reason.split())[:300]
    if "align_model" in reason or "align-model" in reason:
        mend = "give a local wav2vec2 folder with --align-model"
        return NotLoaded("--align-model", f"not loaded ({reason})", mend)
    if settings.diarize and "pyannote" in reason.lower():
        mend = "accept the model's terms and set HF_TOKEN, or give --diarize-model"
        return NotLoaded("--diarize", f"not loaded ({reason})", mend)
    mend = "check --model, and that `make whisperx` has run"
    return NotLoaded("--asr whisperx", f"not loaded ({reason})", mend)


def heard_of(answer: Mapping[str, Any], duration: float) -> Heard:
    """`Heard` from what WhisperX tells of audio of this length (s)."""
    words = [w for segment in answer["segments"] for w in _words(segment)]
    words.sort(key=lambda w: w.start)
    probability = round(float(answer["probability"]), 3)
    return Heard(answer["language"], probability, in_order(words, duration))


def _words(segment: Mapping[str, Any]) -> Iterator[HeardWord]:
    """A segment's words; those without a time get equal shares of the time they stand in."""
    told = segment["words"] or [{"word": text} for text in segment["text"].split()]
    known = [(w.get("start"), w.get("end")) for w in told]
    for word, (start, end) in zip(told, _filled(known, segment), strict=True):
        yield HeardWord(word["word"], start, end, word.get("speaker"))


def _filled(
    spans: Sequence[tuple[float | None, float | None]], segment: Mapping[str, Any]
) -> Iterator[tuple[float, float]]:
    """Spans (s) with the missing ones dealt out evenly between their neighbours."""
    first = 0
    reached = float(segment["start"])
    while first < len(spans):
        start, end = spans[first]
        if start is not None and end is not None:
            reached = float(end)
            yield float(start), reached
            first += 1
            continue
        last = first
        while last < len(spans) and None in spans[last]:
            last += 1
        until = spans[last][0] if last < len(spans) else segment["end"]
        step = max(0.0, float(until) - reached) / (last - first)  # type: ignore[arg-type]
        yield from ((reached + i * step, reached + (i + 1) * step) for i in range(last - first))
        first = last
