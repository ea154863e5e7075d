"""Which of the paper's six categories of game events an utterance belongs to (Table 3).

Input: a folder of SoccerNet's `Labels-v2.json` and the videos that are scored. Output: a
`Grouping`, with tallies of events and videos. Invariant: an event that is not used is counted
with its reason; the order of files and events does not matter.

An event's half stands in its `gameTime` (`1 - 00:31`), its time in `position` (milliseconds, a
string). An utterance belongs to each category (Appendix C) of which an event lies within five
seconds of it, from five before its start to five after its end (Section 6.2.2). The paper does
not say that one event is chosen, so an utterance may belong to several categories.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from data_prep.common.annotations import read_annotation_file, string
from data_prep.common.report import Tally
from data_prep.soccernet.halves import match_of
from eval.group_sources import Grouping, Span
from vlm_tsi.errors import UserError
from vlm_tsi.scoring.params import TOLERANCE

LABELS_FILE = "Labels-v2.json"
NEAR_EVENT = 5.0
"""Seconds around an utterance in which an event counts (Section 6.2.2)."""
ACTIONS: dict[str, tuple[str, ...]] = {  # the paper's Appendix C
    "Attempts": ("Shots on target", "Shots off target", "Clearance"),
    "Discipline": ("Yellow card", "Red card", "Yellow->red card"),
    "Goal/Penalty": ("Goal", "Penalty"),
    "Infractions": ("Offside", "Foul"),
    "Restarts": (
        *("Kick-off", "Ball out of play", "Throw-in", "Corner"),
        *("Direct free-kick", "Indirect free-kick"),
    ),
    "Substitution": ("Substitution",),
}
_CATEGORY = {label.casefold(): name for name, labels in ACTIONS.items() for label in labels}
_GAME_TIME = re.compile(r"\s*([12])\s*-(.*)", re.DOTALL)
_CLOCK = re.compile(r"\s*(\d{1,3}):([0-5]?\d(?:\.\d+)?)\s*")
_HALF = re.compile(r"([12])(?:_.*)?")

NO_EVENT, NO_LABEL = "event is no object", "label is missing or no text"
NO_CATEGORY, NO_HALF = "label in none of the six categories", "gameTime names no half"
NO_TIME = "neither position nor gameTime tells the time"
FROM_GAME_TIME, DIFFER = "position unusable, gameTime taken", "position and gameTime > 1 s apart"
HALF_NOT_SCORED, UNSEEN = "its half is not scored", "not shown on the screen"
NO_LABELS, NO_HALF_ID = f"no {LABELS_FILE} for it", "its id names no half"


def soccernet(root: str | Path, videos: Mapping[str, str], within: float = NEAR_EVENT) -> Grouping:
    """Table 3: the six categories of the events around an utterance.

    Args:
        root: folder that holds `<league>/<season>/<match>/Labels-v2.json`, at any depth, or one
            such file's match folder.
        videos: video_id as scored -> id of its half, `[<league>/<season>/]<match>/1_224p`.
        within: seconds.

    Raises:
        UserError: no labels for any of the videos, a file that is no label file, or two files
            for one match.
    """
    files = _label_files(root)
    events, tally = Tally("event"), Tally("video")
    halves: dict[tuple[Path, str], list[Span]] = {}
    places: dict[str, tuple[Path, str]] = {}
    for video_id in sorted(videos):
        file, half = _labels_of(videos[video_id], files, root)
        if file is None or not half:
            tally.drop(NO_LABELS if half else NO_HALF_ID, video_id)
            continue
        tally.keep()
        places[video_id] = (file, half)
        halves.setdefault((file, half), [])
    if not places:
        problem = f"no {LABELS_FILE} in it belongs to any of the {len(videos)} video(s)"
        mend = "give the folder that holds the leagues; ids end in <match>/1_224p"
        raise UserError(root, problem, mend)
    for file in sorted({file for file, _ in places.values()}):
        _read_events(file, halves, events)
    spans = {video_id: halves[place] for video_id, place in places.items()}
    return Grouping("soccernet", tuple(ACTIONS), spans, within, (events, tally))


def _label_files(root: str | Path) -> dict[str, list[Path]]:
    """Label files by their match's name."""
    if not Path(root).is_dir():
        raise UserError(root, "no such folder", "name the folder that holds the leagues")
    files: dict[str, list[Path]] = {}
    for file in sorted(Path(root).rglob(LABELS_FILE)):
        files.setdefault(file.absolute().parent.name, []).append(file)
    if not files:
        raise UserError(root, f"no {LABELS_FILE} in it", "fetch SoccerNet's action labels")
    return files


def _labels_of(
    source: str, files: Mapping[str, Sequence[Path]], root: str | Path
) -> tuple[Path | None, str]:
    """The label file of a half's match, and `1` or `2`; nothing where there is none."""
    half = _HALF.fullmatch(PurePosixPath(source).stem)
    match = PurePosixPath(match_of(source))
    found = list(files.get(match.name, ()))
    if len(found) > 1:  # the same match in two places: league and season decide
        parts = match.parts
        found = [f for f in found if f.absolute().parent.parts[-len(parts) :] == parts] or found
    if len(found) > 1:
        problem = f"{len(found)} {LABELS_FILE} for match {match.name!r}"
        raise UserError(root, problem, "leave one of them in the folder")
    return (found[0] if found else None), half[1] if half else ""


def _read_events(file: Path, halves: Mapping[tuple[Path, str], list[Span]], tally: Tally) -> None:
    """Add a match's events to the halves that are scored."""
    stored = read_annotation_file(file)
    listed = stored.get("annotations") if isinstance(stored, Mapping) else None
    if not isinstance(listed, list):
        raise UserError(file, "holds no list of annotations", 'use {"annotations": [...]}')
    for i, event in enumerate(listed):
        where = f"{file.parent.name}: annotations[{i}]"
        problem = _problem(event)
        half, _ = ("", None) if problem else _game_time(event["gameTime"])
        if not problem and (file, half) not in halves:
            problem = HALF_NOT_SCORED
        if problem:
            tally.drop(problem, where)
            continue
        by_clock = _position(event.get("position")) is None
        tally.keep_mended([FROM_GAME_TIME] * by_clock, where)
        time = _time(event, where, tally)
        halves[file, half].append(Span(time, time, _CATEGORY[_label(event)]))
        if event.get("visibility") == "not shown":
            tally.note(UNSEEN, where)


def _problem(event: Any) -> str:
    """Why an event cannot be used, or nothing."""
    if not isinstance(event, Mapping):
        return NO_EVENT
    label = _label(event)
    if label not in _CATEGORY:
        return NO_CATEGORY if label else NO_LABEL
    half, clock = _game_time(event.get("gameTime"))
    if not half:
        return NO_HALF
    return NO_TIME if clock is None and _position(event.get("position")) is None else ""


def _label(event: Mapping[str, Any]) -> str:
    return string(event.get("label")).casefold()


def _time(event: Mapping[str, Any], where: str, tally: Tally) -> float:
    """Seconds of an event that tells its time: by its position, else by its clock."""
    time, (_, clock) = _position(event.get("position")), _game_time(event.get("gameTime"))
    if time is None:
        assert clock is not None, "one of the two is there"
        return clock
    if clock is not None and abs(time - clock) > 1 + TOLERANCE:
        tally.note(DIFFER, where)
    return time


def _game_time(value: object) -> tuple[str, float | None]:
    """Half and seconds of `1 - 00:31`; minutes may be unpadded. Empty, None where not told."""
    found = _GAME_TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return "", None
    clock = _CLOCK.fullmatch(found[2])
    return found[1], 60 * int(clock[1]) + float(clock[2]) if clock else None


def _position(value: object) -> float | None:
    """Seconds of a position, which is a string (or a number) of milliseconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        time = float(value) / 1000 if "_" not in str(value) else -1.0
    except (ValueError, OverflowError):
        return None
    return time if 0 <= time < math.inf else None
