"""The assembly world: an instructor guides a hand that takes parts to a tray.

Input: a seed and a video id. Output: a `Clip` of about 30 s with dialogue of both roles and
HoloAssist's purposes in `meta["purpose"]`.
Invariant: what the hand does decides what is said: over the wrong part it is corrected,
over the right one confirmed; the instructor reacts one latency (0.52-0.62 s) after what is
seen, or 0.1 s after the user's question. A reaction breaks off what the instructor is still
saying (`meta["kind"]` is `broken`, else `none`); assistant turns never overlap.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from vlm_tsi.timeline import Timeline, Utterance
from vlm_tsi.worlds.base import COLOURS, FPS, LATENCY, PLACE_NAMES, PLACES, Clip
from vlm_tsi.worlds.bench import REST, SLOTS, Bench, Carry, Move, Part
from vlm_tsi.worlds.datapoints import mark_eval
from vlm_tsi.worlds.speech import break_off, pace, say, text_of

KINDS = ("cube", "ring", "bar")
STEPS = 3
TRAVEL = 0.8  # s, the hand's way from one point to another
FIRST = (
    "start with the {right} from the {place} please",
    "first take the {right} at the {place}",
    "first the {right} it is at the {place}",
)
INSTRUCTIONS = (
    "take the {right} from the {place} now please",
    "now pick up the {right} at the {place}",
    "get the {right} from the {place} please",
    "the {right} is next find it at the {place}",
    "now the {right} from the {place}",
    "take the {right} to the tray please",
    "take the {right} at the {place}",
)
CORRECTIONS = (
    "no not the {wrong} take the {right}",
    "wrong part put the {wrong} back and take the {right}",
    "stop that is the {wrong} we need the {right}",
    "no leave the {wrong} the {right} is next",
)
CONFIRMATIONS = (
    "yes that is the {right}",
    "good that is the right part",
    "right the {right} goes in the tray",
    "good you have the {right}",
    "yes bring the {right} to the tray",
)
QUESTIONS = ("this one", "like this", "that one")
CLOSINGS = (
    "well done the build is complete",
    "good that was the last part",
    "all done the build is complete now",
)
START, REPLY = "instructor-start-conversation_", "instructor-reply-to-student_"
WRONG = "correct the wrong action"


class Assembly:
    """The world as the catalogue knows it."""

    name = "assembly"
    content_words: Mapping[str, frozenset[str]] = {
        "colour": frozenset(COLOURS),
        "kind": frozenset(KINDS),
        "place": PLACE_NAMES,
    }

    def clip(self, seed: int, video_id: str) -> Clip:
        """The clip of a seed: three parts taken one after the other."""
        rng = Random(seed)
        colours, places = rng.sample(list(COLOURS), 4), rng.sample(range(len(PLACES)), 4)
        parts = tuple(
            Part(c, rng.choice(KINDS), p) for c, p in zip(colours, places, strict=True)
        )  # fmt: skip
        script = _Script(rng, Bench(parts, wave=rng.uniform(0, 6.28)))
        script.play(parts[:STEPS])
        last = script.turns[-1].end
        timeline = Timeline(
            video_id,
            f"videos/{video_id}.mp4",
            math.ceil((last + 2.0) * FPS) / FPS,
            mark_eval(script.turns),
            "build order " + " then ".join(part.name for part in parts[:STEPS]),
            {"world": self.name},
        )
        return Clip(timeline, script.bench.draw, script.bench.caption)


class _Script:
    """Writes what the hand does and what is said, forward in time."""

    def __init__(self, rng: Random, bench: Bench) -> None:
        self.rng, self.bench = rng, bench
        self.turns: list[Utterance] = []

    def play(self, order: Sequence[Part]) -> None:
        """The hand comes into view; each part is asked for, taken and put away; the end."""
        seen = round(self.rng.uniform(0.8, 2.0), 3)
        self.bench.moves.append(Move(seen, seen, REST, "rest"))
        for step, part in enumerate(order):
            seen = self._step(step, part, seen)
        self._speak(CLOSINGS, seen, seen + self._latency(), START + "closing remarks")

    def _step(self, step: int, part: Part, seen: float) -> float:
        """One part from its instruction to the tray; returns when the hand rests again."""
        leave = self._instruct(step, part, seen)
        if self.rng.random() < 0.5:
            leave = self._mistake(part, leave)
        arrival = self._reach(part, leave)
        question = self._ask(arrival)
        purpose = (
            "confirming past or future action" if question else "confirming the previous action"
        )
        turn = self._answer(CONFIRMATIONS, arrival, question, purpose, right=part.name)
        return self._put_away(step, part, turn)

    def _instruct(self, step: int, part: Part, seen: float) -> float:
        """Ask for a part; returns when the hand leaves, at the colour word's end or later."""
        templates = INSTRUCTIONS if step else FIRST
        purpose = "follow-up instruction" if step else "describing high-level instruction"
        turn = self._speak(
            templates, seen, seen + self._latency(), START + purpose,
            right=part.name, place=PLACES[part.place],
        )  # fmt: skip
        colour_end = next(w.end for w in turn.words if w.text == part.colour)
        return max(turn.start + self.rng.uniform(1.6, 2.6), colour_end)

    def _mistake(self, part: Part, leave: float) -> float:
        """The hand goes to a wrong part and is corrected; returns when it leaves it."""
        gone = {c.part for c in self.bench.carries}
        wrong = self.rng.choice([p for p in self.bench.parts if p not in gone and p != part])
        arrival = self._reach(wrong, leave)
        turn = self._answer(
            CORRECTIONS, arrival, self._ask(arrival), WRONG, right=part.name, wrong=wrong.name
        )
        return turn.start + self.rng.uniform(1.2, 2.2)

    def _reach(self, part: Part, leave: float) -> float:
        """The hand goes to a part; returns when it arrives."""
        self._move(leave, leave + TRAVEL, part.reach, f"on {part.name}")
        return self.bench.moves[-1].end

    def _ask(self, arrival: float) -> Utterance | None:
        """Sometimes the user asks, 0.1 s after the hand's arrival."""
        if self.rng.random() >= 0.3:
            return None
        purpose = "student-start-conversation_ask questions"
        words = say(self.rng.choice(QUESTIONS), arrival + 0.1, pace(self.rng))
        meta = {"kind": "none", "purpose": purpose, "event": arrival}
        text, start, end = text_of(words), words[0].start, words[-1].end
        self.turns.append(Utterance("user", text, start, end, words=words, meta=meta))
        return self.turns[-1]

    def _answer(
        self,
        templates: Sequence[str],
        arrival: float,
        question: Utterance | None,
        purpose: str,
        **names: str,
    ) -> Utterance:
        """React to where the hand has arrived, after the question if there is one."""
        start = arrival + self._latency()
        if question is None:
            return self._speak(templates, arrival, start, START + purpose, **names)
        start = max(start, question.end + 0.1)
        return self._speak(templates, arrival, start, REPLY + purpose, **names)

    def _put_away(self, step: int, part: Part, turn: Utterance) -> float:
        """The hand carries the part to the tray and rests, not before the turn's last words."""
        leave = turn.start + self.rng.uniform(0.8, 1.4)
        leave = max(leave, turn.end + 0.05 - LATENCY[0] - TRAVEL)
        drop = leave + 0.6 * TRAVEL
        x, y = SLOTS[step]
        self._move(leave, drop, (float(x), float(y - 8)), "moving")
        self.bench.carries.append(Carry(part, *self._last_times()))
        self._move(drop, leave + TRAVEL, REST, "rest")
        return self.bench.moves[-1].end

    def _move(self, start: float, end: float, to: tuple[float, float], label: str) -> None:
        self.bench.moves.append(Move(round(start, 3), round(end, 3), to, label))

    def _last_times(self) -> tuple[float, float]:
        return self.bench.moves[-1].start, self.bench.moves[-1].end

    def _latency(self) -> float:
        return self.rng.uniform(*LATENCY)

    def _speak(
        self, templates: Sequence[str], event: float, start: float, purpose: str, **names: str
    ) -> Utterance:
        """The instructor speaks from `start` (s), breaking off what is still being said."""
        self._break_off(start)
        words = say(self.rng.choice(templates).format(**names), start, pace(self.rng))
        meta = {"kind": "none", "purpose": purpose, "event": event}
        text, first, last = text_of(words), words[0].start, words[-1].end
        self.turns.append(Utterance("assistant", text, first, last, words=words, meta=meta))
        return self.turns[-1]

    def _break_off(self, time: float) -> None:
        for i, turn in enumerate(self.turns):
            if turn.role == "assistant" and turn.end > time:
                words = break_off(turn.words, time)
                meta = {**turn.meta, "kind": "broken"}
                self.turns[i] = replace(
                    turn, text=text_of(words), end=words[-1].end, words=words, meta=meta
                )  # fmt: skip
