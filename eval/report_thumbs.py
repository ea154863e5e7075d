"""A few frames of a video, as small pictures.

Input: a video's path and how many are wanted. Output: (time, picture) pairs, and a note
where the video could not be read. Invariant: a bad or missing video never raises; it
gives no pictures and one line that says why.
"""

import base64
import io
import itertools
from pathlib import Path

import numpy as np
from PIL import Image

from vlm_tsi.errors import UserError
from vlm_tsi.video.reader import iter_frames


def thumbnails(
    path: str, stretch: tuple[float, float], count: int, height: int
) -> tuple[list[tuple[float, Image.Image]], str | None]:
    """At most `count` evenly spaced frames of a stretch (s), no higher than `height` px.

    Returns:
        The pictures with their times (s), and a note if the video could not be read.
    """
    if not path:
        return [], "the video's path is not known"
    try:
        seconds = max(stretch[1] - stretch[0], 0.1)
        frames = iter_frames(Path(path), fps=count / seconds, start=stretch[0])
        return [(f.time, _shrink(f.rgb_HWC, height)) for f in itertools.islice(frames, count)], None
    except UserError as err:
        return [], str(err)


def data_uri(picture: Image.Image) -> str:
    """The picture as a JPEG inside a data URI."""
    out = io.BytesIO()
    picture.save(out, format="JPEG", quality=72, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def _shrink(rgb_HWC: np.ndarray, height: int) -> Image.Image:  # noqa: N803
    picture = Image.fromarray(rgb_HWC)
    picture.thumbnail((height * 3, height))
    return picture
