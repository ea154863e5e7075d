"""What every simulated world gives: clips with exact timelines, frames and captions.

Input: a seed and a video id. Output: a `Clip` (timeline, RGB frames, captions).
Invariant: the same seed gives the same clip to the last byte; frame k stands for time
k / fps, and what happens at time t is visible in frame k exactly when k / fps >= t.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vlm_tsi.timeline import Timeline

Frame_HWC = NDArray[np.uint8]
FPS = 8.0
SIZE = 128
PLACES = ("top left", "top right", "centre", "bottom left", "bottom right")
CENTRES = ((28, 28), (100, 28), (64, 64), (28, 100), (100, 100))  # x, y in pixels
PLACE_NAMES = frozenset(PLACES)  # whole: "top left" for "top right" is wrong, not half right
COLOURS = {
    "red": (225, 30, 30),
    "green": (25, 190, 45),
    "blue": (35, 75, 230),
    "yellow": (235, 220, 30),
    "purple": (170, 35, 190),
}
LATENCY = (0.52, 0.62)  # s from what is seen to the speaker's reaction; over a 2 fps frame gap


@dataclass(frozen=True)
class Clip:
    """One rendered clip: its timeline, and how to draw and describe it.

    `scene(time)` gives the picture [128, 128, 3] uint8 at a time (s); `caption(time)` gives
    the visible state in words, in a fixed order.
    """

    timeline: Timeline
    scene: Callable[[float], Frame_HWC]
    caption: Callable[[float], str]
    fps: float = FPS

    def frames(self) -> Iterator[Frame_HWC]:
        """Yield the frames at k / fps for all k with k / fps < duration."""
        count = round(self.timeline.duration * self.fps)
        return (self.scene(k / self.fps) for k in range(count))


class World(Protocol):
    """A source of clips; `content_words` maps a slot to the words that may fill it."""

    name: str
    content_words: Mapping[str, frozenset[str]]

    def clip(self, seed: int, video_id: str) -> Clip:
        """The clip of a seed; its video path is `videos/<video_id>.mp4`."""
        ...
