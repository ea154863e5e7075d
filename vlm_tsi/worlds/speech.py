"""Spoken words on the clock, at 150 words a minute.

Input: a text and when it starts. Output: `Word`s with times (s, rounded to 1 ms).
Invariant: words follow each other without gaps; cutting keeps a prefix, at least one word.
"""

from collections.abc import Sequence
from random import Random

from vlm_tsi.timeline import Word

SECONDS_PER_WORD = 0.4
SPREAD = 0.06


def pace(rng: Random) -> float:
    """Seconds a word for one utterance: 0.4 s, +- 6%."""
    return SECONDS_PER_WORD * rng.uniform(1 - SPREAD, 1 + SPREAD)


def say(text: str, start: float, seconds_per_word: float) -> tuple[Word, ...]:
    """Words of `text` from `start` (s) on, one after the other."""
    times = [round(start + i * seconds_per_word, 3) for i in range(len(text.split()) + 1)]
    return tuple(Word(w, a, b) for w, a, b in zip(text.split(), times, times[1:], strict=False))


def break_off(words: Sequence[Word], time: float) -> tuple[Word, ...]:
    """The words that are over by `time` (s); at least the first."""
    return tuple(w for i, w in enumerate(words) if i == 0 or w.end <= time)


def finish_word(words: Sequence[Word], time: float) -> tuple[Word, ...]:
    """The words begun by `time` (s): the one being said is finished; at least the first."""
    return tuple(w for i, w in enumerate(words) if i == 0 or w.start <= time)


def text_of(words: Sequence[Word]) -> str:
    """The words as text, separated by single spaces."""
    return " ".join(w.text for w in words)
