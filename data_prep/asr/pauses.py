"""Where somebody speaks: cutting audio at pauses, and keeping words out of them.

Input: samples, or the spans of speech in them (s), in order. Output: clips for a recogniser;
words moved out of the silence that a recogniser gives them.
Invariant: a clip is one stretch of the audio as it was (no silence cut out of it, so that
times need no mapping back), at most `LONGEST` long, and every span of speech is in exactly one;
a moved word stays within its old span.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from data_prep.asr.base import RATE, HeardWord

Span = tuple[float, float]
LONGEST = 30.0
"""Seconds that Whisper hears at once."""
MARGIN = 0.2
"""Seconds of the neighbouring silence that a clip keeps on either side."""
PAUSE = 0.1
"""Seconds without speech that part two spans."""
_THRESHOLD = 0.5


def speech_spans(audio: np.ndarray) -> list[Span]:
    """Spans of speech (s), none longer than a clip may be, by the packaged Silero VAD."""
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    options = VadOptions(
        threshold=_THRESHOLD,
        min_speech_duration_ms=100,
        max_speech_duration_s=LONGEST - 2 * MARGIN,
        min_silence_duration_ms=round(1000 * PAUSE),
        speech_pad_ms=0,
    )
    found = get_speech_timestamps(audio, options)
    return [(s["start"] / RATE, s["end"] / RATE) for s in found]


def clips_of(spans: Sequence[Span], duration: float) -> list[Span]:
    """Clips (s) that hold all spans; a clip that is full ends at the longest pause near its end.

    Greedy packing alone would cut at whatever pause comes last, often inside a sentence.
    """
    clips: list[Span] = []
    first = 0
    while first < len(spans):
        fits = first
        while fits < len(spans) and spans[fits][1] - spans[first][0] <= LONGEST - 2 * MARGIN:
            fits += 1
        last = len(spans) if fits == len(spans) else _cut(spans, first, max(fits, first + 1))
        before = spans[first - 1][1] if first else 0.0
        after = spans[last][0] if last < len(spans) else duration
        start = spans[first][0] - min(MARGIN, (spans[first][0] - before) / 2)
        end = spans[last - 1][1] + min(MARGIN, (after - spans[last - 1][1]) / 2)
        clips.append((start, end))
        first = last
    return clips


def _cut(spans: Sequence[Span], first: int, fits: int) -> int:
    """The first span of the next clip: after the longest pause in this clip's second half."""
    middle = spans[first][0] + LONGEST / 2
    places = [i for i in range(first + 1, fits + 1) if i == fits or spans[i - 1][1] >= middle]
    return max(places, key=lambda i: spans[i][0] - spans[i - 1][1])


def out_of_pauses(words: Sequence[HeardWord], spans: Sequence[Span]) -> list[HeardWord]:
    """Each word within the one span of speech that it shares most time with.

    Whisper reads word borders off its attention and has no notion of silence: the first word
    after a pause begins where the last one ended. A word that touches no span stays as it is.
    """
    starts = np.array([s for s, _ in spans])
    ends = np.array([e for _, e in spans])
    return [_into_speech(w, starts, ends) for w in words]


def _into_speech(word: HeardWord, starts: np.ndarray, ends: np.ndarray) -> HeardWord:
    first, last = np.searchsorted(ends, word.start, "right"), np.searchsorted(starts, word.end)
    if first >= last:
        return word
    inner_starts = np.maximum(starts[first:last], word.start)
    inner_ends = np.minimum(ends[first:last], word.end)
    most = int(np.argmax(inner_ends - inner_starts))
    return replace(word, start=float(inner_starts[most]), end=float(inner_ends[most]))
