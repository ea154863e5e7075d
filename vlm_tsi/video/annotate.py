"""Captions burnt into a video.

Input: a video and what was said over it. Output: an mp4 (H.264) with the captions at the
foot of each picture. Invariant: each frame keeps its time, so a variable frame rate stays
as it is; sound is not kept; a picture narrower than 320 px is enlarged to at least that;
the file appears whole or not at all.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vlm_tsi.errors import UserError
from vlm_tsi.files import atomic_path
from vlm_tsi.timeline import Generated, Word
from vlm_tsi.video.reader import Frame, iter_frames

MIN_WIDTH = 320
MIN_SHOWN = 0.5
"""Seconds that a caption stays at least, so that a short one can be seen."""

_TIME_BASE = Fraction(1, 90_000)
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@dataclass(frozen=True, slots=True)
class _Caption:
    start: float
    end: float
    text: str
    words: tuple[Word, ...]

    def at(self, t: float) -> str:
        """What is to be read at time `t`; empty before and after."""
        if not self.start <= t < self.end:
            return ""
        if not self.words:
            return self.text
        return " ".join(w.text for w in self.words if w.start <= t)


def annotate(
    video_path: str | Path,
    generated: Sequence[Generated],
    out_path: str | Path,
    words: Sequence[Sequence[Word]] | None = None,
) -> int:
    """Write `video_path` with captions to `out_path`.

    Args:
        video_path: any video that the reader reads; its sound is left out.
        generated: what was said, in any order; a caption is shown while start <= t < end
            (at least `MIN_SHOWN` seconds), overlapping ones above each other.
        out_path: an .mp4 path; not the video itself.
        words: for each of `generated` its word times (`Recorder.words`); a caption that
            has them appears word by word as it was spoken, else whole.

    Returns:
        The number of frames written.

    Raises:
        UserError: the video cannot be read, has no frame, or the output cannot be written.
    """
    target = Path(out_path)
    if target.suffix.lower() != ".mp4":
        raise UserError(target, "not an .mp4 path", "end the name in .mp4")
    if target.exists() and target.samefile(video_path):
        raise UserError(target, "is the video itself", "name another output")
    captions = _captions(generated, words)
    with atomic_path(target) as temp:
        return _write(temp, iter_frames(Path(video_path), fps=None), captions, video_path)


def _captions(
    generated: Sequence[Generated], words: Sequence[Sequence[Word]] | None
) -> list[_Caption]:
    timed = words if words is not None else [()] * len(generated)
    if len(timed) != len(generated):
        raise ValueError(f"words has {len(timed)} entries, generated {len(generated)}")
    captions = [
        _Caption(g.start, max(g.end, g.start + MIN_SHOWN), " ".join(g.text.split()), tuple(w))
        for g, w in zip(generated, timed, strict=True)
    ]
    return sorted(captions, key=lambda c: (c.start, c.end))


def _write(path: Path, frames: Iterator[Frame], captions: list[_Caption], name: str | Path) -> int:
    first = next(frames, None)
    if first is None:
        raise UserError(name, "no frame in it", "name a video with pictures")
    width, height = output_size(first.rgb_HWC.shape[1], first.rgb_HWC.shape[0])
    count, last_pts = 0, -1
    with _encoder(path, width, height) as encode:
        for frame in _chain(first, frames):
            lines = [text for c in captions if (text := c.at(frame.time))]
            picture = draw_captions(frame.rgb_HWC, (width, height), lines)
            last_pts = max(round(frame.time / _TIME_BASE), last_pts + 1)
            encode(picture, last_pts)
            count += 1
    return count


def _chain(first: Frame, rest: Iterator[Frame]) -> Iterator[Frame]:
    yield first
    yield from rest


def output_size(width: int, height: int) -> tuple[int, int]:
    """Enlarged to at least `MIN_WIDTH` across, both sides even as H.264 asks."""
    scale = max(1.0, MIN_WIDTH / width)
    return (round(width * scale) + 1) // 2 * 2, (round(height * scale) + 1) // 2 * 2


@contextlib.contextmanager
def _encoder(path: Path, width: int, height: int) -> Iterator:
    """Yield encode(picture, pts): H.264 in mp4, each frame at its own pts."""
    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream("libx264", rate=30, options={"crf": "20", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = _TIME_BASE

        def encode(picture: Image.Image, pts: int) -> None:
            frame = av.VideoFrame.from_image(picture)
            frame.pts, frame.time_base = pts, _TIME_BASE
            out.mux(stream.encode(frame))

        yield encode
        out.mux(stream.encode(None))


def draw_captions(
    rgb_HWC: np.ndarray,  # noqa: N803
    size: tuple[int, int],
    captions: Sequence[str],
) -> Image.Image:
    """The picture at `size` with `captions` at its foot, light on a dark band."""
    picture = Image.fromarray(rgb_HWC)
    if picture.size != size:
        is_small = picture.width * 2 <= size[0]
        picture = picture.resize(
            size, Image.Resampling.NEAREST if is_small else Image.Resampling.BICUBIC
        )
    if not captions:
        return picture
    font = caption_font(max(15, round(min(size[0] / 24, size[1] / 10))), " ".join(captions))
    draw = ImageDraw.Draw(picture, "RGBA")
    lines = [line for text in captions for line in wrap(text, font, size[0] * 0.94)]
    step = line_height(font)
    lines = lines[-max(1, int(size[1] * 0.6 / step)) :]
    y = size[1] - step * len(lines) - step // 3
    draw.rectangle((0, y - step // 4, *size), fill=(0, 0, 0, 170))
    for i, line in enumerate(lines):
        x = (size[0] - font.getlength(line)) / 2
        draw.text((x, y + i * step), line, font=font, fill=(255, 255, 255, 255))
    return picture


def caption_font(size: int, text: str = "") -> Font:
    """Pillow's own font; for letters beyond Latin DejaVu Sans, if the machine has it."""
    if any(ord(c) > 0x17F for c in text):
        with contextlib.suppress(OSError):
            return ImageFont.truetype("DejaVuSans.ttf", size)
    return ImageFont.load_default(size)


def line_height(font: Font) -> int:
    """Pixels from one line to the next."""
    box = font.getbbox("Ägjy|")
    return round((box[3] - box[1]) * 1.25) + 1


def wrap(text: str, font: Font, width: float) -> list[str]:
    """Lines no wider than `width` px; a word wider than that is cut."""
    lines, line = [], ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if font.getlength(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *full, line = _cut(word, font, width)
        lines.extend(full)
    return [*lines, line] if line else lines


def _cut(word: str, font: Font, width: float) -> list[str]:
    pieces = [""]
    for letter in word:
        if pieces[-1] and font.getlength(pieces[-1] + letter) > width:
            pieces.append("")
        pieces[-1] += letter
    return pieces
