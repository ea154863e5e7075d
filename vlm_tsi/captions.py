"""Captions of single frames: what is to be seen, and when.

Input: JSONL, a video a line: {"video_path", "times", "captions"}.
Output: frozen, validated `Captions`. Invariant: as many captions as times; times are finite
seconds >= 0, captions have words; what breaks this is refused with file, line, field, value
and the mend.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from vlm_tsi.errors import UserError
from vlm_tsi.files import read_jsonl
from vlm_tsi.timeline import BadValue, build, check_path, check_text, check_time


@dataclass(frozen=True, slots=True)
class Captions:
    """The captions of one video; `video_path` as written, `times` in seconds."""

    video_path: str
    times: tuple[float, ...]
    captions: tuple[str, ...]

    def __post_init__(self) -> None:
        check_path("video_path", self.video_path)
        for i, time in enumerate(self.times):
            check_time(f"times[{i}]", time)
        for i, caption in enumerate(self.captions):
            check_text(caption, f"captions[{i}]")
        if len(self.times) != len(self.captions):
            told = f"{len(self.times)} for {len(self.captions)} captions"
            raise BadValue("times", told, "give each caption its time (s)")


def read_captions(path: str | Path, limit: int | None = None) -> list[Captions]:
    """Read a file of captions.

    Args:
        path: the file.
        limit: how many records to take (None: all).

    Raises:
        UserError: a record that is not as it must be.
    """
    return [_checked(r, f"{path}:{n}") for n, r in islice(read_jsonl(path), limit)]


def _checked(record: dict[str, Any], where: str) -> Captions:
    for name in Captions.__dataclass_fields__:
        if name not in record:
            raise UserError(where, f"{name} is missing", f"add {name}")
        if name != "video_path" and not isinstance(record[name], list):
            raise UserError(where, f"{name} is {record[name]!r:.80}", "use a list")
    values = {"video_path": record["video_path"]}
    return build(Captions, values | {n: tuple(record[n]) for n in ("times", "captions")}, where)
