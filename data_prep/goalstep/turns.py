"""Turns with a time -> turns with a span: who speaks when, and what there is no time for.

Input: `Video`: the entries of one video, each with a turn or a reason why not. Output: a
timeline, and every entry's fate. Invariant: assistant turns never overlap, none begins in the
video's last second, each user turn that is kept has an answer.

The released code's rules, on one timeline: a sample is an assistant turn, with the latest user
turn before it if there is one; an end is start + words / 2.5; an answer begins 0.3 s after its
question's end.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from data_prep.common.report import Tally
from vlm_tsi.published import estimated_end
from vlm_tsi.timeline import Role, Timeline, Utterance

ANSWER_DELAY = 0.3  # s
LAST_SECOND = 1.0  # s: what begins later can hardly be said
VIDEO_OUT = "its video is left out"
NOT_A_VIDEO, NO_NAME, TWICE = "video is no object", "video_uid missing", "video_uid stands twice"
NOTHING_SAID, NO_DURATION = "nothing to say", "no duration, last end taken"
NOT_LATEST, NO_ANSWER = "user turn before a later user turn", "user turn without an answer"
PAST_END, TOO_LATE = "begins after the video's end", "begins in the video's last second"
NO_TIME_LEFT = "its step ends before it can be said"
OUT_OF_ORDER = "out of order, sorted"
ANSWER_SET = "answer set 0.3 s after its question"
WAITED, CUT = "waits for the turn before to end", "end cut at the video's end"


@dataclass
class Turn:
    """Something to be said.

    Attributes:
        role: who says it.
        text: what.
        time: when it should begin (s).
        until: when there is no more use in it (s).
        meta: what the corpus knows beside.
    """

    role: Role
    text: str
    time: float
    until: float = float("inf")
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass
class Entry:
    """One record of the input on its way: a turn, or the reason why it is left out."""

    where: str
    turn: Turn | None = None
    dropped: str = ""
    repairs: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)
    start: float = 0.0
    end: float = 0.0

    @property
    def said(self) -> Turn:
        """The turn of an entry that is known to have one."""
        assert self.turn is not None, f"{self.where} has no turn"
        return self.turn


@dataclass
class Video:
    """One video on its way.

    Attributes:
        uid: its name.
        entries: its records in the file's order.
        duration: its length (s), if known.
        system: what the model is told before anything happens.
        meta: what the corpus knows beside.
        dropped: why it is left out.
        repairs: what was mended in its own texts (name, goal).
        oddities: what is odd about it.
    """

    uid: str
    entries: list[Entry] = field(default_factory=list)
    duration: float | None = None
    system: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    dropped: str = ""
    repairs: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    def live(self) -> list[Entry]:
        """The entries not left out."""
        return [e for e in self.entries if not e.dropped]

    def leave_out(self, reason: str) -> None:
        """Leave out the video, and with it its entries."""
        self.dropped = reason
        for entry in self.live():
            entry.dropped = VIDEO_OUT


def mark_order(entries: list[Entry]) -> None:
    """Count the turns that begin before the one they stand behind."""
    spoken = [e for e in entries if e.turn is not None]
    for before, entry in itertools.pairwise(spoken):
        if entry.said.time < before.said.time:
            entry.repairs.append(OUT_OF_ORDER)


def timeline(video: Video, path: str) -> Timeline | None:
    """The timeline of a video; None if nothing can be said."""
    free = 0.0  # when the assistant's voice is free again
    for question, answer in _samples(sorted(video.live(), key=lambda e: e.said.time)):
        free = _place(question, answer, free, video.duration)
    kept = sorted(video.live(), key=lambda e: e.start)
    if not kept:
        video.leave_out(video.dropped or NOTHING_SAID)
        return None
    last = max(e.end for e in kept)
    return Timeline(
        video_id=video.uid,
        video_path=path,
        duration=last if video.duration is None else video.duration,
        utterances=tuple(_utterance(e) for e in kept),
        system=video.system,
        meta=video.meta,
    )


def _samples(entries: list[Entry]) -> Iterator[tuple[Entry | None, Entry]]:
    """Each assistant turn with the latest user turn since the one before."""
    question: Entry | None = None
    for entry in entries:
        if entry.said.role == "assistant":
            yield question, entry
            question = None
            continue
        if question is not None:
            question.dropped = NOT_LATEST
        question = entry
    if question is not None:
        question.dropped = NO_ANSWER


def _place(question: Entry | None, answer: Entry, free: float, duration: float | None) -> float:
    """Set one sample's times, or leave it out; when the voice is free again."""
    turn = answer.said
    start = turn.time
    if question is not None:
        question.start = question.said.time
        question.end = estimated_end(question.start, question.said.text)
        start = question.end + ANSWER_DELAY
    wanted, start = start, max(start, free)
    reason = _unsayable(turn, start, duration)
    if reason:
        answer.dropped = reason
        if question is not None:
            question.dropped = reason
        return free
    answer.repairs += [ANSWER_SET] * (wanted != turn.time) + [WAITED] * (start > wanted)
    answer.start, answer.end = start, estimated_end(start, turn.text)
    for entry in (question, answer):
        if entry is not None and duration is not None and entry.end > duration:
            entry.end = duration
            entry.repairs.append(CUT)
    return answer.end


def _unsayable(turn: Turn, start: float, duration: float | None) -> str:
    if duration is not None and turn.time > duration:
        return PAST_END
    if duration is not None and start > duration - LAST_SECOND:
        return TOO_LATE
    return NO_TIME_LEFT if start > turn.time and start >= turn.until else ""


def _utterance(entry: Entry) -> Utterance:
    turn = entry.said
    return Utterance(turn.role, turn.text, entry.start, entry.end, meta=turn.meta)


def count(video: Video, entries: Tally, videos: Tally) -> None:
    """Count a video and its entries, once their fates are known."""
    for oddity in video.oddities:
        videos.note(oddity, video.uid)
    if video.dropped:
        videos.drop(video.dropped, video.uid)
    else:
        mends = [NO_DURATION] * (video.duration is None)
        videos.keep_mended([*mends, *video.repairs], video.uid)
    for entry in video.entries:
        for oddity in entry.oddities:
            entries.note(oddity, entry.where)
        if entry.dropped:
            entries.drop(entry.dropped, entry.where)
            continue
        entries.keep_mended(entry.repairs, entry.where)
