"""Captions of single frames: what is to be seen, and when.

Input: JSONL, a video a line: {"video_path", "times", "captions"}.
Output: frozen, validated `Captions`. Invariant: as many captions as times; times are finite
seconds >= 0, captions have words; what breaks this is refused with file, line, field, value
and the mend.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlm_tsi.errors import UserError
from vlm_tsi.files import read_jsonl
from vlm_tsi.timeline import Word, build

_TYPES: tuple[tuple[str, type, str], ...] = (
    ("video_path", str, "use a path"),
    ("times", list, "use a list of seconds"),
    ("captions", list, "use a list of sentences"),
)


@dataclass(frozen=True, slots=True)
class Captions:
    """The captions of one video; `video_path` as written, `times` in seconds."""

    video_path: str
    times: tuple[float, ...]
    captions: tuple[str, ...]


def read_captions(path: str | Path, limit: int | None = None) -> list[Captions]:
    """Read a file of captions.

    Args:
        path: the file.
        limit: how many records to take (None: all).

    Raises:
        UserError: a record that is not as it must be.
    """
    return [_checked(r, f"{path}:{n}") for n, r in list(read_jsonl(path))[:limit]]


def _checked(record: dict[str, Any], where: str) -> Captions:
    for name, kind, mend in _TYPES:
        if name not in record:
            raise UserError(where, f"{name} is missing", f"add {name}")
        if not isinstance(record[name], kind):
            raise UserError(where, f"{name} is {record[name]!r:.80}", mend)
    path, times, captions = (record[name] for name, *_ in _TYPES)
    if "\0" in path:
        raise UserError(where, f"video_path is {path!r:.80}", "a path holds no NUL character")
    if len(times) != len(captions):
        problem = f"{len(times)} times for {len(captions)} captions"
        raise UserError(where, problem, "give each caption its time (s)")
    for time, caption in zip(times, captions, strict=True):
        build(Word, {"text": caption, "start": time, "end": time}, where)  # the same rules
    return Captions(path, tuple(times), tuple(captions))
