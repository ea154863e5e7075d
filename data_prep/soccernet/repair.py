"""Segments as a recogniser left them -> segments that a timeline accepts.

Input: segments in the file's order; a tally. Output: segments sorted by start, with words,
start <= end and start >= 0, each holding its words.
Invariant: every segment that comes in is counted once, as kept (repaired or not) or as dropped
with a reason; no word that was said is lost to a repair of times.

Rule for a segment that ends before it starts: its text and words join the one before it (in
the file's order), whose label stays and whose end moves on to the later of both ends. The first
one has none before it: its two times are exchanged. Where that would give a segment longer than
`LONGEST`, its times tell nothing: the end is then estimated from the words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from data_prep.common.annotations import (
    BEFORE_ZERO,
    NEGATIVE_START,
    string,
    text_repairs,
    words,
)
from data_prep.common.report import Tally
from data_prep.soccernet.transcript import Segment
from vlm_tsi.published import estimated_end
from vlm_tsi.timeline import Utterance

WORDLESS = "text has no letter or digit"
JOINED = "ends before it starts: joined to the one before"
LENGTHENED = "took over one that ends before it starts"
EXCHANGED = "first one ends before it starts: times exchanged"
TOO_LONG = "would last over 30 s by times that are reversed: end estimated from its words"
WIDENED = "span widened to hold its words"
UNSORTED_WORDS = "words out of order: sorted"
UNSORTED = "out of order: sorted by start"
OVERLAP = "overlaps one before it"
LONGEST = 30.0
"""Seconds that a recogniser hears at once: no segment of its own is longer."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A segment on its way, and what was changed in it so far."""

    segment: Segment
    mends: tuple[str, ...] = ()

    def changed(self, *reasons: str, **fields: Any) -> "Draft":
        """The same with other fields, for these reasons."""
        return Draft(replace(self.segment, **fields), self.mends + reasons)


def repair(segments: Iterable[Segment], half: str, tally: Tally) -> list[Segment]:
    """Tidy and mend; `half` names the places in the report."""
    return mend(tidy(segments, half, tally), half, tally)


def tidy(segments: Iterable[Segment], half: str, tally: Tally) -> list[Draft]:
    """Segments with their text on one line; those without words are dropped."""
    kept = []
    for segment in segments:
        read = words(segment.text)
        problem = read.problem or ("" if any(map(str.isalnum, read.text)) else WORDLESS)
        if problem:
            tally.drop(problem, place(half, segment))
            continue
        tidied = replace(segment, text=read.text, speaker=string(segment.speaker) or None)
        kept.append(Draft(tidied, (*read.repairs, *text_repairs(segment.speaker))))
    return kept


def mend(drafts: Iterable[Draft], half: str, tally: Tally) -> list[Segment]:
    """Put times in order, and count what is kept."""
    inside = [d for d in drafts if _is_inside(d.segment, half, tally)]  # first: none joins a lost
    held = [_hold_words(_from_zero(d)) for d in _join_reversed(inside, half, tally)]
    late = [b.segment.start < a.segment.start for a, b in zip(held, held[1:], strict=False)]
    marked = [
        *held[:1],
        *(d.changed(UNSORTED) if x else d for d, x in zip(held[1:], late, strict=True)),
    ]
    marked.sort(key=lambda d: d.segment.start)
    for draft in marked:
        tally.keep_mended(draft.mends, place(half, draft.segment))
    segments = [d.segment for d in marked]
    _note_overlaps(segments, half, tally)
    return segments


def place(half: str, segment: Segment) -> str:
    """Where a segment stands, for a report."""
    return f"{half} at {segment.start:.2f} s"


def _join_reversed(drafts: Iterable[Draft], half: str, tally: Tally) -> list[Draft]:
    joined: list[Draft] = []
    for draft in drafts:
        segment = draft.segment
        if segment.end >= segment.start:
            joined.append(draft)
        elif joined:
            tally.drop(JOINED, place(half, segment))
            joined[-1] = _joined(joined[-1], segment)
        else:
            joined.append(_exchanged(draft))
    return joined


def _joined(before: Draft, after: Segment) -> Draft:
    """Both texts and words under the first one's start and label."""
    first = before.segment
    end, told = _ended(first.start, max(first.end, after.end), first.end, after.text)
    text, spoken = f"{first.text} {after.text}", first.words + after.words
    return before.changed(LENGTHENED, *told, text=text, words=spoken, end=end)


def _exchanged(draft: Draft) -> Draft:
    start, end = draft.segment.end, draft.segment.start
    end, told = _ended(start, end, max(start, 0.0), draft.segment.text)
    return draft.changed(EXCHANGED, *told, start=start, end=end)


def _ended(start: float, end: float, since: float, text: str) -> tuple[float, list[str]]:
    """An end (s) that is not absurdly late for words said `since`; and why it was moved."""
    spoken = estimated_end(since, text)
    return (spoken, [TOO_LONG]) if end - start > LONGEST and spoken < end else (end, [])


def _is_inside(segment: Segment, half: str, tally: Tally) -> bool:
    if max(segment.start, segment.end) >= 0:
        return True
    tally.drop(BEFORE_ZERO, place(half, segment))
    return False


def _from_zero(draft: Draft) -> Draft:
    return draft if draft.segment.start >= 0 else draft.changed(NEGATIVE_START, start=0.0)


def _hold_words(draft: Draft) -> Draft:
    """Words in order of start, and a span that reaches around them: they are measured finer."""
    segment = draft.segment
    if not segment.words:
        return draft
    spoken = tuple(sorted(segment.words, key=lambda w: w.start))
    start = min(segment.start, spoken[0].start)
    end = max(segment.end, *(w.end for w in spoken))
    unsorted, wider = spoken != segment.words, (start, end) != (segment.start, segment.end)
    reasons = [UNSORTED_WORDS] * unsorted + [WIDENED] * wider
    return draft.changed(*reasons, words=spoken, start=start, end=end)


def _note_overlaps(segments: Sequence[Segment], half: str, tally: Tally) -> None:
    latest = 0.0
    for segment in segments:
        if segment.start < latest:
            tally.note(OVERLAP, place(half, segment))
        latest = max(latest, segment.end)


def utterance(segment: Segment, is_scored: bool, cluster: int | None = None) -> Utterance:
    """A repaired segment as a turn of the model's."""
    meta: dict[str, float] = {}
    if segment.pbp_score is not None:
        meta["pbp_score"] = segment.pbp_score
    if cluster is not None:
        meta["cluster"] = cluster
    return Utterance(
        "assistant", segment.text, segment.start, segment.end, is_scored, segment.words,
        segment.speaker, meta,
    )  # fmt: skip
