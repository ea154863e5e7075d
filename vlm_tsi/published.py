"""The published TGLG formats, both ways.

Input: annotation JSON `{video_id: [{role, content, start, end, eval}]}` and prediction CSV
`video_id,start[,end],content`. Output: `Timeline` and `Generated` values, and back.
Invariant: nothing is dropped or guessed silently: a bad record is refused with file, line
or entry, field, value and the mend; an end that is missing is estimated and marked so.

Writing annotations keeps what the published format has room for; words, speakers, meta,
duration and video path stay behind (give the last two again when reading).
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vlm_tsi.errors import UserError
from vlm_tsi.files import read_json, read_jsonl, read_text, write_json, write_text
from vlm_tsi.timeline import (
    Generated,
    Timeline,
    Utterance,
    build,
    generated_from_dict,
    read_timelines,
    utterance_from_dict,
)

WORDS_PER_SECOND = 150 / 60
TOKENS_PER_WORD = 1.3
_COLUMNS = ("video_id", "start", "end", "content")
_ENTRY_FIELDS = ("role", "content", "start", "end", "eval")


def estimated_end(start: float, text: str, num_tokens: int = -1) -> float:
    """When speech that begins at `start` (s) would end at 150 words a minute.

    Tokens are counted at 1.3 a word where they were recorded (Appendix A); else words.
    """
    words = num_tokens / TOKENS_PER_WORD if num_tokens >= 0 else len(text.split())
    return start + words / WORDS_PER_SECOND


def read_annotations(
    path: str | Path,
    durations: Mapping[str, float] | None = None,
    video_paths: Mapping[str, str] | None = None,
) -> list[Timeline]:
    """Read published annotation JSON.

    Args:
        path: the file.
        durations: seconds by video_id; a video that is not in it lasts to its last end.
        video_paths: path by video_id; else empty.

    Raises:
        UserError: not such a file, or a bad entry.
    """
    timelines = []
    for video_id, entries in _read_unique(path).items():
        where = f"{path}: {video_id!r}"
        if not isinstance(entries, list):
            raise UserError(where, f"{str(entries)[:80]!r} is not a list", "use a list of entries")
        system, utterances = _read_entries(entries, where)
        last_end = max((u.end for u in utterances), default=0.0)
        values = {
            "video_id": video_id,
            "video_path": (video_paths or {}).get(video_id, ""),
            "duration": (durations or {}).get(video_id, last_end),
            "utterances": utterances,
            "system": system,
        }
        timelines.append(build(Timeline, values, where))
    return timelines


def _read_unique(path: str | Path) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, count in Counter(name for name, _ in pairs).items():
            if count > 1:
                raise UserError(path, f"{name!r} stands twice in one object", "keep one of them")
        return dict(pairs)

    value = read_json(path, unique)
    if not isinstance(value, dict):
        raise UserError(path, "not a JSON object", "write {video_id: [entries]}")
    return value


def _read_entries(entries: list[Any], where: str) -> tuple[str, tuple[Utterance, ...]]:
    system: str | None = None
    utterances: list[Utterance] = []
    for i, entry in enumerate(entries):
        here = f"{where} entry {i}"
        _check_entry(entry, here)
        if entry["role"] == "system":
            if system is not None:
                raise UserError(here, "a second system entry", "keep one for each video")
            system = _read_system(entry, here)
            continue
        utterance = _read_utterance(entry, here)
        if utterances and utterance.start < utterances[-1].start:
            raise UserError(here, f"start is {utterance.start!r}", "sort utterances by start")
        utterances.append(utterance)
    return system or "", tuple(utterances)


def _check_entry(entry: Any, where: str) -> None:
    if not isinstance(entry, Mapping):
        raise UserError(where, f"{entry!r} is not a JSON object", "write {…}")
    for name in ("role", "content"):
        if name not in entry:
            raise UserError(where, f"{name} is missing", f"add {name}")
    for name in sorted(entry.keys() - set(_ENTRY_FIELDS)):
        raise UserError(where, f"unknown field {name}", "remove it")
    content = entry["content"]
    if not isinstance(content, str) or not content.strip():
        raise UserError(where, f"content is {content!r}", "give it words or leave the entry out")


def _read_system(entry: Mapping[str, Any], where: str) -> str:
    for name in ("start", "end", "eval"):
        if entry.get(name) not in (None, False):
            raise UserError(where, f"{name} is {entry[name]!r} in a system entry", f"remove {name}")
    return str(entry["content"])


def _read_utterance(entry: Mapping[str, Any], where: str) -> Utterance:
    if entry["role"] not in ("user", "assistant"):
        raise UserError(where, f"role is {entry['role']!r}", "use system, user or assistant")
    renamed = {"text" if k == "content" else k: v for k, v in entry.items()}
    return utterance_from_dict(renamed, where)


def annotations_to_dict(timelines: Iterable[Timeline]) -> dict[str, list[dict[str, Any]]]:
    """The published JSON value of some timelines; their ids must differ (ValueError)."""
    published: dict[str, list[dict[str, Any]]] = {}
    for timeline in timelines:
        if timeline.video_id in published:
            raise ValueError(f"video_id {timeline.video_id!r} stands twice")
        entries: list[dict[str, Any]] = []
        if timeline.system:
            entries.append({"role": "system", "content": timeline.system})
        entries += [
            {"role": u.role, "content": u.text, "start": u.start, "end": u.end, "eval": u.eval}
            for u in timeline.utterances
        ]
        published[timeline.video_id] = entries
    return published


def write_annotations(path: str | Path, timelines: Iterable[Timeline]) -> None:
    """Write published annotation JSON whole or not at all."""
    write_json(path, annotations_to_dict(timelines))


def read_prediction_csv(path: str | Path) -> list[Generated]:
    """Read a published prediction CSV; byte order mark, CRLF and quoted newlines are fine.

    An end that is missing (no column, or an empty cell) becomes start + words / 2.5, with
    `end_is_estimated` set; `num_tokens` is -1 (not recorded).

    Raises:
        UserError: unknown or missing columns, or a bad row.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    rows = csv_rows(path, reader)
    line, header = next(rows, (1, []))
    required = {"video_id", "start", "content"}
    names = [name.strip() for name in header]
    if not required <= set(names) <= set(_COLUMNS) or len(set(names)) != len(names):
        problem = f"its columns are {','.join(header)!r}"
        raise UserError(f"{path}:{line}", problem, "use video_id,start[,end],content")
    return [_read_row(names, row, f"{path}:{line}") for line, row in rows]


def csv_rows(path: str | Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield (the line a row begins on, from 1; its cells) for rows that are not blank."""
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as err:
            raise UserError(f"{path}:{line}", f"not CSV ({err})", "check its quotes") from err
        if row:
            yield line, row


def _read_row(names: list[str], row: list[str], where: str) -> Generated:
    if len(row) != len(names):
        problem = f"{len(row)} cells under {len(names)} columns"
        raise UserError(where, problem, "quote cells that hold commas or newlines")
    cells = dict(zip(names, row, strict=True))
    start = csv_seconds("start", cells["start"], where)
    text = cells["content"]
    values = {"video_id": cells["video_id"], "start": start, "text": text}
    if cells.get("end", "").strip():
        values["end"] = csv_seconds("end", cells["end"], where)
    return build(Generated, with_end(values), where)


def csv_seconds(name: str, cell: str, where: str) -> float:
    """A cell's number; `name` and `where` stand in the error."""
    try:
        return float(cell.replace("_", "?"))  # Python's 1_0 is nobody's 10
    except ValueError as err:
        raise UserError(where, f"{name} is {cell!r}", "use seconds, such as 12.5") from err


def with_end(record: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the end of a generated utterance's record where it is missing or null.

    Tokens are used where recorded, else words. A record whose other fields are unusable is
    given back as it is, for the schema to refuse.
    """
    if record.get("end") is not None:
        return dict(record)
    start, text, tokens = record.get("start"), record.get("text"), record.get("num_tokens", -1)
    usable = isinstance(start, int | float) and isinstance(text, str) and isinstance(tokens, int)
    if not usable:
        return dict(record)
    end = estimated_end(start, text, tokens)  # type: ignore[arg-type]
    return {**record, "end": end, "end_is_estimated": True}


def prediction_csv(generated: Iterable[Generated]) -> str:
    """The published CSV text of some generated utterances."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows((g.video_id, repr(g.start), repr(g.end), g.text) for g in generated)
    return out.getvalue()


def write_prediction_csv(path: str | Path, generated: Iterable[Generated]) -> None:
    """Write a prediction CSV whole or not at all."""
    write_text(path, prediction_csv(generated))


def read_references(path: str | Path) -> list[Timeline]:
    """Read timelines by suffix: `.json` is published annotations, else timeline JSONL."""
    return read_annotations(path) if Path(path).suffix == ".json" else read_timelines(path)


def read_predictions(path: str | Path) -> list[Generated]:
    """Read generated utterances by suffix: `.csv` and `.json` are published forms, else JSONL.

    Of an annotation JSON the assistant's utterances are taken as what was said. In JSONL an
    end that is missing is estimated (from tokens where recorded), as in CSV.
    """
    if Path(path).suffix == ".csv":
        return read_prediction_csv(path)
    if Path(path).suffix == ".json":
        said = [(t.video_id, u) for t in read_annotations(path) for u in t.utterances]
        return [Generated(v, u.start, u.end, u.text) for v, u in said if u.role == "assistant"]
    return [generated_from_dict(with_end(r), f"{path}:{n}") for n, r in read_jsonl(path)]
