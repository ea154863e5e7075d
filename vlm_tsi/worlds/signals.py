"""The signals world: lamps come and go, and a speaker calls out each lamp that lights up.

Input: a seed and a video id. Output: a 30 s `Clip`; every utterance is a call (assistant,
scored), `meta` says its kind, its lamp and the lamp that changed it. The system text says
what the speaker names first, so that a call that is broken off can still be judged.
Invariant: what a lamp lit during a call does to it is decided by what can be seen: without
a ring the sentence bends to it (`bent`), with a ring the speaker breaks off and calls it
(`broken`); else the whole sentence is said (`none`). Lamps going off, glimmering sockets
and the grey square deserve no word. Calls never overlap.

A call starts one latency (0.52-0.62 s) after its lamp lights; so does a reaction to a
second lamp.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from random import Random

import numpy as np

from vlm_tsi.timeline import Timeline, Utterance, Word
from vlm_tsi.worlds.base import (
    CENTRES,
    COLOURS,
    LATENCY,
    PLACE_NAMES,
    PLACES,
    Clip,
    Frame_HWC,
)
from vlm_tsi.worlds.draw import Stamp, annulus, blank, disc
from vlm_tsi.worlds.speech import break_off, finish_word, pace, say, text_of

DURATION = 30.0
STYLES = {
    "call out each lamp colour first": (
        "{colour} lamp on at the {place}",
        "there is a {colour} light at the {place}",
        "look {colour} is showing at the {place}",
        "a {colour} lamp lights up at the {place}",
        "here comes {colour} at the {place} now",
    ),
    "call out each lamp place first": (
        "the {place} lamp just turned {colour}",
        "now the {place} lamp is {colour}",
        "at the {place} we have {colour}",
        "look at the {place} it is {colour}",
        "{place} lamp is showing {colour} now",
    ),
}
"""System text -> the sentences of a speaker who was told so."""
TURNS = (
    "and now {colour} at the {place}",
    "now also {colour} {place}",
    "and {colour} as well at the {place}",
    "and {colour} too at the {place}",
)
KINDS = {"none": 0.35, "bent": 0.25, "broken": 0.40}
LONGEST = 9 * 0.424  # s, a sentence of nine words at the slowest pace
RADIUS, RING, BACKGROUND, SOCKET, GLIMMER = 15.0, (17.0, 22.0), 20, (44, 44, 48), (112, 112, 112)
WHITE, SQUARE, SQUARE_SIZE = (235, 235, 235), 95, 12


@dataclass(frozen=True, slots=True)
class Lamp:
    """A lamp lit from `on` to `off` (s); its call would start at `call` (s)."""

    place: int
    colour: str
    ring: bool
    on: float
    off: float
    call: float


@dataclass(frozen=True, slots=True)
class Glimmer:
    """A socket that shines dim grey from `on` to `off` (s)."""

    place: int
    on: float
    off: float


@dataclass(frozen=True, slots=True)
class Drift:
    """Where the grey square is and how bright the background, as slow waves."""

    phases: tuple[float, ...]

    def square(self, time: float) -> tuple[int, int]:
        """Top left corner of the square in pixels."""
        a, b, c, d, _ = self.phases
        x = 58 + 58 * math.sin(a + 0.31 * time + 0.6 * math.sin(c + 0.23 * time))
        y = 58 + 58 * math.sin(b + 0.27 * time + 0.6 * math.sin(d + 0.19 * time))
        return round(x), round(y)

    def light(self, time: float) -> int:
        """What is added to the whole picture's brightness (0-14)."""
        return round(7 + 7 * math.sin(self.phases[4] + 0.4 * time))


class Signals:
    """The world as the catalogue knows it."""

    name = "signals"
    content_words: Mapping[str, frozenset[str]] = {
        "colour": frozenset(COLOURS),
        "place": PLACE_NAMES,
    }

    def clip(self, seed: int, video_id: str) -> Clip:
        """The clip of a seed: 30 s, one datapoint over its whole length."""
        rng = Random(seed)
        script = _Script(rng)
        script.play()
        glimmers = _glimmers(rng, script.lamps)
        scene = _Scene(
            tuple(script.lamps), glimmers, Drift(tuple(rng.uniform(0, 6.28) for _ in range(5)))
        )
        timeline = Timeline(
            video_id,
            f"videos/{video_id}.mp4",
            DURATION,
            tuple(script.calls),
            script.style,
            {"world": self.name, "window": [0.0, DURATION]},
        )
        return Clip(timeline, scene.draw, scene.caption)


class _Script:
    """Writes what happens and what is said, forward in time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.style = rng.choice(list(STYLES))
        self.lamps: list[Lamp] = []
        self.calls: list[Utterance] = []

    def play(self) -> None:
        """Fill the clip: lamp, call, gap or chained call, until no call fits."""
        lamp = self._light(self.rng.uniform(0.4, 2.5), ring=self.rng.random() < 0.3)
        while lamp is not None:
            lamp = self._call(lamp)

    def _light(self, time: float, *, ring: bool) -> Lamp | None:
        """Light a free lamp; None where its call would not fit or no place is free."""
        rng, on = self.rng, round(time, 3)
        call = round(on + rng.uniform(*LATENCY), 3)
        if call + LONGEST >= DURATION or not self._make_room(on):
            return None
        busy = {lamp.place for lamp in self.lamps if lamp.off + 0.6 > on}
        free = [place for place in range(len(PLACES)) if place not in busy]
        if not free:
            return None
        colour = rng.choice(list(COLOURS))
        off = round(on + rng.uniform(3, 7), 3)
        self.lamps.append(Lamp(rng.choice(free), colour, ring, on, off, call))
        return self.lamps[-1]

    def _make_room(self, time: float) -> bool:
        """At most three lit: put the oldest out before `time` (s), after 3 s at least."""
        lit = [i for i, lamp in enumerate(self.lamps) if lamp.off > time]
        if len(lit) < 3:
            return True
        oldest = self.lamps[lit[0]]
        off = round(max(oldest.on + 3.0, time - self.rng.uniform(0.2, 1.0)), 3)
        self.lamps[lit[0]] = replace(oldest, off=min(off, oldest.off))
        return off <= time

    def _call(self, lamp: Lamp) -> Lamp | None:
        """Say a lamp's call, perhaps changed by a second lamp; returns the next call's lamp."""
        words = say(_fill(self.rng.choice(STYLES[self.style]), lamp), lamp.call, pace(self.rng))
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        second = self._second(words, ring=kind == "broken") if kind != "none" else None
        if second is None:
            self._record("none", lamp, words, None)
            return self._after(words[-1].end)
        if kind == "broken":
            self._record(kind, lamp, break_off(words, second.call), second)
            return second
        words = self._turn(words, second)
        self._record(kind, lamp, words, second)
        return self._after(words[-1].end)

    def _second(self, words: tuple[Word, ...], *, ring: bool) -> Lamp | None:
        """A lamp lit during a call, early enough that the reaction comes before its end."""
        start, end = words[0].start, words[-1].end
        latest = min(2.2, end - LATENCY[1] - 0.45 - start)
        return self._light(start + self.rng.uniform(0.8, latest), ring=ring)

    def _turn(self, words: tuple[Word, ...], second: Lamp) -> tuple[Word, ...]:
        """The sentence so far, then its turn to the second lamp."""
        kept = finish_word(words, second.call)
        seconds_per_word = (words[-1].end - words[0].start) / len(words)
        turn = _fill(self.rng.choice(TURNS), second)
        return kept + say(turn, kept[-1].end, seconds_per_word)

    def _after(self, end: float) -> Lamp | None:
        """The next lamp after a silence (s) that follows a call."""
        short = self.rng.random() < 0.6
        gap = self.rng.uniform(0.4, 1.4) if short else self.rng.uniform(2, 6)
        return self._light(end + gap, ring=self.rng.random() < 0.3)

    def _record(self, kind: str, lamp: Lamp, words: tuple[Word, ...], second: Lamp | None) -> None:
        meta: dict[str, object] = {"kind": kind, "event": _event(lamp)}
        if second is not None:
            meta["second"] = _event(second)
        call = Utterance(
            "assistant", text_of(words), words[0].start, words[-1].end, True, words, meta=meta
        )
        self.calls.append(call)


def _fill(template: str, lamp: Lamp) -> str:
    return template.format(colour=lamp.colour, place=PLACES[lamp.place])


def _event(lamp: Lamp) -> dict[str, object]:
    place = PLACES[lamp.place]
    return {"time": lamp.on, "place": place, "colour": lamp.colour, "ring": lamp.ring}


def _glimmers(rng: Random, lamps: list[Lamp]) -> tuple[Glimmer, ...]:
    """A few dim grey glimmers at sockets whose lamp is off."""
    found = []
    for _ in range(rng.randint(2, 5)):
        place, on = rng.randrange(len(PLACES)), round(rng.uniform(0, DURATION - 2), 3)
        off = round(on + rng.uniform(0.6, 1.8), 3)
        if all(lamp.place != place or lamp.off < on or lamp.on > off for lamp in lamps):
            found.append(Glimmer(place, on, off))
    return tuple(found)


@cache
def _stamps() -> tuple[tuple[Stamp, Stamp], ...]:
    """(disc, ring) of each place."""
    return tuple((disc(x, y, RADIUS), annulus(x, y, *RING)) for x, y in CENTRES)


@cache
def _open_ground() -> np.ndarray:
    """Pixels [128, 128] bool where the square may show: not on a socket or its ring."""
    image = blank((0, 0, 0))
    for x, y in CENTRES:
        disc(x, y, RING[1]).paint(image, (255, 255, 255))
    return np.asarray(image[:, :, 0] == 0)


@dataclass(frozen=True)
class _Scene:
    """The state at each time, drawn and described."""

    lamps: tuple[Lamp, ...]
    glimmers: tuple[Glimmer, ...]
    drift: Drift

    def draw(self, time: float) -> Frame_HWC:
        """The picture [128, 128, 3] at a time (s)."""
        lit = tuple((p.place, p.colour, p.ring) for p in self._lit(time))
        dim = tuple(g.place for g in self.glimmers if g.on <= time < g.off)
        image = _sockets(lit, dim) + np.uint8(self.drift.light(time))
        x, y = self.drift.square(time)
        rows = slice(max(y, 0), max(y + SQUARE_SIZE, 0))
        cols = slice(max(x, 0), max(x + SQUARE_SIZE, 0))
        image[rows, cols][_open_ground()[rows, cols]] = SQUARE
        return image

    def caption(self, time: float) -> str:
        """Each place in order with its colour (and ring) or off."""
        state = {p.place: f"{p.colour} ring" if p.ring else p.colour for p in self._lit(time)}
        return " ".join(f"{name} {state.get(i, 'off')}" for i, name in enumerate(PLACES))

    def _lit(self, time: float) -> list[Lamp]:
        return [lamp for lamp in self.lamps if lamp.on <= time < lamp.off]


@cache
def _empty() -> Frame_HWC:
    """The board with all lamps off."""
    image = blank((BACKGROUND, BACKGROUND, BACKGROUND + 4))
    for shape, _ in _stamps():
        shape.paint(image, SOCKET)
    return image


@lru_cache(maxsize=8)
def _sockets(lit: tuple[tuple[int, str, bool], ...], dim: tuple[int, ...]) -> Frame_HWC:
    """The board with these lamps lit; shared by the frames that show them, never changed."""
    image = _empty().copy()
    for place in dim:
        _stamps()[place][0].paint(image, GLIMMER)
    for place, colour, ring in lit:
        _stamps()[place][0].paint(image, COLOURS[colour])
        if ring:
            _stamps()[place][1].paint(image, WHITE)
    return image
