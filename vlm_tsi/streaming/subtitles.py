"""Utterances as SRT and WebVTT text.

Input: generated utterances of one video, in any order. Output: the subtitle file's text.
Invariant: cues are sorted by start; each shows its utterance's text unchanged but for
white space and control characters; an utterance without text gives no cue. Cues may
overlap. A cue lasts at least 1 ms, as WebVTT demands, so a zero-length utterance is kept.
"""

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from vlm_tsi.timeline import Generated

MAX_LINE = 42
"""Characters on a line, the usual limit of subtitle style guides."""

_JOINER = "\u2060"
_SRT_TAG = re.compile(r"(<|\{)(?=[A-Za-z/\\])")


def to_srt(utterances: Iterable[Generated]) -> str:
    r"""SubRip text.

    SRT has no escape. Where a text looks like a tag (`<i>`, `{\an8}`) or an arrow, an
    invisible word joiner (U+2060) is put in, so that players show it as it was said.
    """
    cues = _cues(utterances, separator=",", escape=_escape_srt)
    return "\n".join(f"{i}\n{times}\n{text}\n" for i, (times, text) in enumerate(cues, start=1))


def to_vtt(utterances: Iterable[Generated]) -> str:
    """WebVTT text; `&`, `<` and `>` are written as entities."""
    cues = _cues(utterances, separator=".", escape=_escape_vtt)
    body = (f"\n{i}\n{times}\n{text}\n" for i, (times, text) in enumerate(cues, start=1))
    return "WEBVTT\n" + "".join(body)


def _cues(
    utterances: Iterable[Generated], separator: str, escape: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    for u in sorted(utterances, key=lambda u: (u.start, u.end)):
        lines = textwrap.wrap(_clean(u.text), MAX_LINE, break_on_hyphens=False)
        if lines:
            start, end = round(u.start * 1000), round(u.end * 1000)
            times = f"{_stamp(start, separator)} --> {_stamp(max(end, start + 1), separator)}"
            yield times, "\n".join(escape(line) for line in lines)


def _stamp(milliseconds: int, separator: str) -> str:
    """`HH:MM:SS` and thousandths; hours take more than two digits where they must."""
    seconds, thousandths = divmod(milliseconds, 1000)
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{hours:02d}:{minutes:02d}:{seconds % 60:02d}{separator}{thousandths:03d}"


def _clean(text: str) -> str:
    """One line: no line breaks, no controls."""
    encodable = " ".join(text.split())
    return "".join(c for c in encodable if unicodedata.category(c) != "Cc")


def _escape_srt(line: str) -> str:
    return _SRT_TAG.sub(rf"\1{_JOINER}", line).replace("-->", f"--{_JOINER}>")


def _escape_vtt(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
