"""Where the bars of a timeline picture stand; shared by the HTML report and the PNG.

Input: a `VideoView`. Output: lanes of bars in seconds with their sub-row, and links
between matched bars. Invariant: two bars of one sub-row never overlap; every utterance of
the view has exactly one bar; nothing here knows of pixels, colours or files.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from eval.report_data import VideoView, label
from vlm_tsi.timeline import Generated, Utterance

COLOURS = {
    "red": "#e5484d",
    "orange": "#f76b15",
    "amber": "#e2a336",
    "yellow": "#d9b400",
    "green": "#30a46c",
    "cyan": "#00a2c7",
    "blue": "#3e7bfa",
    "purple": "#8e4ec6",
    "violet": "#8e4ec6",
    "pink": "#e54fa3",
    "magenta": "#d6409f",
    "brown": "#a5744a",
    "white": "#c8ccd2",
    "grey": "#8b8d98",
    "gray": "#8b8d98",
    "black": "#44464d",
}
"""Colour words and the colour that underlines them (seen on light and on dark)."""

_COLOUR_WORD = re.compile(rf"\b({'|'.join(COLOURS)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Bar:
    """One utterance; `state` is `matched`, `unmatched`, or `plain` where it is not known."""

    start: float
    end: float
    text: str
    row: int
    state: str
    is_context: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One strip of bars; `key` is `reference` or the scheme."""

    key: str
    title: str
    bars: tuple[Bar, ...]
    num_rows: int


@dataclass(frozen=True, slots=True)
class Link:
    """A matched pair: bar `ref_idx` of the reference, bar `gen_idx` of lane `key`."""

    key: str
    ref_idx: int
    gen_idx: int


def split_colours(text: str) -> list[tuple[str, str | None]]:
    """Pieces of a text; a colour word comes with its colour, the rest with None."""
    pieces = _COLOUR_WORD.split(text)
    return [(p, COLOURS.get(p.lower()) if i % 2 else None) for i, p in enumerate(pieces) if p]


def stack_rows(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The first free sub-row for each (start, end); touching spans share a row."""
    free_at: list[float] = []
    rows = [0] * len(spans)
    for i in sorted(range(len(spans)), key=lambda i: spans[i]):
        start, end = spans[i]
        row = next((r for r, t in enumerate(free_at) if t <= start), len(free_at))
        free_at[row:] = [end, *free_at[row + 1 :]]
        rows[i] = row
    return rows


def lanes_of(view: VideoView, min_seconds: float = 0.0) -> list[Lane]:
    """The lanes from top to bottom.

    The reference stands in the middle, so that the lines of two schemes do not cross;
    `min_seconds` is the least length a bar is drawn with.
    """
    generated = [_generated_lane(view, key, min_seconds) for key in view.lanes]
    half = (len(generated) + 1) // 2
    return [*generated[:half], _reference_lane(view, min_seconds), *generated[half:]]


def links_of(view: VideoView) -> list[Link]:
    """Every matched pair whose indices exist."""
    return [
        Link(key, ref, gen)
        for key, pairs in view.pairs.items()
        for ref, gen in pairs
        if 0 <= ref < len(view.reference) and 0 <= gen < len(view.lanes.get(key, ()))
    ]


def ticks_of(duration: float, seconds_wanted: float) -> list[float]:
    """Round times along the axis, at least `seconds_wanted` apart."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
    step = next((s for s in steps if s >= seconds_wanted), math.ceil(seconds_wanted / 3600) * 3600)
    return [float(t) for t in range(0, math.floor(duration) + 1, step)]


def clock(seconds: float, *, with_tenths: bool = False) -> str:
    """`1:05` or `1:05.3`; hours are shown where there are any."""
    tenths = round(seconds * 10)
    minutes, hours = tenths // 600 % 60, tenths // 36000
    text = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    text += f":{tenths // 10 % 60:02d}"
    return f"{text}.{tenths % 10}" if with_tenths else text


def span_of(view: VideoView) -> float:
    """Seconds that the picture covers: the video, and what was said beyond its end."""
    ends = [u.end for u in view.reference]
    ends += [g.end for lane in view.lanes.values() for g in lane]
    return max([view.duration, 1.0, *ends])


def _reference_lane(view: VideoView, min_seconds: float) -> Lane:
    matched = {pair[0] for pairs in view.pairs.values() for pair in pairs}
    rows = _rows(view.reference, min_seconds)
    bars = []
    for i, (u, row) in enumerate(zip(view.reference, rows, strict=True)):
        is_context = u.role == "user" or not (u.eval or _in_window(view, u))
        state = "plain" if is_context or not view.pairs else _state(i in matched)
        note = f"{u.speaker or u.role}, not scored" if is_context else ""
        bars.append(Bar(u.start, u.end, u.text, row, state, is_context, note))
    return Lane("reference", "Reference", tuple(bars), max(rows, default=0) + 1)


def _in_window(view: VideoView, u: Utterance) -> bool:
    """Where nothing is marked `eval`, the assistant's turns in the window are scored."""
    if any(other.eval for other in view.reference):
        return False
    return view.window is None or view.window[0] <= u.start <= view.window[1]


def _generated_lane(view: VideoView, key: str, min_seconds: float) -> Lane:
    said = view.lanes[key]
    matched = {gen for _, gen in view.pairs.get(key, ())}
    rows = _rows(said, min_seconds)
    bars = tuple(
        Bar(
            g.start,
            g.end,
            g.text,
            row,
            _state(i in matched) if key in view.pairs else "plain",
            note="cut off by a new utterance" if g.closed_by == "bos" else "",
        )
        for i, (g, row) in enumerate(zip(said, rows, strict=True))
    )
    return Lane(key, label(key), bars, max(rows, default=0) + 1)


def _rows(said: Sequence[Utterance] | Sequence[Generated], min_seconds: float) -> list[int]:
    return stack_rows([(u.start, max(u.end, u.start + min_seconds)) for u in said])


def _state(is_matched: bool) -> str:
    return "matched" if is_matched else "unmatched"
