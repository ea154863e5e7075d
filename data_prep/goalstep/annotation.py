"""Goal-Step's own annotation -> guidance turns at the start of each step and substep.

Input: `{split, videos: [{video_uid, segments: [{…, segments: [{…}]}]}]}`. Output: `Video`s.
Invariant: no record raises; each segment is one entry.

Rules: steps marked irrelevant or unsure are not said (what nobody needs for the goal is no
guidance); essential and optional ones are, and so are those that lack the mark; `is_procedural`
decides nothing and is kept in `meta`; a step marked as continued whose instruction was said
before is worded as going on; one that says the same as the turn before is left out.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from data_prep.common.annotations import REVERSED, seconds, span, string, text_repairs
from data_prep.goalstep import wording
from data_prep.goalstep.turns import (
    NO_NAME,
    NOT_A_VIDEO,
    TWICE,
    Entry,
    Turn,
    Video,
    mark_order,
)

SYSTEM = "The user's goal: {}. Tell them each step when its time comes."
GUIDANCE = ("essential", "optional")
LEFT_OUT = {"irrelevant": "irrelevant to the goal", "unsure": "unsure if relevant to the goal"}
KEYS = (
    *("step_category", "step_description", "is_continued", "is_procedural", "is_relevant"),
    *("summary", "segments"),
)
TEXTS = ("video_uid", "goal_description", "goal_category")

NOT_A_SEGMENT, THIRD_LEVEL = "segment is no object", "third level"
NO_WORDS, REPEATS = "no description and no category", "says the same as the turn before"
CATEGORY_USED = "description is no instruction, category taken"
ODD_RELEVANCE = "unknown relevance"
OVERLAP, OUTSIDE_PARENT = "overlaps the segment before", "outside its parent"
OUTSIDE_VIDEO, BEFORE_PARENT = "outside the video", "begins before its parent, moved to its start"
NO_SEGMENTS, NO_GOAL = "segments are no list", "no goal"
NOT_PROCEDURAL = "video is not procedural"


def read_videos(data: Mapping[str, Any], seed: int, limit: int | None) -> list[Video]:
    """The videos of an annotation file, worded with templates.

    Args:
        data: the parsed file.
        seed: of the choice of templates.
        limit: only the first so many videos.
    """
    records = data["videos"]
    verbs = wording.verbs_of(_phrases(records))
    seen: set[str] = set()
    videos = [_video(r, string(data.get("split"))) for r in records[:limit]]
    for video in videos:
        if not video.dropped and video.uid in seen:
            video.leave_out(TWICE)
        seen.add(video.uid)
        _word(video, verbs, seed)
    return videos


def _phrases(records: list[Any]) -> Iterator[str]:
    """Every description and category phrase of the file."""
    for record in records:
        for step in _segments(record):
            for segment in (step, *_segments(step)):
                if isinstance(segment, Mapping):
                    yield string(segment.get("step_description"))
                    yield wording.category_phrase(string(segment.get("step_category")))


def _segments(record: Any) -> list[Any]:
    listed = record.get("segments") if isinstance(record, Mapping) else None
    return listed if isinstance(listed, list) else []


def _video(record: Any, split: str) -> Video:
    if not isinstance(record, Mapping):
        return Video("", dropped=NOT_A_VIDEO)
    end = seconds(record.get("end_time"))
    video = Video(string(record.get("video_uid")), duration=end if end and end > 0 else None)
    video.repairs = [mend for name in TEXTS for mend in text_repairs(record.get(name))]
    goal = _goal(record)
    video.system = SYSTEM.format(goal) if goal else ""
    meta = {"corpus": "goalstep", "split": split, "goal": goal,
            "goal_category": string(record.get("goal_category"))}  # fmt: skip
    video.meta = {k: v for k, v in meta.items() if v}
    found = (
        (NO_GOAL, not goal),
        (NO_SEGMENTS, not isinstance(record.get("segments"), list)),
        (NOT_PROCEDURAL, record.get("is_procedural") is False),
    )
    video.oddities = [name for name, is_so in found if is_so]
    video.entries = list(_entries(record, video))
    if not video.uid:
        video.leave_out(NO_NAME)
    return video


def _goal(record: Mapping[str, Any]) -> str:
    """The goal in the annotator's words, else its category's."""
    told = string(record.get("goal_description")).strip(" .`")
    category = string(record.get("goal_category")).rsplit(":", 1)[-1]
    return told or category.replace("_", " ").lower()


def _entries(record: Mapping[str, Any], video: Video) -> Iterator[Entry]:
    """Every segment: each step, then its substeps, then what lies deeper (not read)."""
    length = (seconds(record.get("start_time")) or 0.0, video.duration or float("inf"))
    steps = _level(_segments(record), f"{video.uid}: segment", "step")
    for step, raw in zip(steps, _segments(record), strict=True):
        _note_outside(step, length, OUTSIDE_VIDEO)
        yield step
        below = _level(_segments(raw), f"{step.where}.", "substep")
        for substep, deep in zip(below, _segments(raw), strict=True):
            _note_outside(substep, length, OUTSIDE_VIDEO)
            _into_parent(substep, step)
            yield substep
            for k, _ in enumerate(_segments(deep)):
                yield Entry(f"{substep.where}.{k}", dropped=THIRD_LEVEL)


def _level(records: list[Any], where: str, kind: str) -> list[Entry]:
    """The segments of one level, in order of the file; what their order breaks is noted."""
    entries = [_entry(r, f"{where}{' ' * (kind == 'step')}{k}", kind)
               for k, r in enumerate(records)]  # fmt: skip
    spoken = [e for e in entries if e.turn is not None]
    mark_order(spoken)
    for before, entry in itertools.pairwise(spoken):
        entry.oddities += [OVERLAP] * (entry.said.time < before.said.until)
    return entries


def _entry(record: Any, where: str, kind: str) -> Entry:
    """One segment; its turn's text is its description for the time being."""
    if not isinstance(record, Mapping):
        return Entry(where, dropped=NOT_A_SEGMENT)
    entry = Entry(where, oddities=[f"{kind} lacks {key}" for key in KEYS if key not in record])
    relevance = record.get("is_relevant")
    if relevance is not None and relevance not in (*GUIDANCE, *LEFT_OUT):
        entry.oddities.append(ODD_RELEVANCE)
    texts = [record.get(k) for k in ("step_description", "step_category")]
    description, category = map(string, texts)
    time = span(record.get("start_time"), record.get("end_time"), description)
    entry.repairs += [*(mend for text in texts for mend in text_repairs(text)), *time.repairs]
    entry.dropped = time.problem or ("" if description or category else NO_WORDS)
    if not entry.dropped:
        flags = {k: record[k] for k in ("is_procedural", "is_continued") if _is_bool(record, k)}
        marks = {"is_relevant": relevance} if relevance in (*GUIDANCE, *LEFT_OUT) else {}
        meta = {
            "kind": kind,
            "category": category,
            **marks,
            **flags,
            "below": len(_segments(record)),
        }
        until = float("inf") if REVERSED in time.repairs else time.end
        entry.turn = Turn("assistant", description, time.start, until, meta)
        entry.dropped = LEFT_OUT.get(str(relevance), "")
    return entry


def _is_bool(record: Mapping[str, Any], key: str) -> bool:
    return isinstance(record.get(key), bool)


def _note_outside(entry: Entry, limits: tuple[float, float], oddity: str) -> None:
    turn = entry.turn
    if turn is not None and (turn.time < limits[0] or limits[1] < turn.until < float("inf")):
        entry.oddities.append(oddity)


def _into_parent(substep: Entry, step: Entry) -> None:
    """A substep is not announced before its step."""
    if substep.turn is None or step.turn is None:
        return
    _note_outside(substep, (step.turn.time, step.turn.until), OUTSIDE_PARENT)
    if substep.turn.time < step.turn.time:
        substep.turn.time = step.turn.time
        substep.repairs.append(BEFORE_PARENT)


def _word(video: Video, verbs: frozenset[str], seed: int) -> None:
    """Put each turn into words, in the order in which they are said."""
    said: set[str] = set()
    last = ""
    for k, entry in enumerate(sorted(video.live(), key=lambda e: e.said.time)):
        turn = entry.said
        phrase = wording.instruction(turn.text, turn.meta["category"], verbs)
        if turn.text and phrase == wording.category_phrase(turn.meta["category"]):
            entry.oddities.append(CATEGORY_USED)
        if phrase == last:
            entry.dropped = REPEATS
            continue
        turn.text = wording.sentence(phrase, _templates(turn, phrase in said), seed, video.uid, k)
        said.add(phrase)
        last = phrase
    for entry in video.entries:
        if entry.turn is not None:
            entry.turn.meta.pop("below", None)


def _templates(turn: Turn, was_said: bool) -> tuple[str, ...]:
    if was_said and turn.meta.get("is_continued"):
        return wording.AGAIN
    if turn.meta["kind"] == "substep":
        return wording.SUBSTEP
    return wording.PARENT if turn.meta["below"] else wording.STEP
