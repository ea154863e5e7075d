"""One video's timeline as HTML: thumbnails, lanes of bars, lines between matched bars.

Input: a `VideoView`. Output: a `<figure>` without script or outside reference, and a note
if the video could not be read. Invariant: every text is escaped; every utterance stands in
the picture (whole text on hover) and in the transcript below it.
"""

from html import escape

from eval.report_charts import series
from eval.report_data import VideoView, label
from eval.report_layout import (
    Bar,
    Lane,
    clock,
    lanes_of,
    links_of,
    span_of,
    split_colours,
    ticks_of,
)
from eval.report_thumbs import data_uri, thumbnails

PX_PER_SECOND, MAX_WIDTH, MIN_WIDTH = 41.0, 16_000, 560
THUMB_HEIGHT, MAX_THUMBS = 64, 40
AXIS, TITLE, BAR, GAP, MIN_BAR = 22, 20, 56, 4, 8


def timeline_html(view: VideoView) -> tuple[str, str | None]:
    """The figure, and a note where the video could not be read."""
    span = span_of(view) - view.begin
    width = round(min(max(span * PX_PER_SECOND, MIN_WIDTH), MAX_WIDTH))
    pps = width / span
    lanes = lanes_of(view, min_seconds=MIN_BAR / pps)
    tops = _lane_tops(lanes)
    strip, note = _strip(view, pps, width)
    parts = [
        _window(view, pps),
        strip,
        _axis(view.begin, span, pps),
        _links(view, lanes, tops, pps, width),
        *(_lane(view, lane, top, pps) for lane, top in zip(lanes, tops, strict=True)),
    ]
    height = tops[-1] + _lane_height(lanes[-1])
    name = escape(view.title or view.video_id)
    warning = f'<p class="note">No pictures: {escape(note)}</p>' if note else ""
    return (
        f'<figure class="video"><figcaption><h3>{name}</h3>{_summary(view)}</figcaption>{warning}'
        f'<div class="scroll" tabindex="0" role="group" aria-label="Timeline of {name}">'
        f'<div class="time" style="width:{width}px;height:{height}px">{"".join(parts)}</div></div>'
        f"{_transcript(view, lanes)}</figure>"
    ), note


def coloured(text: str) -> str:
    """Escaped text; a colour word is underlined in its colour."""
    return "".join(
        f'<u style="--c:{colour}">{escape(piece)}</u>' if colour else escape(piece)
        for piece, colour in split_colours(text)
    )


def _lane_height(lane: Lane) -> int:
    return TITLE + lane.num_rows * (BAR + GAP) + 10


def _lane_tops(lanes: list[Lane]) -> list[int]:
    tops = [THUMB_HEIGHT + AXIS + 6]
    for lane in lanes[:-1]:
        tops.append(tops[-1] + _lane_height(lane))
    return tops


def _summary(view: VideoView) -> str:
    counts = [f"{clock(view.duration)}", f"{len(view.reference)} reference"]
    for key, said in view.lanes.items():
        hits = f", {len(view.pairs[key])} matched" if key in view.pairs else ""
        counts.append(f"{escape(label(key))} {len(said)}{hits}")
    return f'<p class="quiet">{" · ".join(counts)}</p>'


def _window(view: VideoView, pps: float) -> str:
    if view.window is None:
        return ""
    left, width = (view.window[0] - view.begin) * pps, max(view.window[1] - view.window[0], 0) * pps
    title = f"evaluation window {clock(view.window[0])} to {clock(view.window[1])}"
    return (
        f'<div class="window" style="left:{left:.1f}px;width:{width:.1f}px" title="{title}"></div>'
    )


def _strip(view: VideoView, pps: float, width: int) -> tuple[str, str | None]:
    """The row of thumbnails, or one placeholder as wide as the video."""
    seconds = max(view.duration - view.begin, 0.1)
    count = min(MAX_THUMBS, max(2, round(seconds * pps / (THUMB_HEIGHT * 1.3))))
    stretch = (view.begin, view.duration)
    pictures, note = thumbnails(view.video_path, stretch, count, THUMB_HEIGHT * 2)
    if not pictures:
        note = note or f"{view.video_path}: no frames"
        return f'<div class="no-frames" style="width:{width}px">video not readable</div>', note
    slot = seconds * pps / count - 2
    cells = (
        f'<img alt="frame at {clock(t)}" title="{clock(t, with_tenths=True)}" src="{data_uri(p)}" '
        f'style="left:{(t - view.begin) * pps:.1f}px;width:{slot:.1f}px">'
        for t, p in pictures
    )
    return "".join(cells), None


def _axis(begin: float, span: float, pps: float) -> str:
    ticks = (
        f'<i style="left:{(t - begin) * pps:.1f}px">{clock(t)}</i>'
        for t in ticks_of(begin + span - 30 / pps, 56 / pps)
        if t >= begin
    )
    return f'<div class="axis">{"".join(ticks)}</div>'


def _lane(view: VideoView, lane: Lane, top: int, pps: float) -> str:
    bars = "".join(_bar(bar, view.begin, pps) for bar in lane.bars)
    height = _lane_height(lane)
    return (
        f'<div class="lane {_css(view, lane.key)}" style="top:{top}px;height:{height}px">'
        f'<span class="lane-title">{escape(lane.title)}</span>{bars}</div>'
    )


def _bar(bar: Bar, begin: float, pps: float) -> str:
    width = max((bar.end - bar.start) * pps - 1, MIN_BAR - 1)
    top = TITLE + bar.row * (BAR + GAP)
    note = f" ({bar.note})" if bar.note else ""
    state = " (no match)" if bar.state == "unmatched" else ""
    title = f"{_times(bar)}{state}{note}\n{bar.text}"
    classes = f"bar {bar.state}{' context' if bar.is_context else ''}"
    return (
        f'<div class="{classes}" title="{escape(title)}" '
        f'style="left:{(bar.start - begin) * pps:.1f}px;top:{top}px;width:{width:.1f}px">'
        f"<span>{coloured(bar.text)}</span></div>"
    )


def _times(bar: Bar) -> str:
    return f"{clock(bar.start, with_tenths=True)} – {clock(bar.end, with_tenths=True)}"


def _css(view: VideoView, key: str) -> str:
    """The class that gives a lane its colours."""
    return "k-reference" if key == "reference" else series(list(view.lanes).index(key))


def _links(view: VideoView, lanes: list[Lane], tops: list[int], pps: float, width: int) -> str:
    """Lines from a reference bar's start to the start of the bar it was matched with."""
    index = {lane.key: i for i, lane in enumerate(lanes)}
    lines = []
    for link in links_of(view):
        ends = []
        for key, i in (("reference", link.ref_idx), (link.key, link.gen_idx)):
            bar = lanes[index[key]].bars[i]
            y = tops[index[key]] + TITLE + bar.row * (BAR + GAP)
            ends.append(((bar.start - view.begin) * pps + 5, y))
        (x1, y1), (x2, y2) = sorted(ends, key=lambda end: end[1])
        lines.append(
            f'<path class="{_css(view, link.key)}" d="M{x1:.1f} {y1 + BAR}L{x2:.1f} {y2}"/>'
        )
    height = tops[-1] + _lane_height(lanes[-1])
    return f'<svg class="links" width="{width}" height="{height}">{"".join(lines)}</svg>'


def _transcript(view: VideoView, lanes: list[Lane]) -> str:
    rows = sorted(
        ((bar, lane) for lane in lanes for bar in lane.bars),
        key=lambda row: (row[0].start, row[0].end),
    )
    body = "".join(
        f'<tr class="{_css(view, lane.key)}"><td>{_times(bar)}</td><td>{escape(lane.title)}</td>'
        f"<td>{coloured(bar.text)}{_mark(bar)}</td></tr>"
        for bar, lane in rows
    )
    if not body:
        return '<p class="quiet">Nothing was said.</p>'
    return (
        f"<details><summary>Transcript ({len(rows)} utterances)</summary>"
        f'<div class="scroll"><table class="transcript"><thead><tr><th>Time</th><th>Who</th>'
        f"<th>Text</th></tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _mark(bar: Bar) -> str:
    marks = [bar.note] if bar.note else []
    if bar.state == "unmatched":
        marks.append("no match")
    return f' <span class="quiet">({escape("; ".join(marks))})</span>' if marks else ""
