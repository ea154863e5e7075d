"""Which positions of an endless stream are kept: sink, recent frames, recent text.

Input: what is fed, unit by unit (a frame's positions, or one token of text). Output: when
there is no more room, the slots to keep and how far each one's position moves.
Invariant: units keep their order; the sink (what was fed before the first frame) stays and
does not move; after `evict` at least `slack` slots are free, and positions are contiguous
from 0, so that none is ever `capacity` or more. No model, no tensors of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from vlm_tsi.errors import UserError

Keep = Literal["recent", "distinct"]


@dataclass(frozen=True, kw_only=True)
class Window:
    """How much is kept.

    Attributes:
        frames: frames at least (the last ones, with `keep="recent"`).
        text: tokens of text at least.
        sink: tokens at the beginning, before the first frame, that never leave; what is
            fed there beyond it is text as any other.
        tokens_per_frame: slots of a frame.
        slack: slots that are filled between two evictions; each moves all that is kept, so
            that a small one saves memory and a large one time.
        keep: `recent` lets the oldest frames leave; `distinct` those among the older half
            that are most like the frame before them, so that memory reaches further back.
    """

    frames: int
    text: int = 256
    sink: int = 256
    tokens_per_frame: int = 1
    slack: int = 512
    keep: Keep = "recent"

    @property
    def capacity(self) -> int:
        """Slots in all."""
        return self.sink + self.frames * self.tokens_per_frame + self.text + self.slack


def widest_window(
    positions: int, tokens_per_frame: int, text: int = 256, sink: int = 256, keep: Keep = "recent"
) -> Window:
    """The window that fits into a model's trained range, an eighth of it slack.

    Raises:
        UserError: not one frame fits.
    """
    slack = max(positions // 8, tokens_per_frame)
    frames = (positions - sink - text - slack) // tokens_per_frame
    if frames < 1:
        problem = f"{text} tokens of text and a sink of {sink} leave no room for a frame"
        raise UserError("window", f"{problem} in {positions} positions", "keep less text")
    return Window(
        frames=frames, text=text, sink=sink, tokens_per_frame=tokens_per_frame, slack=slack,
        keep=keep,
    )  # fmt: skip


@dataclass(slots=True)
class _Unit:
    """A frame, or a token of text; `base` is its first position, `span` how many it takes."""

    is_frame: bool
    slots: int
    base: int
    span: int
    look_D: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """Slots to keep, in order, and by how much the position of each one grows (<= 0)."""

    kept_K: np.ndarray
    shift_K: np.ndarray


@dataclass(slots=True)
class Ledger:
    """What lies in each slot.

    Attributes:
        frame_span: positions that a frame takes (less than its slots where rows and columns
            of a frame share them, as in M-RoPE).
        evicted_frames, evicted_text: how many units have left.
    """

    window: Window
    frame_span: int
    evicted_frames: int = 0
    evicted_text: int = 0
    evictions: int = 0
    length: int = 0
    next_position: int = 0
    _units: list[_Unit] = field(default_factory=list)
    _sink: int = 0
    _has_frame: bool = False

    def fits(self, slots: int) -> bool:
        """Whether so many more slots are free."""
        return self.length + slots <= self.window.capacity

    def add_text(self, tokens: int) -> list[int]:
        """Tokens of text follow; returns their positions."""
        bases = list(range(self.next_position, self.next_position + tokens))
        self._units += [_Unit(False, 1, base, 1) for base in bases]
        if not self._has_frame:
            self._sink = min(self._sink + tokens, self.window.sink)
        self._grow(tokens, tokens)
        return bases

    def add_frame(self, look_D: np.ndarray | None = None) -> int:
        """A frame follows, of unit vector `look_D`; returns its first position."""
        base, slots = self.next_position, self.window.tokens_per_frame
        self._units.append(_Unit(True, slots, base, self.frame_span, look_D))
        self._has_frame = True
        self._grow(slots, self.frame_span)
        return base

    def _grow(self, slots: int, span: int) -> None:
        self.length += slots
        self.next_position += span

    def evict(self) -> Eviction:
        """Let units leave until `slack` slots are free; positions close up."""
        stays = self._who_stays()
        kept: list[int] = []
        shifts: list[int] = []
        slot = position = 0
        units = []
        for unit, is_kept in zip(self._units, stays, strict=True):
            if is_kept:
                kept += range(slot, slot + unit.slots)
                shifts += [position - unit.base] * unit.slots
                unit.base = position
                position += unit.span
                units.append(unit)
            elif unit.is_frame:
                self.evicted_frames += 1
            else:
                self.evicted_text += 1
            slot += unit.slots
        self._units, self.length, self.next_position = units, len(kept), position
        self.evictions += 1
        assert self.fits(self.window.slack)
        return Eviction(np.array(kept, np.int64), np.array(shifts, np.int64))

    def _who_stays(self) -> list[bool]:
        """Frames leave first; text only where there is more than its share."""
        stays = [True] * len(self._units)
        frames = [i for i, u in enumerate(self._units) if u.is_frame]
        text = [i for i, u in enumerate(self._units) if not u.is_frame and i >= self._sink]
        for i in text[: max(0, len(text) - self.window.text)]:
            stays[i] = False
        surplus = max(0, len(frames) - self.window.frames)
        leaving = frames[:surplus] if self.window.keep == "recent" else self._alike(frames, surplus)
        for i in leaving:
            stays[i] = False
        return stays

    def _alike(self, frames: Sequence[int], surplus: int) -> list[int]:
        """Of the older frames, those that show what the kept one before them shows."""
        older = list(frames[: max(surplus, len(frames) - self.window.frames // 2)])
        looks = [self._units[i].look_D for i in older]
        leaving: list[int] = []
        likeness = [_cosine(a, b) for a, b in zip([None, *looks], looks, strict=False)]
        for _ in range(surplus):
            k = int(np.argmax(likeness))
            leaving.append(older.pop(k))
            del looks[k], likeness[k]
            if 0 < k < len(looks):
                likeness[k] = _cosine(looks[k - 1], looks[k])
        return leaving


def _cosine(a_D: np.ndarray | None, b_D: np.ndarray | None) -> float:
    return -2.0 if a_D is None or b_D is None else float(a_D @ b_D)
