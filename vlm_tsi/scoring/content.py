"""Are the words that carry the content right?

Input: aligned pairs and the content words (colours, places), as one set or one for each slot.
Output: micro precision, recall and F1 (percent) of those words.
Invariant: never NaN. A mean sentence similarity stays high with every colour wrong; this
does not.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol


class HasTexts(Protocol):
    """A matched pair: what should have been said, and what was."""

    @property
    def ref_text(self) -> str:
        """The reference text."""

    @property
    def gen_text(self) -> str:
        """The generated text."""


@dataclass(frozen=True, slots=True)
class ContentAccuracy:
    """Micro scores (percent) over content words, and the counts behind them.

    All three scores are None where neither side has a content word (nothing to judge), and
    0 where at least one side has some and none agree.
    """

    f1: float | None
    precision: float | None
    recall: float | None
    n_right: int
    n_ref: int
    n_gen: int
    slots: Mapping[str, "ContentAccuracy"] = field(default_factory=dict)


def content_accuracy(
    pairs: Iterable[HasTexts], words: Mapping[str, Set[str]] | Set[str]
) -> ContentAccuracy:
    """Compare content words within matched pairs, as multisets, case ignored.

    A word said twice counts twice; the order does not matter. A "word" may be a phrase
    ("top left"); where several fit at one place the longest is taken. What was never matched
    is not judged here: that is what F1 is for.

    Args:
        pairs: matched pairs.
        words: the content words; with slots (`{"colour": {...}}`) each is also given alone.
    """
    listed = [(pair.ref_text, pair.gen_text) for pair in pairs]
    if not isinstance(words, Mapping):
        return _count(listed, words, {})
    slots = {slot: _count(listed, some, {}) for slot, some in words.items()}
    return _count(listed, frozenset().union(*words.values()), slots)


def _count(
    texts: list[tuple[str, str]], words: Set[str], slots: Mapping[str, ContentAccuracy]
) -> ContentAccuracy:
    pattern = _pattern(words)
    n_right = n_ref = n_gen = 0
    for ref_text, gen_text in texts:
        ref = Counter(pattern.findall(ref_text.casefold()))
        gen = Counter(pattern.findall(gen_text.casefold()))
        n_right += (ref & gen).total()
        n_ref, n_gen = n_ref + ref.total(), n_gen + gen.total()
    if not n_ref + n_gen:
        return ContentAccuracy(None, None, None, 0, 0, 0, slots)
    f1 = 200 * n_right / (n_ref + n_gen)
    precision, recall = 100 * n_right / max(n_gen, 1), 100 * n_right / max(n_ref, 1)
    return ContentAccuracy(f1, precision, recall, n_right, n_ref, n_gen, slots)


def _pattern(words: Set[str]) -> re.Pattern[str]:
    longest_first = sorted({w.casefold() for w in words if w.strip()}, key=lambda w: (-len(w), w))
    if not longest_first:
        return re.compile(r"(?!)")
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
