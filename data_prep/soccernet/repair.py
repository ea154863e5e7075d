"""Segments as a recogniser left them -> segments that a timeline accepts.

Input: segments in the file's order; a tally. Output: segments sorted by start, with words,
start <= end and start >= 0, each holding its words.
Invariant: every segment that comes in is counted once, as kept or as dropped with a reason;
no word that was said is lost to a repair of times.

Rule for a segment that ends before it starts: its text and words join the one before it (in
the file's order), whose label stays and whose end moves on to the later of both ends. The first
one has none before it: its two times are exchanged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from data_prep.common.annotations import BEFORE_ZERO, NEGATIVE_START, TIDIED, words
from data_prep.common.report import Tally
from data_prep.soccernet.transcript import Segment
from vlm_tsi.timeline import Utterance

WORDLESS = "text has no letter or digit"
JOINED = "ends before it starts: joined to the one before"
LENGTHENED = "took over one that ends before it starts"
EXCHANGED = "first one ends before it starts: times exchanged"
WIDENED = "span widened to hold its words"
UNSORTED_WORDS = "words out of order: sorted"
UNSORTED = "out of order: sorted by start"
OVERLAP = "overlaps one before it"


def repair(segments: Iterable[Segment], half: str, tally: Tally) -> list[Segment]:
    """Tidy and mend; `half` names the places in the report."""
    return mend(tidy(segments, half, tally), half, tally)


def tidy(segments: Iterable[Segment], half: str, tally: Tally) -> list[Segment]:
    """Segments with their text on one line; those without words are dropped."""
    kept = []
    for segment in segments:
        read = words(segment.text)
        problem = read.problem or ("" if any(map(str.isalnum, read.text)) else WORDLESS)
        if problem:
            tally.drop(problem, place(half, segment))
            continue
        for name in read.repairs:
            tally.repair(name, "" if name == TIDIED else place(half, segment))
        kept.append(replace(segment, text=read.text))
    return kept


def mend(segments: Iterable[Segment], half: str, tally: Tally) -> list[Segment]:
    """Put times in order, and count what is kept."""
    inside = [s for s in segments if _is_inside(s, half, tally)]  # first: nothing joins a lost one
    forward = _join_reversed(inside, half, tally)
    held = [_hold_words(_from_zero(s, half, tally), half, tally) for s in forward]
    for before, after in zip(held, held[1:], strict=False):
        if after.start < before.start:
            tally.repair(UNSORTED, place(half, after))
    held.sort(key=lambda s: s.start)
    _note_overlaps(held, half, tally)
    tally.keep(len(held))
    return held


def place(half: str, segment: Segment) -> str:
    """Where a segment stands, for a report."""
    return f"{half} at {segment.start:.2f} s"


def _join_reversed(segments: Iterable[Segment], half: str, tally: Tally) -> list[Segment]:
    joined: list[Segment] = []
    for segment in segments:
        if segment.end >= segment.start:
            joined.append(segment)
        elif joined:
            tally.drop(JOINED, place(half, segment))
            tally.repair(LENGTHENED)
            joined[-1] = _joined(joined[-1], segment)
        else:
            tally.repair(EXCHANGED, place(half, segment))
            joined.append(replace(segment, start=segment.end, end=segment.start))
    return joined


def _joined(before: Segment, after: Segment) -> Segment:
    """Both texts and words under the first one's start and label."""
    return replace(
        before,
        text=f"{before.text} {after.text}",
        words=before.words + after.words,
        end=max(before.end, after.end),
    )


def _is_inside(segment: Segment, half: str, tally: Tally) -> bool:
    if max(segment.start, segment.end) >= 0:
        return True
    tally.drop(BEFORE_ZERO, place(half, segment))
    return False


def _from_zero(segment: Segment, half: str, tally: Tally) -> Segment:
    if segment.start >= 0:
        return segment
    tally.repair(NEGATIVE_START, place(half, segment))
    return replace(segment, start=0.0)


def _hold_words(segment: Segment, half: str, tally: Tally) -> Segment:
    """Words in order of start, and a span that reaches around them: they are measured finer."""
    if not segment.words:
        return segment
    spoken = tuple(sorted(segment.words, key=lambda w: w.start))
    if spoken != segment.words:
        tally.repair(UNSORTED_WORDS, place(half, segment))
    start = min(segment.start, spoken[0].start)
    end = max(segment.end, *(w.end for w in spoken))
    if (start, end) != (segment.start, segment.end):
        tally.repair(WIDENED, place(half, segment))
    return replace(segment, words=spoken, start=start, end=end)


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
