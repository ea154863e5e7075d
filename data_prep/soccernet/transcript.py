"""What was said over one half of a match: the one form that all SoccerNet steps exchange.

Input: a transcript's JSON, or a hand-labelled file (`{"segments": [{start, end, text, speaker,
is_pbp}]}`). Output: frozen `Transcript` values, and their JSON.
Invariant: types hold and numbers are finite; what is bad is refused with file, segment,
field, value and the mend, or (where the reader asks for it) left out by itself and named.
Segments may still be raw: in any order, end before start, without text. (`build` repairs them;
a `Timeline` no longer allows it.)

A transcript folder holds `<league>/<season>/<match>/{1,2}_224p.json` right under it (any depth
is read); a half is called by that path without its suffix.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from data_prep.common.folders import visible_files
from data_prep.soccernet.halves import need_whole_name
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_json
from vlm_tsi.timeline import Word, build

Status = Literal["ok", "no_speech", "no_audio", "other_language"]
UNUSABLE = "segment has a value that cannot be used"
_HALF_FILE = re.compile(r"[12]_224p\.json")


@dataclass(frozen=True, slots=True)
class Segment:
    """One sentence, or what a recogniser took for one.

    Attributes:
        start, end: seconds of the half's own clock; `end` may lie before `start`.
        text: may be empty.
        words: with their times, where they are known.
        speaker: who said it, where it is known.
        is_pbp: whether it tells the play; None before the filter.
        pbp_score: the filter's probability of it; None where a person decided.
    """

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()
    speaker: str | None = None
    is_pbp: bool | None = None
    pbp_score: float | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that was said over one half.

    Attributes:
        half: `<league>/<season>/<match>/1_224p`.
        status: `ok`, or why there are no segments.
        language: its code (`en`), where it is known.
        language_probability: 0 to 1, where it is known.
        duration: seconds of the half, where they are known.
        segments: in the file's order.
    """

    half: str
    status: Status = "ok"
    language: str | None = None
    language_probability: float | None = None
    duration: float | None = None
    segments: tuple[Segment, ...] = ()


def find_transcripts(root: str | Path) -> list[tuple[str, Path]]:
    """(half, file) of each transcript at any depth below a folder, sorted by half.

    Reports, metrics and files or folders that begin with a dot are passed over. Links to
    folders are followed.

    Raises:
        UserError: no such folder, or no transcript in it.
    """
    top = Path(root)
    if not top.is_dir():
        raise UserError(top, "no such folder", "name a folder of transcripts")
    found = {}
    for path in visible_files(top):
        if _HALF_FILE.fullmatch(path.name):
            found[path.relative_to(top).with_suffix("").as_posix()] = path
    if not found:
        mend = "give a folder with <league>/<season>/<match>/{1,2}_224p.json"
        raise UserError(top, "no transcript in it", mend)
    return sorted(found.items())


def transcript_path(root: str | Path, half: str) -> Path:
    """Where the transcript of a half lies in a folder."""
    return Path(root) / f"{half}.json"


def read_transcript(path: str | Path, half: str, unread: list[str] | None = None) -> Transcript:
    """Read the transcript of one half; its place gives the half's name, not its content.

    Args:
        path: the file.
        half: its name.
        unread: takes a line for each segment that has a value that cannot be used, and is then
            left out. Without it (labels to learn from, where a typing error is better mended)
            such a file is refused.

    Raises:
        UserError: not such a file.
    """
    need_whole_name(half)
    record = read_json(path)
    if not isinstance(record, Mapping) or not isinstance(record.get("segments"), list):
        mend = 'write {"segments": [{"start", "end", "text"}]}'
        raise UserError(path, "no list of segments", mend)
    status = record.get("status", "ok")
    if status not in get_args(Status):
        raise UserError(path, f"status is {status!r}", f"use one of {', '.join(get_args(Status))}")
    return Transcript(
        half,
        status,
        _optional(record, "language", str, str(path)),
        _optional(record, "language_probability", float, str(path)),
        _optional(record, "duration", float, str(path)),
        tuple(_segments(record["segments"], str(path), unread)),
    )


def _segments(records: Sequence[Any], path: str, unread: list[str] | None) -> Iterator[Segment]:
    for i, record in enumerate(records):
        try:
            yield _segment(record, f"{path}: segments[{i}]")
        except UserError as err:
            if unread is None:
                raise
            unread.append(f"{err.thing.removeprefix(f'{path}: ')}: {err.problem}")


def to_dict(transcript: Transcript) -> dict[str, Any]:
    """The JSON object of one transcript."""
    return {
        "half": transcript.half,
        "status": transcript.status,
        "language": transcript.language,
        "language_probability": transcript.language_probability,
        "duration": transcript.duration,
        "segments": [_segment_to_dict(s) for s in transcript.segments],
    }


def _segment_to_dict(segment: Segment) -> dict[str, Any]:
    record: dict[str, Any] = {"start": segment.start, "end": segment.end, "text": segment.text}
    if segment.words:
        record["words"] = [{"text": w.text, "start": w.start, "end": w.end} for w in segment.words]
    for name in ("speaker", "is_pbp", "pbp_score"):
        if getattr(segment, name) is not None:
            record[name] = getattr(segment, name)
    return record


def _segment(record: Any, where: str) -> Segment:
    if not isinstance(record, Mapping):
        raise UserError(where, f"{record!r} is not a JSON object", "write {start, end, text}")
    for name in ("start", "end", "text"):
        if record.get(name) is None:
            raise UserError(where, f"{name} is missing", f"add {name}")
    start, end = (_optional(record, name, float, where) for name in ("start", "end"))
    return Segment(
        start,  # type: ignore[arg-type]
        end,  # type: ignore[arg-type]
        _optional(record, "text", str, where) or "",
        _words(record.get("words"), where),
        _optional(record, "speaker", str, where),
        _optional(record, "is_pbp", bool, where),
        _optional(record, "pbp_score", float, where),
    )


def _words(records: Any, where: str) -> tuple[Word, ...]:
    if records is not None and not isinstance(records, list):
        raise UserError(where, f"words is {records!r}", 'use [{"text", "start", "end"}]')
    return tuple(_word(word, f"{where}.words[{i}]") for i, word in enumerate(records or []))


def _word(record: Any, where: str) -> Word:
    if not isinstance(record, Mapping):
        raise UserError(where, f"{record!r} is not a JSON object", "write {text, start, end}")
    return build(Word, {name: record.get(name) for name in ("text", "start", "end")}, where)


_MENDS = {str: "use a string", float: "use a finite number", bool: "use true or false"}


def _optional(record: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """A field's value, a number as float; None where it is null or absent."""
    value = record.get(name)
    if value is None:
        return None
    if kind is float:
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        if usable and abs(value) < 1e300 and math.isfinite(value):
            return float(value)
    elif isinstance(value, kind):
        return value
    raise UserError(where, f"{name} is {value!r}", _MENDS[kind])
