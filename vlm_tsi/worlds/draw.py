"""Small antialiased stamps to paint scenes from.

Input: a shape in pixels. Output: a `Stamp` that paints a colour through its soft mask.
Invariant: painting changes only the stamp's own window and stays within uint8.
Letters: H, W window height and width in pixels.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlm_tsi.worlds.base import SIZE, Frame_HWC

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Stamp:
    """A soft mask [H, W, 1] in 0..1 at a window of the picture."""

    rows: slice
    cols: slice
    mask_HW1: NDArray[np.float32]

    def paint(self, image: Frame_HWC, colour: Colour) -> None:
        """Blend the colour into the image, in place."""
        window = image[self.rows, self.cols]
        target = np.asarray(colour, dtype=np.float32)
        window += np.rint((target - window) * self.mask_HW1).astype(np.int16).astype(np.uint8)


def _stamp(mask_HW: NDArray[np.float64]) -> Stamp:
    mask = np.clip(mask_HW, 0.0, 1.0).astype(np.float32)
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return Stamp(slice(0, 0), slice(0, 0), np.zeros((0, 0, 1), np.float32))
    y, x = slice(rows[0], rows[-1] + 1), slice(cols[0], cols[-1] + 1)
    return Stamp(y, x, mask[y, x, None])


def _grid() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    axis = np.arange(SIZE, dtype=np.float64)
    return axis[None, :], axis[:, None]


def disc(x: float, y: float, radius: float) -> Stamp:
    """A filled disc."""
    return annulus(x, y, -1.0, radius)


def annulus(x: float, y: float, inner: float, outer: float) -> Stamp:
    """A ring from the inner to the outer radius."""
    xs, ys = _grid()
    distance = np.hypot(xs - x, ys - y)
    soft = np.clip(outer + 0.5 - distance, 0, 1) * np.clip(distance - inner + 0.5, 0, 1)
    return _stamp(soft)


def box(x: float, y: float, half_width: float, half_height: float) -> Stamp:
    """A filled rectangle around its centre."""
    xs, ys = _grid()
    across = np.clip(half_width + 0.5 - np.abs(xs - x), 0, 1)
    return _stamp(across * np.clip(half_height + 0.5 - np.abs(ys - y), 0, 1))


def blank(colour: Colour) -> Frame_HWC:
    """A picture of one colour."""
    return np.full((SIZE, SIZE, 3), colour, dtype=np.uint8)


def line(x0: float, y0: float, x1: float, y1: float, half_width: float) -> Stamp:
    """A thick line with round ends."""
    x_span, y_span = _within(x0, x1, half_width), _within(y0, y1, half_width)
    xs, ys = np.arange(*x_span)[None, :], np.arange(*y_span)[:, None]
    dx, dy = x1 - x0, y1 - y0
    along = np.clip(((xs - x0) * dx + (ys - y0) * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
    distance = np.hypot(xs - x0 - along * dx, ys - y0 - along * dy)
    mask = np.clip(half_width + 0.5 - distance, 0, 1).astype(np.float32)
    return Stamp(slice(*y_span), slice(*x_span), mask[:, :, None])


def _within(a: float, b: float, margin: float) -> tuple[int, int]:
    """Pixels from a to b with a margin, inside the picture."""
    low, high = math.floor(min(a, b) - margin), math.ceil(max(a, b) + margin) + 1
    return min(max(low, 0), SIZE), min(max(high, 0), SIZE)


def union(*stamps: Stamp) -> Stamp:
    """One stamp that covers what any of the stamps covers."""
    mask = np.zeros((SIZE, SIZE), dtype=np.float64)
    for s in stamps:
        np.maximum(mask[s.rows, s.cols], s.mask_HW1[:, :, 0], out=mask[s.rows, s.cols])
    return _stamp(mask)


def moved(stamp: Stamp, dx: int, dy: int) -> Stamp:
    """The stamp shifted by whole pixels, cut at the picture's edges."""
    top, left = stamp.rows.start + dy, stamp.cols.start + dx
    height, width = stamp.mask_HW1.shape[:2]
    rows = slice(max(top, 0), min(top + height, SIZE))
    cols = slice(max(left, 0), min(left + width, SIZE))
    if rows.start >= rows.stop or cols.start >= cols.stop:
        return Stamp(slice(0, 0), slice(0, 0), np.zeros((0, 0, 1), np.float32))
    mask = stamp.mask_HW1[rows.start - top : rows.stop - top, cols.start - left : cols.stop - left]
    return Stamp(rows, cols, mask)
