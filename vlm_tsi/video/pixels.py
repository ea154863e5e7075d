"""One decoded frame -> upright RGB pixels.

Input: a decoded frame of any pixel format. Output: uint8 RGB [H,W,3], or [size,size,3].
Invariant: scaled and converted in one pass; turned and mirrored as the frame's display
matrix says; a letterboxed picture keeps its proportions and is centred on black.
"""

from typing import Any

import numpy as np
from av.sidedata.sidedata import Type as SideDataType
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter


def to_rgb(frame: VideoFrame, size: int | None, reformatter: VideoReformatter) -> np.ndarray:
    """One frame, upright, as uint8 RGB [H,W,3]; with `size` letterboxed to [size,size,3]."""
    width, height = frame.width, frame.height
    if size is not None:
        scale = size / max(width, height)
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
    how = "AREA" if width < frame.width else "BILINEAR"
    rgb = reformatter.reformat(
        frame, width, height, "rgb24", interpolation=how, threads=1
    ).to_ndarray()
    upright_HWC = _upright(rgb, display_matrix(frame))
    return np.ascontiguousarray(upright_HWC if size is None else _padded(upright_HWC, size))


def _upright(
    rgb_HWC: np.ndarray,
    matrix: list[int] | None,
) -> np.ndarray:
    """Turn and mirror by a display matrix: x' = a x + c y, y' = b x + d y."""
    if matrix is None:
        return rgb_HWC
    (a, b), (c, d) = matrix[0:2], matrix[3:5]
    if a == 0 and d == 0:
        rgb_HWC, a, d = rgb_HWC.swapaxes(0, 1), c, b
    return rgb_HWC[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]


def display_matrix(frame: VideoFrame) -> list[int] | None:
    """The nine fixed-point numbers that turn the stored picture upright, if there are any."""
    sides: Any = frame.side_data
    side = sides.get(SideDataType.DISPLAYMATRIX)
    return None if side is None else np.frombuffer(bytes(side), np.int32).tolist()


def _padded(rgb_HWC: np.ndarray, size: int) -> np.ndarray:
    """Centred on a black square; the odd pixel goes to the right or below."""
    height, width = rgb_HWC.shape[:2]
    square_HWC = np.zeros((size, size, 3), np.uint8)
    top, left = (size - height) // 2, (size - width) // 2
    square_HWC[top : top + height, left : left + width] = rgb_HWC
    return square_HWC
