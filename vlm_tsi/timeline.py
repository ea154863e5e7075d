"""The one schema for time: who said what, from when to when.

Input: JSONL (one timeline or one generated utterance a line) or Python values.
Output: frozen, validated `Timeline`, `Utterance`, `Word` and `Generated` values.
Invariant: times are float seconds of the video's own clock (PTS less the first frame's
PTS), finite, >= 0, start <= end; utterances are sorted by start. What breaks this is
refused with file, line, field, value and the mend.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from vlm_tsi.errors import UserError
from vlm_tsi.files import read_jsonl, write_jsonl

Role = Literal["assistant", "user"]
_T = TypeVar("_T")
ClosedBy = Literal["eos", "bos", "stream_end", "limit"]


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word and its time in seconds."""

    text: str
    start: float
    end: float

    def __post_init__(self) -> None:
        check_text(self.text)
        _check_span(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One turn: role, text, start and end (s); `eval` marks the turns that are scored.

    `words` (if any) hold word times; `meta` holds what a corpus knows beside
    (HoloAssist's `purpose`, a world's `kind`).
    """

    role: Role
    text: str
    start: float
    end: float
    eval: bool = False
    words: tuple[Word, ...] = ()
    speaker: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise BadValue("role", self.role, "use assistant or user")
        check_types(self, eval=bool, meta=Mapping)
        if self.speaker is not None:
            check_types(self, speaker=str)
        check_text(self.text)
        _check_span(self.start, self.end)
        for i in range(1, len(self.words)):
            if self.words[i].start < self.words[i - 1].start:
                raise BadValue(f"words[{i}].start", self.words[i].start, "sort words by start")


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that was said over one video, and (for a datapoint) what is to be scored."""

    video_id: str
    video_path: str
    duration: float
    utterances: tuple[Utterance, ...] = ()
    system: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_id(self.video_id)
        check_types(self, system=str, meta=Mapping)
        check_path("video_path", self.video_path)
        check_time("duration", self.duration)
        starts = [u.start for u in self.utterances]
        for i in range(1, len(starts)):
            if starts[i] < starts[i - 1]:
                raise BadValue(f"utterances[{i}].start", starts[i], "sort utterances by start")


@dataclass(frozen=True, slots=True)
class Generated:
    """One generated utterance: when, what, and how it came to an end.

    `num_tokens` and `trigger_frame_idx` are -1 where a system did not record them.
    """

    video_id: str
    start: float
    end: float
    text: str
    end_is_estimated: bool = False
    num_tokens: int = -1
    trigger_frame_idx: int = -1
    closed_by: ClosedBy = "eos"
    scheme: str = ""

    def __post_init__(self) -> None:
        _check_id(self.video_id)
        check_types(self, text=str, end_is_estimated=bool, scheme=str)
        if self.closed_by not in get_args(ClosedBy):
            raise BadValue(
                "closed_by", self.closed_by, f"use one of {', '.join(get_args(ClosedBy))}"
            )
        for name in ("num_tokens", "trigger_frame_idx"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < -1:
                raise BadValue(name, value, "use a whole number, or -1 for not recorded")
        _check_span(self.start, self.end)


class BadValue(ValueError):
    """A field's bad value; the reader adds file and line."""

    def __init__(self, name: str, value: object, mend: str) -> None:
        self.name, self.value, self.mend = name, value, mend
        super().__init__(f"{name} is {value!r}; {mend}")


_MENDS: dict[type, str] = {
    str: "use a string",
    bool: "use true or false",
    Mapping: "use an object {…}",
}


def check_types(value: object, **types: type) -> None:
    """Each named field is of its type."""
    for name, wanted in types.items():
        if not isinstance(found := getattr(value, name), wanted):
            raise BadValue(name, found, _MENDS[wanted])
        if isinstance(found, str):
            _check_whole(name, found)


def _check_id(video_id: object) -> None:
    if not isinstance(video_id, str) or not video_id.strip():
        raise BadValue("video_id", video_id, "give each video a name, as a string")
    _check_whole("video_id", video_id)


def _check_whole(name: str, text: str) -> None:
    """No half of a surrogate pair, which no UTF-8 file and no tokenizer takes."""
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise BadValue(name, ascii(text), "write whole characters")


def check_path(name: str, value: object) -> None:
    """Raise BadValue unless it is a string that can be a path."""
    if not isinstance(value, str):
        raise BadValue(name, value, "use a string")
    if "\0" in value:
        raise BadValue(name, value, "a path holds no NUL character")


def check_text(text: object, name: str = "text") -> None:
    """Raise BadValue unless it is a string with words."""
    if not isinstance(text, str) or not text.strip():
        raise BadValue(name, text, "give it words or leave the record out")
    _check_whole(name, text)


def check_time(name: str, value: object) -> None:
    """Raise BadValue unless it is a finite number of seconds >= 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]
        raise BadValue(name, value, "use finite seconds >= 0")


def _check_span(start: object, end: object) -> None:
    check_time("start", start)
    check_time("end", end)
    if end < start:  # type: ignore[operator]
        raise BadValue("end", end, f"make it at least start ({start})")


def timeline_to_dict(timeline: Timeline) -> dict[str, Any]:
    """The JSON object of one timeline (contract in docs/architecture.md)."""
    return {
        "video_id": timeline.video_id,
        "video_path": timeline.video_path,
        "duration": timeline.duration,
        "system": timeline.system,
        "utterances": [_utterance_to_dict(u) for u in timeline.utterances],
        "meta": dict(timeline.meta),
    }


def _utterance_to_dict(u: Utterance) -> dict[str, Any]:
    record: dict[str, Any] = {
        "role": u.role, "text": u.text, "start": u.start, "end": u.end, "eval": u.eval
    }  # fmt: skip
    if u.words:
        record["words"] = [{"text": w.text, "start": w.start, "end": w.end} for w in u.words]
    if u.speaker is not None:
        record["speaker"] = u.speaker
    if u.meta:
        record["meta"] = dict(u.meta)
    return record


def timeline_from_dict(record: Mapping[str, Any], where: str = "timeline") -> Timeline:
    """Check and freeze one JSON object; `where` (file:line) stands in the error."""
    _check_keys(record, {"video_id", "video_path", "duration"}, Timeline, where)
    utterances = record.get("utterances", [])
    if not isinstance(utterances, list):
        raise UserError(where, f"utterances is {utterances!r:.80}", "use a list")
    parts = {k: v for k, v in record.items() if k != "utterances"}
    turns = tuple(
        utterance_from_dict(u, f"{where}: utterances[{i}]") for i, u in enumerate(utterances)
    )
    return build(Timeline, {**parts, "utterances": turns}, where)


def utterance_from_dict(record: Any, where: str = "utterance") -> Utterance:
    """Check and freeze one utterance's JSON object; `where` stands in the error."""
    _check_keys(record, {"role", "text", "start", "end"}, Utterance, where)
    words = record.get("words")
    words = [] if words is None else words
    if not isinstance(words, list):
        raise UserError(where, f"words is {words!r:.80}", "use a list")
    for i, word in enumerate(words):
        _check_keys(word, {"text", "start", "end"}, Word, f"{where}.words[{i}]")
    frozen = tuple(build(Word, w, f"{where}.words[{i}]") for i, w in enumerate(words))
    return build(Utterance, {**record, "words": frozen}, where)


def _check_keys(record: Any, required: set[str], cls: type[Any], where: str) -> None:
    if not isinstance(record, Mapping):
        raise UserError(where, f"{record!r:.80} is not a JSON object", "write {…}")
    for name in sorted(required - record.keys()):
        raise UserError(where, f"{name} is missing", f"add {name}")
    for name in sorted(record.keys() - set(cls.__dataclass_fields__)):
        raise UserError(where, f"unknown field {name}", "remove it or put it under meta")


def build(cls: type[_T], values: Mapping[str, Any], where: str) -> _T:
    """Make one of this module's values; what is bad becomes a UserError with `where`."""
    try:
        return cls(**values)
    except BadValue as err:
        raise UserError(where, f"{err.name} is {err.value!r:.80}", err.mend) from err


def generated_from_dict(record: Mapping[str, Any], where: str = "utterance") -> Generated:
    """Check and freeze one generated utterance's JSON object."""
    _check_keys(record, {"video_id", "start", "end", "text"}, Generated, where)
    return build(Generated, record, where)


def generated_to_dict(g: Generated) -> dict[str, Any]:
    """The JSON object of one generated utterance."""
    return {name: getattr(g, name) for name in Generated.__dataclass_fields__}


def read_timelines(path: str | Path) -> list[Timeline]:
    """Read timeline JSONL; two records with the same video_id are refused."""
    seen: dict[str, int] = {}
    timelines = []
    for number, record in read_jsonl(path):
        timeline = timeline_from_dict(record, f"{path}:{number}")
        if timeline.video_id in seen:
            first = seen[timeline.video_id]
            problem = f"video_id {timeline.video_id!r} stands on line {first} already"
            raise UserError(f"{path}:{number}", problem, "give each record its own video_id")
        seen[timeline.video_id] = number
        timelines.append(timeline)
    return timelines


def write_timelines(path: str | Path, timelines: Iterable[Timeline]) -> int:
    """Write timeline JSONL whole or not at all; returns how many."""
    return write_jsonl(path, (timeline_to_dict(t) for t in timelines))


def read_generated(path: str | Path) -> list[Generated]:
    """Read generated-utterance JSONL."""
    return [generated_from_dict(r, f"{path}:{n}") for n, r in read_jsonl(path)]


def write_generated(path: str | Path, utterances: Iterable[Generated]) -> int:
    """Write generated-utterance JSONL whole or not at all; returns how many."""
    return write_jsonl(path, (generated_to_dict(g) for g in utterances))


def iter_eval(timeline: Timeline) -> Iterator[Utterance]:
    """The utterances of a timeline that are to be scored."""
    return (u for u in timeline.utterances if u.eval)
