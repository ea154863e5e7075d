"""Published annotation files, as they come: plain or gzipped JSON, with odd values in it.

Input: a path; then single values of what it holds. Output: the JSON value; texts and times
that a timeline accepts. Invariant: a file that cannot be read whole is one line; an odd
value never raises, its oddity is given back by name.
"""

import gzip
import math
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlm_tsi.errors import UserError, os_error
from vlm_tsi.files import parse_json
from vlm_tsi.published import estimated_end

GZIP_MAGIC = b"\x1f\x8b"
NO_TEXT, EMPTY_TEXT = "text is no string", "text is empty"
NO_TIME, BEFORE_ZERO = "time is no finite number", "ends before the video begins"
BROKEN_CHARACTER, TIDIED = "broken character replaced", "white space tidied"
NEGATIVE_START, REVERSED = "start below 0 set to 0", "end before start estimated from its words"


def read_annotation_file(path: str | Path) -> Any:
    """The JSON value of a `.json` or `.json.gz` file (told apart by content).

    Raises:
        UserError: not there, cut short, not UTF-8, or not JSON.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as err:
        raise os_error(path, err) from err
    try:
        text = (gzip.decompress(raw) if raw.startswith(GZIP_MAGIC) else raw).decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as err:
        raise UserError(path, "its gzip data is cut short or broken", "fetch it again") from err
    except UnicodeDecodeError as err:
        raise UserError(path, f"byte {err.start} is not UTF-8", "save it as UTF-8") from err
    return parse_json(text, path, mend="fetch it again")


def string(value: object) -> str:
    """The value if it is a string, on one line and fit for UTF-8, else nothing."""
    return " ".join(_whole(value).split()) if isinstance(value, str) else ""


def text_repairs(value: object) -> tuple[str, ...]:
    """What `string` has to mend in a value, by name."""
    if not isinstance(value, str):
        return ()
    whole = _whole(value)
    found = ((BROKEN_CHARACTER, whole != value), (TIDIED, string(value) != whole))
    return tuple(name for name, is_so in found if is_so)


def _whole(text: str) -> str:
    """Replace halves of surrogate pairs, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def seconds(value: object) -> float | None:
    """The value as finite seconds, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int beyond the floats
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True, slots=True)
class Words:
    """A text that may be said, or why not, and what was mended."""

    text: str
    problem: str = ""
    repairs: tuple[str, ...] = ()


def words(value: object) -> Words:
    """Read a text: on one line, whole characters, not empty."""
    if not isinstance(value, str):
        return Words("", NO_TEXT)
    text = string(value)
    return Words(text, repairs=text_repairs(value)) if text else Words("", EMPTY_TEXT)


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds that a timeline accepts, or why not, and what was mended."""

    start: float
    end: float
    problem: str = ""
    repairs: tuple[str, ...] = ()


def span(start: object, end: object, text: str) -> Span:
    """Read a start and an end (s); an end before its start is estimated from the words."""
    first, last = seconds(start), seconds(end)
    if first is None or last is None:
        return Span(0.0, 0.0, NO_TIME)
    if first < 0 and last < 0:
        return Span(0.0, 0.0, BEFORE_ZERO)
    repairs = []
    if last < first:
        last = estimated_end(first, text)
        repairs.append(REVERSED)
    if first < 0:
        first = 0.0
        repairs.append(NEGATIVE_START)
    return Span(first, last, repairs=tuple(repairs))


def video_path(root: str | None, name: str, out: str | Path) -> str:
    """Where a video lies, as seen from the folder of the timelines.

    Without a root it is the name alone: the user's videos go beside the timelines.
    """
    return name if root is None else os.path.relpath(Path(root) / name, out)
