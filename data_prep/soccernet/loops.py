"""Loops: where a recogniser says the same over and over, since nobody speaks.

Input: texts in order. Output: which of them repeat a loop.
Invariant: the first round of a loop is never marked, and what is marked equals the text one
period earlier. A loop is a block of one to three texts that comes three times or more in a
row, or twice if it has at least `LONG` words: a commentator says "Goal!" twice, not a whole
sentence. Case and punctuation do not count.
"""

from collections.abc import Sequence

LONG = 6
"""Words of a block whose second coming is a loop already."""
PERIODS = (1, 2, 3)


def normalised(text: str) -> str:
    """Letters and digits in lower case, one space between words."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def repeats(texts: Sequence[str]) -> list[int]:
    """For each text the period of the loop that it repeats (1 to 3), else 0."""
    said = [normalised(text) for text in texts]
    marks = [0] * len(said)
    i = 0
    while i < len(said):
        period, end = _loop_at(said, i)
        for k in range(i + period, end):
            marks[k] = period
        i = end
    return marks


def _loop_at(said: Sequence[str], i: int) -> tuple[int, int]:
    """(period, end) of the loop that begins at i; (1, i + 1) if there is none."""
    for period in PERIODS:
        end = i + period
        while end < len(said) and said[end] == said[end - period]:
            end += 1
        rounds = (end - i) // period
        words = sum(len(text.split()) for text in said[i : i + period])
        if rounds >= 3 or (rounds == 2 and words >= LONG):
            return period, end
    return 1, i + 1
