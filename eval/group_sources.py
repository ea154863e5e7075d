"""Which groups an utterance belongs to: from task types (Table 4), or from a CSV.

Input: HoloAssist's task types (Appendix D), or a CSV with the columns `video_id,group` or
`video_id,start,end,group` (s); and the videos that are scored. Output: a `Grouping`, with
tallies of every record that was read. (Game events, Table 3: `eval/group_events.py`.)
Invariant: nothing is passed over silently: a record or a video that is not used is counted with
its reason; the order of the records does not matter.

A group is a set of stretches of a video. An utterance belongs to each group that it comes within
`within` seconds of, so it may belong to several or to none.
"""

import csv
import io
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.common.annotations import read_annotation_file, string
from data_prep.common.report import Tally
from data_prep.holoassist.videos import PUBLISHED_NAME, TASK_GROUPS
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_text
from vlm_tsi.published import csv_rows, csv_seconds
from vlm_tsi.scoring.params import TOLERANCE

NO_TASK, NO_GROUP = "no task type known", "task in none of the paper's five groups"
NOT_A_VIDEO, NO_NAME, TWICE = "record is no object", "name missing", "name stands twice"
NOT_SCORED, NO_ROW, SAME_ROW = "its video is not scored", "no row for it", "row stands twice"
COLUMNS = ("video_id", "group"), ("video_id", "start", "end", "group")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a video (s) and its group."""

    start: float
    end: float
    group: str


def whole(group: str) -> Span:
    """A whole video."""
    return Span(-math.inf, math.inf, group)


@dataclass(frozen=True)
class Grouping:
    """Groups and who belongs to them.

    Attributes:
        by: what it was made from (`soccernet`, `holoassist`, `csv`).
        names: all groups, in the order of their rows.
        spans: by video_id as scored; a video that the source does not know is not in it.
        within: seconds around an utterance.
        tallies: what was read, by unit; the last is of the videos that are scored.
    """

    by: str
    names: tuple[str, ...]
    spans: Mapping[str, Sequence[Span]]
    within: float
    tallies: tuple[Tally, ...]

    def of(self, video_id: str, start: float, end: float) -> list[str]:
        """The groups of an utterance, in the order of `names`; exactly `within` is near."""
        first, last = start - self.within - TOLERANCE, end + self.within + TOLERANCE
        spans = self.spans.get(video_id, ())
        found = {s.group for s in spans if s.start <= last and s.end >= first}
        return [name for name in self.names if name in found]


def holoassist(
    videos: Mapping[str, str], task_types: Mapping[str, str], annotations: str | Path | None
) -> Grouping:
    """Table 4: the five groups of a video's task.

    Args:
        videos: video_id as scored -> id of its whole video.
        task_types: by video_id, where the timelines tell them (`meta["task_type"]`).
        annotations: the corpus' annotation file, for videos whose timelines do not; or None.

    Raises:
        UserError: no task type for any of the videos, or a file that is no list.
    """
    read, tally, spans = Tally("record"), Tally("video"), dict[str, list[Span]]()
    by_name = {} if annotations is None else _task_types(annotations, videos, read)
    for video_id in sorted(videos):
        task = task_types.get(video_id) or by_name.get(_name(videos[video_id]), "")
        group = TASK_GROUPS.get(" ".join(task.casefold().split()))
        if group is None:
            tally.drop(NO_GROUP if task else NO_TASK, f"{video_id}: {task}" if task else video_id)
            continue
        tally.keep()
        spans[video_id] = [whole(group)]
    if not spans:
        problem = f"no task type of the paper's for any of the {len(videos)} video(s)"
        mend = "name HoloAssist's annotation file: --holoassist FILE"
        raise UserError(annotations or "--holoassist", problem, mend)
    names = tuple(dict.fromkeys(TASK_GROUPS.values()))
    tallies = (tally,) if annotations is None else (read, tally)
    return Grouping("holoassist", names, spans, 0.0, tallies)


def _name(source: str) -> str:
    """A video's name from its published id."""
    return source.removesuffix(f"/{PUBLISHED_NAME}")


def _task_types(path: str | Path, videos: Mapping[str, str], tally: Tally) -> dict[str, str]:
    records = read_annotation_file(path)
    if not isinstance(records, list):
        raise UserError(path, "holds no list of videos", "name HoloAssist's annotation file")
    wanted = {_name(source) for source in videos.values()}
    tasks: dict[str, str] = {}
    for i, record in enumerate(records):
        name = string(record.get("video_name")) if isinstance(record, Mapping) else ""
        task = string(record.get("taskType")) if isinstance(record, Mapping) else ""
        problem = _task_problem(record, name, task, tasks, wanted)
        if problem:
            tally.drop(problem, name or f"[{i}]")
            continue
        tally.keep()
        tasks[name] = task
    return tasks


def _task_problem(
    record: Any, name: str, task: str, tasks: Mapping[str, str], wanted: Collection[str]
) -> str:
    if not isinstance(record, Mapping):
        return NOT_A_VIDEO
    if not name:
        return NO_NAME
    if name not in wanted:
        return NOT_SCORED
    if name in tasks:
        return TWICE
    return "" if task else NO_TASK


def from_csv(path: str | Path, videos: Mapping[str, str], within: float = 0.0) -> Grouping:
    """Any grouping of videos or of stretches of them.

    Args:
        path: columns `video_id,group` or `video_id,start,end,group` (s), in any order; a row
            whose start and end are both blank is for the whole video. Rows of one video may
            name several groups, and stretches may overlap.
        videos: video_id as scored -> id of its whole video; a row may name either.
        within: seconds around an utterance.

    Raises:
        UserError: other columns, no row, a bad row, or no row for any of the videos.
    """
    rows, tally = Tally("row"), Tally("video")
    members: dict[str, list[str]] = {}
    for video_id in sorted(videos):
        for name in {video_id, videos[video_id]}:
            members.setdefault(name, []).append(video_id)
    spans: dict[str, list[Span]] = {}
    seen: set[tuple[str, Span]] = set()
    for where, name, span in _read_csv(path):
        problem = NOT_SCORED if name not in members else SAME_ROW if (name, span) in seen else ""
        if problem:
            rows.drop(problem, where)
            continue
        rows.keep()
        seen.add((name, span))
        for video_id in members[name]:
            spans.setdefault(video_id, []).append(span)
    if not rows.read:
        raise UserError(path, "holds no rows", "give one for each video, or stretch of it")
    if not spans:
        problem = f"none of its {rows.read} row(s) names a video that is scored"
        raise UserError(path, problem, f"use ids such as {min(videos)!r}")
    for video_id in sorted(videos):
        tally.keep() if video_id in spans else tally.drop(NO_ROW, video_id)
    names = sorted({span.group for found in spans.values() for span in found})
    return Grouping("csv", tuple(names), spans, within, (rows, tally))


def _read_csv(path: str | Path) -> Iterator[tuple[str, str, Span]]:
    """Yield (`file:line`, video_id, stretch and group) for each row."""
    rows = csv_rows(path, csv.reader(io.StringIO(read_text(path), newline=""), strict=True))
    line, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    if sorted(names) not in [sorted(columns) for columns in COLUMNS]:
        problem = f"its columns are {','.join(header)!r}"
        mend = " or ".join(",".join(columns) for columns in COLUMNS)
        raise UserError(f"{path}:{line}", problem, f"use {mend}")
    for line, row in rows:
        yield f"{Path(path).name}:{line}", *_read_row(names, row, f"{path}:{line}")


def _read_row(names: Sequence[str], row: Sequence[str], where: str) -> tuple[str, Span]:
    if len(row) != len(names):
        problem = f"{len(row)} cells under {len(names)} columns"
        raise UserError(where, problem, "quote cells that hold commas or newlines")
    cells = {name: cell.strip() for name, cell in zip(names, row, strict=True)}
    for name in COLUMNS[0]:
        if not cells[name]:
            raise UserError(where, f"{name} is empty", "give it a name or leave the row out")
    cells["group"] = " ".join(cells["group"].split())  # one line in the table
    if not cells.get("start") and not cells.get("end"):
        return cells["video_id"], whole(cells["group"])
    start, end = (csv_seconds(name, cells[name], where) for name in ("start", "end"))
    if not 0 <= start <= end < math.inf:
        problem = f"start is {start}, end is {end}"
        raise UserError(where, problem, "use finite seconds, 0 <= start <= end")
    return cells["video_id"], Span(start, end, cells["group"])
