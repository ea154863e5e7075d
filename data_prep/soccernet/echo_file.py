"""One file of the public ASR release, however odd.

Input: `{"segments": {key: [start, end, text]}}`; keys are labels, not numbers.
Output: segments in the file's order (times in s of the half's own clock), oddities counted.
Invariant: the file's order is kept, also where keys stand twice; an entry of another shape is
dropped with a reason; a file of another shape is refused in one line.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_prep.common.annotations import NO_TEXT, NO_TIME, seconds
from data_prep.common.report import Tally
from data_prep.soccernet.halves import need_whole_name
from data_prep.soccernet.transcript import Segment
from vlm_tsi.errors import UserError
from vlm_tsi.files import parse_json, read_text

NO_ENTRY = "is no list of start, end and text"
ODD_KEY = "key is not a plain number"
SAME_KEY = "key stands twice"
SAME_OBJECT = "the object of segments stands twice: both are read"
KEY_BACK = "key is out of order"
_MEND = 'write {"segments": {key: [start, end, text]}}, or leave the file out'
_NUMBER = re.compile(r"0|[1-9][0-9]*")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object whose keys may stand twice."""


def read_echo(path: str | Path, half: str, tally: Tally) -> list[Segment]:
    """Segments of one file; texts may be empty, times reversed.

    Raises:
        UserError: not UTF-8, not JSON, or not such a file.
    """
    need_whole_name(half)
    entries = _entries(path, half, tally)
    _note_keys([key for key, _ in entries], half, tally)
    return list(_segments(entries, half, tally))


def _entries(path: str | Path, half: str, tally: Tally) -> _Pairs:
    """Its (key, value) pairs in the file's order; where `segments` stands twice, of both."""
    text = read_text(path)
    if not text.strip():
        raise UserError(path, "is an empty file", "fetch it again, or leave it out")
    value = parse_json(text, path, hook=_Pairs, mend="fetch it again")
    pairs = value if isinstance(value, _Pairs) else []
    found = [segments for name, segments in pairs if name == "segments"]
    if not found or not all(isinstance(segments, _Pairs) for segments in found):
        raise UserError(path, "has no object of segments", _MEND)
    for _ in found[1:]:
        tally.note(SAME_OBJECT, half)
    return _Pairs(pair for segments in found for pair in segments)


def _note_keys(keys: list[str], half: str, tally: Tally) -> None:
    seen: set[str] = set()
    highest = -1
    for key in keys:
        where = f"{half} key {key!r}"
        if key in seen:
            tally.note(SAME_KEY, where)
        elif not _NUMBER.fullmatch(key):
            tally.note(ODD_KEY, where)
        elif len(key) < 19:
            if int(key) < highest:
                tally.note(KEY_BACK, where)
            highest = max(highest, int(key))
        seen.add(key)


def _segments(entries: _Pairs, half: str, tally: Tally) -> Iterator[Segment]:
    for key, value in entries:
        where = f"{half} key {key!r}"
        if not isinstance(value, list) or isinstance(value, _Pairs) or len(value) != 3:
            tally.drop(NO_ENTRY, where)
            continue
        start, end, text = seconds(value[0]), seconds(value[1]), value[2]
        if start is None or end is None:
            tally.drop(NO_TIME, where)
        elif not isinstance(text, str):
            tally.drop(NO_TEXT, where)
        else:
            yield Segment(start, end, text)
