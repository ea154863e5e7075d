"""Words to sentences, the same for every recogniser.

Input: words in order, with times (s). Output: runs of them.
Invariant: every word is in exactly one sentence, in order.
"""

import re
from collections.abc import Iterable, Sequence

from data_prep.asr.base import HeardWord

PAUSE = 1.5
"""Seconds of silence that end a sentence even where the recogniser wrote no full stop."""
_END = re.compile(r"[.!?…][\"'”’)\]]*$")
_NO_END = re.compile(r"^[\"'“(\[]*(Mr|Mrs|Ms|Dr|St|vs|[A-Z])\.$")


def sentences_of(words: Iterable[HeardWord]) -> list[tuple[HeardWord, ...]]:
    """Sentences end at . ! ? (not after a title or an initial), at a pause, at a new speaker."""
    sentences: list[tuple[HeardWord, ...]] = []
    open_words: list[HeardWord] = []
    for word in words:
        if open_words and _parts(open_words, word):
            sentences.append(tuple(open_words))
            open_words = []
        open_words.append(word)
    return [*sentences, tuple(open_words)] if open_words else sentences


def speaker_of(words: Sequence[HeardWord]) -> str | None:
    """Who says them: the first one known (words that could not be aligned have none)."""
    return next((w.speaker for w in words if w.speaker is not None), None)


def _parts(before: Sequence[HeardWord], after: HeardWord) -> bool:
    """Whether a sentence ends before a word; one whose speaker is unknown changes nothing."""
    last = before[-1]
    is_end = bool(_END.search(last.text)) and not _NO_END.match(last.text)
    is_new = after.speaker is not None and after.speaker != speaker_of(before)
    return is_end or after.start - last.end >= PAUSE or is_new
