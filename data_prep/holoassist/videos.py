"""HoloAssist's list of videos -> timelines with scored turns, every record counted.

Input: the parsed annotation file. Output: `Corpus`: one timeline for each video with a
dialogue, and tallies of events and videos. Invariant: events read = kept + dropped, videos
read = kept + dropped; a timeline's id is the published one, `<video_name>/Export_py/…`.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.common.annotations import string, text_repairs, video_path
from data_prep.common.report import Tally
from data_prep.holoassist.events import Read, given_duration, read_event
from vlm_tsi.timeline import Timeline, Utterance
from vlm_tsi.worlds.datapoints import Rules, mark_eval

PUBLISHED_NAME = "Export_py/Video_pitchshift.mp4"
FURNITURE = ("nightstand", "stool", "tray table", "utility cart")
COFFEE = ("nespresso machine", "espresso machine")
REPAIRS = ("change belt", "change circuit breaker", "fix motorcycle")
SETUPS = (
    *("setup camera", "setup switch", "setup big printer", "setup small printer"),
    *("setup gopro", "assemble laser scanner", "assemble computer"),
)
TASK_GROUPS = {  # the paper's Appendix D
    **{f"assemble {item}": "Assemble Furniture" for item in FURNITURE},
    **{f"disassemble {item}": "Disassemble Furniture" for item in FURNITURE},
    **{f"make coffee with {machine}": "Make Coffee" for machine in COFFEE},
    **dict.fromkeys(REPAIRS, "Repair Machinery"),
    **dict.fromkeys(SETUPS, "Setup Electronics"),
}

NOT_A_VIDEO, NO_NAME, TWICE = "video is no object", "name missing", "name stands twice"
NO_EVENTS, NO_DIALOGUE = "events are no list", "no dialogue"
NO_CORRECTION = "no scored turn (released-code rules)"
VIDEO_OUT, SECOND_NARRATION = "its video is left out", "second narration"
TRAILING = "after the last scored turn (released-code rules)"
OUT_OF_ORDER = "out of order, sorted"
OVERLAP, SAME_ID, AFTER_END = "overlaps a turn before", "id stands twice", "ends after the video"
NO_NARRATION, NOTHING_SCORED = "no narration", "nothing scored"
NO_DURATION, SHORT = "no duration, last end taken", "duration extended to the last turn"
NO_GROUP, NO_FILE = "task in none of the paper's groups", "video file not there"


@dataclass
class Corpus:
    """Timelines in the file's order, and what became of every record."""

    timelines: list[Timeline] = field(default_factory=list)
    events: Tally = field(default_factory=lambda: Tally("event"))
    videos: Tally = field(default_factory=lambda: Tally("video"))


def read_videos(
    records: Iterable[Any], rules: Rules, root: str | None = None, out: str | Path = "."
) -> Corpus:
    """Read all videos.

    Args:
        records: the annotation file's list.
        rules: the paper's or the released code's (docs/data.md).
        root: where the videos lie; each that is not there is noted.
        out: the folder of the timelines, from which paths are told.
    """
    corpus, seen = Corpus(), set[str]()
    for record in records:
        problem, name = _refused(record, seen)
        seen.add(name)
        if problem:
            corpus.videos.drop(problem, name)
            _count_out(corpus.events, record)
            continue
        draft = _Draft(record, name, rules)
        corpus.events.add(draft.tally())
        if draft.dropped:
            corpus.videos.drop(draft.dropped, name)
            continue
        path = video_path(root, f"{name}/{PUBLISHED_NAME}", out)
        corpus.timelines.append(draft.timeline(path, corpus.videos))
        if root is not None and not (Path(root) / name / PUBLISHED_NAME).is_file():
            corpus.videos.note(NO_FILE, name)
    return corpus


def _refused(record: Any, seen: set[str]) -> tuple[str, str]:
    """Why a video cannot be read at all, and its name."""
    if not isinstance(record, Mapping):
        return NOT_A_VIDEO, ""
    name = string(record.get("video_name"))
    if not name:
        return NO_NAME, ""
    if name in seen:
        return TWICE, name
    return ("" if isinstance(record.get("events"), list) else NO_EVENTS), name


def _count_out(events: Tally, record: Any) -> None:
    listed = record.get("events") if isinstance(record, Mapping) else None
    for _ in listed if isinstance(listed, list) else ():
        events.drop(VIDEO_OUT)


class _Draft:
    """One video on its way: its turns in order, and the fate of each event."""

    def __init__(self, record: Mapping[str, Any], name: str, rules: Rules) -> None:
        self.record, self.name = record, name
        self.reads: list[Read] = [read_event(e, rules) for e in record["events"]]
        self.out: dict[int, str] = {i: r.dropped for i, r in enumerate(self.reads) if r.dropped}
        spoken = [i for i, r in enumerate(self.reads) if r.turn is not None]
        self.order = sorted(spoken, key=lambda i: self._turn(i).start)
        self.turns = list(mark_eval((self._turn(i) for i in self.order), rules))
        self.narration = self._choose_narration()
        if rules == "released":
            self._trim()
        self.dropped = "" if self.turns else (NO_CORRECTION if spoken else NO_DIALOGUE)
        if self.dropped:
            self.out = {i: self.out.get(i, VIDEO_OUT) for i in range(len(self.reads))}

    def _turn(self, i: int) -> Utterance:
        turn = self.reads[i].turn
        assert turn is not None, f"event {i} is no turn"
        return turn

    def _choose_narration(self) -> str:
        """The first narration; the others are left out."""
        told = [i for i, r in enumerate(self.reads) if r.narration]
        self.out |= dict.fromkeys(told[1:], SECOND_NARRATION)
        return self.reads[told[0]].narration if told else ""

    def _trim(self) -> None:
        """Leave out what follows the last scored turn."""
        length = max((k + 1 for k, u in enumerate(self.turns) if u.eval), default=0)
        if length:
            self.out |= dict.fromkeys(self.order[length:], TRAILING)
        self.turns, self.order = self.turns[:length], self.order[:length]

    def tally(self) -> Tally:
        """The fate of every event."""
        tally, late = Tally("event"), self._late()
        for i, read in enumerate(self.reads):
            where = self._where(i)
            for oddity in read.oddities:
                tally.note(oddity, where)
            if i in self.out:
                tally.drop(self.out[i], where)
                continue
            tally.keep_mended((*read.repairs, *[OUT_OF_ORDER] * (i in late)), where)
        self._note_ids(tally)
        self._note_times(tally)
        return tally

    def _where(self, i: int) -> str:
        event = self.record["events"][i]
        number = event.get("id") if isinstance(event, Mapping) else None
        return f"{self.name}: event {number if isinstance(number, int) else f'[{i}]'}"

    def _note_ids(self, tally: Tally) -> None:
        seen: set[str] = set()
        for i, event in enumerate(self.record["events"]):
            number = json.dumps(event["id"]) if isinstance(event, Mapping) and "id" in event else ""
            if number and number in seen:
                tally.note(SAME_ID, self._where(i))
            seen.add(number)

    def _late(self) -> set[int]:
        """The turns that start before the one they stand behind."""
        pairs = itertools.pairwise(sorted(self.order))
        return {i for before, i in pairs if self._turn(i).start < self._turn(before).start}

    def _note_times(self, tally: Tally) -> None:
        length, spoken_until = given_duration(self.record), 0.0
        for i, turn in zip(self.order, self.turns, strict=True):
            if turn.start < spoken_until:
                tally.note(OVERLAP, self._where(i))
            if length is not None and turn.end > length:
                tally.note(AFTER_END, self._where(i))
            spoken_until = max(spoken_until, turn.end)

    def timeline(self, path: str, videos: Tally) -> Timeline:
        """The video's timeline, counted as kept."""
        length, last = given_duration(self.record), max(u.end for u in self.turns)
        short = length is not None and length < last
        mends = [NO_DURATION] * (length is None) + [SHORT] * short + self._mended_names()
        videos.keep_mended(mends, self.name)
        meta = self._meta()
        if not self.narration:
            videos.note(NO_NARRATION, self.name)
        if not any(u.eval for u in self.turns):
            videos.note(NOTHING_SCORED, self.name)
        if "task_group" not in meta:
            videos.note(NO_GROUP, self.name)
        return Timeline(
            video_id=f"{self.name}/{PUBLISHED_NAME}",
            video_path=path,
            duration=max(length or 0.0, last),
            utterances=tuple(self.turns),
            system=self.narration,
            meta=meta,
        )

    def _meta(self) -> dict[str, str]:
        task = string(self.record.get("taskType"))
        meta = {
            "corpus": "holoassist",
            "task_id": string(self.record.get("taskId")),
            "task_type": task,
            "task_group": TASK_GROUPS.get(task, ""),
        }
        return {key: value for key, value in meta.items() if value}

    def _mended_names(self) -> list[str]:
        """What had to be mended in the video's own texts."""
        fields = ("video_name", "taskType", "taskId")
        return [mend for name in fields for mend in text_repairs(self.record.get(name))]


def eval_turns(timelines: Sequence[Timeline]) -> int:
    """How many turns are scored."""
    return sum(u.eval for t in timelines for u in t.utterances)
