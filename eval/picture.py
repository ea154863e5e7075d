"""One timeline picture as PNG, for pages that cannot show HTML.

Input: a `VideoView`. Output: a PNG: frames along a time axis, lanes of bars with their
text, lines between matched bars. Invariant: drawn at twice 1200 px so that it is sharp;
texts are cut to their bars; the file appears whole or not at all.
"""

from pathlib import Path

from PIL import Image, ImageDraw

from eval.report_data import VideoView
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
from eval.report_thumbs import thumbnails
from vlm_tsi.files import atomic_path
from vlm_tsi.video.annotate import Font, caption_font, line_height, wrap

_SCALE = 2
_WIDTH, _MARGIN, _THUMB, _AXIS = 1200 * _SCALE, 16 * _SCALE, 78 * _SCALE, 24 * _SCALE
_TITLE, _BAR, _GAP, _FONT = 22 * _SCALE, 62 * _SCALE, 4 * _SCALE, 12 * _SCALE
_INK, _QUIET, _PAPER, _WINDOW = "#23262b", "#5d636d", "#ffffff", "#fbf5e2"
_INKS = {
    "reference": ("#59606b", "#e8eaee"),
    "tsi": ("#0b6e99", "#dcf0f8"),
    "turn_based": ("#a35200", "#fdebd7"),
}


def timeline_png(path: str | Path, view: VideoView) -> str | None:
    """Draw one video's timeline, 2400 px wide (sharp at 1200).

    Returns:
        A note if the video could not be read (a placeholder stands in its place).

    Raises:
        UserError: the place cannot be written to.
    """
    pps = (_WIDTH - 2 * _MARGIN) / span_of(view)
    lanes = lanes_of(view, min_seconds=6 * _SCALE / pps)
    tops = [_MARGIN + _THUMB + _AXIS]
    for lane in lanes:
        tops.append(tops[-1] + _TITLE + lane.num_rows * (_BAR + _GAP) + 6 * _SCALE)
    image = Image.new("RGB", (_WIDTH, tops[-1] + _MARGIN // 2), _PAPER)
    draw = ImageDraw.Draw(image)
    _draw_window(draw, view, pps, image.height)
    note = _draw_frames(image, draw, view, pps)
    _draw_axis(draw, view, pps)
    _draw_links(draw, view, lanes, tops, pps)
    for lane, top in zip(lanes, tops, strict=False):
        _draw_lane(draw, lane, top, pps)
    with atomic_path(path) as temp:
        image.save(temp, format="PNG", optimize=True)
    return note


def _x(seconds: float, pps: float) -> float:
    return _MARGIN + seconds * pps


def _draw_window(draw: ImageDraw.ImageDraw, view: VideoView, pps: float, height: int) -> None:
    if view.window is not None:
        left, right = (_x(t, pps) for t in sorted(view.window))
        draw.rectangle((left, _MARGIN + _THUMB, right, height), fill=_WINDOW)


def _draw_frames(
    image: Image.Image, draw: ImageDraw.ImageDraw, view: VideoView, pps: float
) -> str | None:
    right = _x(view.duration, pps)
    count = max(2, round((right - _MARGIN) / (_THUMB * 1.25)))
    pictures, note = thumbnails(view.video_path, (0.0, view.duration), count, _THUMB * 2)
    slot = int((right - _MARGIN) / count) - 3
    for time, picture in pictures:
        image.paste(_fit(picture, slot, _THUMB), (int(_x(time, pps)), _MARGIN))
    if not pictures:
        draw.rectangle((_MARGIN, _MARGIN, right, _MARGIN + _THUMB), fill="#f2f0eb")
        font = caption_font(_FONT)
        draw.text((_MARGIN * 2, _MARGIN * 2), "video not readable", font=font, fill=_QUIET)
        return note or f"{view.video_path}: no frames"
    return None


def _fit(picture: Image.Image, width: int, height: int) -> Image.Image:
    """The whole picture within width x height."""
    scale = min(width / picture.width, height / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.LANCZOS)


def _draw_axis(draw: ImageDraw.ImageDraw, view: VideoView, pps: float) -> None:
    font, top = caption_font(_FONT - 2), _MARGIN + _THUMB
    for t in ticks_of(span_of(view) - 30 * _SCALE / pps, 56 * _SCALE / pps):
        x = _x(t, pps)
        draw.line((x, top, x, top + _AXIS * 0.7), fill=_QUIET, width=_SCALE)
        draw.text((x + 4 * _SCALE, top + 2 * _SCALE), clock(t), font=font, fill=_QUIET)


def _draw_links(
    draw: ImageDraw.ImageDraw, view: VideoView, lanes: list[Lane], tops: list[int], pps: float
) -> None:
    index = {lane.key: i for i, lane in enumerate(lanes)}
    for link in links_of(view):
        ends = []
        for key, i in (("reference", link.ref_idx), (link.key, link.gen_idx)):
            bar = lanes[index[key]].bars[i]
            y = tops[index[key]] + _TITLE + bar.row * (_BAR + _GAP)
            ends.append((_x(bar.start, pps) + 5 * _SCALE, y))
        (x1, y1), (x2, y2) = sorted(ends, key=lambda end: end[1])
        draw.line((x1, y1 + _BAR, x2, y2), fill=_inks(link.key)[0], width=int(1.5 * _SCALE))


def _inks(key: str) -> tuple[str, str]:
    return _INKS.get(key, (_QUIET, "#f2f0eb"))


def _draw_lane(draw: ImageDraw.ImageDraw, lane: Lane, top: int, pps: float) -> None:
    font = caption_font(_FONT, lane.title)
    draw.text((_MARGIN, top + 3 * _SCALE), lane.title, font=font, fill=_inks(lane.key)[0])
    for bar in lane.bars:
        _draw_bar(draw, bar, lane.key, top + _TITLE + bar.row * (_BAR + _GAP), pps)


def _draw_bar(draw: ImageDraw.ImageDraw, bar: Bar, key: str, top: int, pps: float) -> None:
    ink, fill = _inks(key)
    left = _x(bar.start, pps)
    right = max(_x(bar.end, pps) - _SCALE, left + 5 * _SCALE)
    is_hollow = bar.state == "unmatched" or bar.is_context
    draw.rectangle(
        (left, top, right, top + _BAR),
        fill=_PAPER if is_hollow else fill,
        outline=ink if is_hollow else None,
        width=_SCALE,
    )
    draw.rectangle((left, top, left + 3 * _SCALE, top + _BAR), fill=ink)
    font = caption_font(_FONT - 2 * _SCALE + _SCALE // 2, bar.text)
    _draw_text(draw, bar.text, (left + 6 * _SCALE, top + 3 * _SCALE), right, font)


def _draw_text(
    draw: ImageDraw.ImageDraw, text: str, at: tuple[float, float], right: float, font: Font
) -> None:
    """Wrapped into the bar; what does not fit ends in an ellipsis."""
    width, step = right - at[0] - _SCALE, line_height(font)
    if width < font.getlength("mm"):
        return
    room = int((_BAR - 4 * _SCALE) // step)
    lines = wrap(_narrow(text, font, width), font, width)
    if len(lines) > room:
        lines = [*lines[: room - 1], lines[room - 1][:-1].rstrip() + "…"]
    for i, line in enumerate(lines):
        _draw_line(draw, line, (at[0], at[1] + i * step), font, step)


def _narrow(text: str, font: Font, width: float) -> str:
    """Words wider than the bar lose their ends, so that none is broken over two lines."""
    return " ".join(wrap(word, font, width)[0] for word in text.split())


def _draw_line(
    draw: ImageDraw.ImageDraw, line: str, at: tuple[float, float], font: Font, step: int
) -> None:
    x, y = at
    for piece, colour in split_colours(line):
        draw.text((x, y), piece, font=font, fill=_INK)
        end = x + font.getlength(piece)
        if colour:
            base = y + step - 2 * _SCALE
            draw.line((x, base, end, base), fill=colour, width=2 * _SCALE)
        x = end
