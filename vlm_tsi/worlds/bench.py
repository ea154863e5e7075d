"""The bench of the assembly world: parts, tray and hand, drawn and described.

Input: parts with their places, the hand's moves, when each part is carried. Output: the
picture and the caption at any time (s).
Invariant: a part stands at its place until it is carried, moves with the hand, then stays
small in the tray; the hand over a part leaves most of the part in view.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from vlm_tsi.worlds.base import CENTRES, COLOURS, PLACES, Frame_HWC
from vlm_tsi.worlds.draw import Stamp, annulus, blank, box, disc, line, moved, union

Point = tuple[float, float]  # x, y in pixels
REST: Point = (64.0, 110.0)
BELOW_PART = 15  # px from a part's centre down to the hand over it
SLOTS = ((12, 121), (28, 121), (44, 121))
BENCH, EDGE, MARK, TRAY = (66, 70, 78), (58, 62, 70), (80, 84, 92), (120, 124, 130)
SKIN = (238, 178, 138)


@dataclass(frozen=True, slots=True)
class Part:
    """A part and the place it starts from."""

    colour: str
    kind: str
    place: int

    @property
    def name(self) -> str:
        """How it is called: colour and kind."""
        return f"{self.colour} {self.kind}"

    @property
    def reach(self) -> Point:
        """Where the hand is when it is over the part."""
        x, y = CENTRES[self.place]
        return float(x), float(y + BELOW_PART)


@dataclass(frozen=True, slots=True)
class Move:
    """The hand goes to a point between two times (s); `label` says where it then is."""

    start: float
    end: float
    to: Point
    label: str


@dataclass(frozen=True, slots=True)
class Carry:
    """A part moves with the hand from `start` to `end` (s), then lies in the tray."""

    part: Part
    start: float
    end: float


@dataclass
class Bench:
    """The whole scene over time; `moves` and `carries` are in order of time."""

    parts: tuple[Part, ...]
    moves: list[Move] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    wave: float = 0.0

    def hand(self, time: float) -> tuple[Point, str] | None:
        """Where the hand is and what it does; None before it comes into view."""
        begun = [m for m in self.moves if m.start <= time]
        if not begun:
            return None
        move = begun[-1]
        if time >= move.end:
            return move.to, move.label
        before = begun[-2].to
        done = (time - move.start) / (move.end - move.start)
        ease = done * done * (3 - 2 * done)
        x, y = (a + (b - a) * ease for a, b in zip(before, move.to, strict=True))
        return (x, y), "moving"

    def draw(self, time: float) -> Frame_HWC:
        """The picture [128, 128, 3] at a time (s)."""
        image = _board(tuple(self._lying(time)), tuple(self._in_tray(time)))
        image = image + np.uint8(round(5 + 5 * math.sin(self.wave + 0.4 * time)))
        hand = self.hand(time)
        if hand is not None:
            x, y = round(hand[0][0]), round(hand[0][1])
            for carry in self.carries:
                if carry.start <= time < carry.end:
                    _paint_part(image, carry.part.kind, carry.part.colour, (x, y - BELOW_PART))
            _arm(x, y).paint(image, SKIN)
            moved(_palm(), x - 64, y - 64).paint(image, SKIN)
        return image

    def caption(self, time: float) -> str:
        """Each place in order with its part or off, then the hand."""
        at = {p.place: p.name for p in self._lying(time)}
        hand = self.hand(time)
        places = " ".join(f"{name} {at.get(i, 'off')}" for i, name in enumerate(PLACES))
        return f"{places} {'no hand' if hand is None else 'hand ' + hand[1]}"

    def _lying(self, time: float) -> Iterator[Part]:
        gone = {c.part for c in self.carries if c.start <= time}
        return (part for part in self.parts if part not in gone)

    def _in_tray(self, time: float) -> Iterator[Part]:
        return (c.part for c in self.carries if c.end <= time)


@cache
def _shape(kind: str, *, small: bool) -> Stamp:
    """A part's shape around the picture's centre."""
    scale = 0.42 if small else 1.0
    if kind == "cube":
        return box(64, 64, 11 * scale, 11 * scale)
    if kind == "ring":
        return annulus(64, 64, 7 * scale, 14 * scale)
    return box(64, 64, 16 * scale, 5.5 * scale)


def _paint_part(image: Frame_HWC, kind: str, colour: str, at: tuple[int, int]) -> None:
    moved(_shape(kind, small=False), at[0] - 64, at[1] - 64).paint(image, COLOURS[colour])


@cache
def _empty() -> Frame_HWC:
    image = blank(BENCH)
    image[::16] = EDGE
    for x, y in CENTRES:
        disc(x, y, 18).paint(image, MARK)
    box(28, 121, 25, 6).paint(image, TRAY)
    return image


@lru_cache(maxsize=8)
def _board(lying: tuple[Part, ...], tray: tuple[Part, ...]) -> Frame_HWC:
    """The bench without the hand; shared by the frames that show it, never changed."""
    image = _empty().copy()
    for part in lying:
        _paint_part(image, part.kind, part.colour, CENTRES[part.place])
    for part, (x, y) in zip(tray, SLOTS, strict=False):
        moved(_shape(part.kind, small=True), x - 64, y - 64).paint(image, COLOURS[part.colour])
    return image


@cache
def _palm() -> Stamp:
    """A palm with three fingers and a thumb, pointing up, around the picture's centre."""
    fingers = (line(64 + 4.5 * i, 64, 64 + 6 * i, 51 - (i == 0), 1.9) for i in (-1, 0, 1))
    return union(disc(64, 64, 8), line(64, 65, 74, 58, 2.2), *fingers)


@lru_cache(maxsize=512)
def _arm(x: int, y: int) -> Stamp:
    """The arm from the bottom edge to the palm."""
    return line(64 + 0.6 * (x - 64), 140, x, y, 4.5)
