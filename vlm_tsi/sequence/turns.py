"""Utterances -> turns of timed tokens that hold the floor one after the other.

Input: utterances (seconds), a text-to-ids function, frame times (s). Output: `Turn`s.
Invariant: within a turn and from turn to turn token times never decrease, so that frames
and tokens merge by time alone; no utterance is dropped, whatever it overlaps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vlm_tsi.sequence.tokens import Encode
from vlm_tsi.timeline import Utterance


@dataclass(frozen=True, slots=True)
class Turn:
    """One speaker's tokens. `times[i]` (s) is when token i begins to be said."""

    role: str
    ids: tuple[int, ...]
    times: tuple[float, ...]
    source_idx: int


def timed_tokens(utterance: Utterance, encode: Encode) -> tuple[list[int], list[float]]:
    """Tokens of an utterance with their start times (s).

    Word times are used where the transcript has them, each word's tokens spread over the
    word; else the tokens are spread uniformly over [start, end). Words that overlap follow
    one another.
    """
    spans = [(w.text, w.start, w.end) for w in utterance.words]
    spans = spans or [(utterance.text, utterance.start, utterance.end)]
    ids: list[int] = []
    times: list[float] = []
    for text, start, end in spans:
        word_ids = encode(" " + text.strip())
        ids += word_ids
        times += [start + (end - start) * i / len(word_ids) for i in range(len(word_ids))]
    return ids, np.maximum.accumulate(times).tolist() if times else []


def spoken_turns(utterances: Iterable[Utterance], encode: Encode) -> list[Turn]:
    """Turns in order of start, each as its transcript times it (they may overlap)."""
    indexed = sorted(enumerate(utterances), key=lambda pair: pair[1].start)
    turns = []
    for source_idx, utterance in indexed:
        ids, times = timed_tokens(utterance, encode)
        turns.append(Turn(utterance.role, tuple(ids), tuple(times), source_idx))
    return [t for t in turns if t.ids]


def whole_turns(turns: Sequence[Turn], utterances: Sequence[Utterance]) -> list[Turn]:
    """Turns as a turn-based model takes them: all at once.

    The assistant's stands at its start (the environment pauses while it speaks), another
    speaker's at its end (nobody has heard it earlier).
    """
    moved = []
    for turn in turns:
        spoken = utterances[turn.source_idx]
        at = spoken.start if turn.role == "assistant" else spoken.end
        moved.append(replace(turn, times=(at,) * len(turn.ids)))
    return sorted(moved, key=lambda t: t.times[0])


def take_floor(turns: Sequence[Turn], frame_times_F: np.ndarray, *, whole: bool) -> list[Turn]:
    """Shift overlapping turns so that they follow one another.

    A turn waits for the end of the one before. The assistant opens a turn only after a
    frame: when another speaker (or, for `whole` turns, anybody) has spoken since the last
    frame, or no frame has come yet, it waits for the next frame, if there is one.
    """
    placed: list[Turn] = []
    for turn in turns:
        before = placed[-1] if placed else None
        earliest = before.times[-1] if before else -np.inf
        if turn.role == "assistant":
            earliest = max(earliest, _next_frame(turn, before, frame_times_F, whole))
        times = np.maximum(turn.times, earliest)
        placed.append(replace(turn, times=tuple(times.tolist())))
    return placed


def _next_frame(turn: Turn, before: Turn | None, frame_times_F: np.ndarray, whole: bool) -> float:
    """The time (s) of the frame an assistant's turn must wait for, or -inf."""
    start = max(turn.times[0], before.times[-1]) if before else turn.times[0]
    frame = int(np.searchsorted(frame_times_F, start, side="right")) - 1
    said_since = before is not None and frame >= 0 and before.times[-1] >= frame_times_F[frame]
    own = before is not None and before.role == "assistant" and not whole
    must_wait = frame < 0 or (said_since and not own)
    if must_wait and frame + 1 < len(frame_times_F):
        return float(frame_times_F[frame + 1])
    return -np.inf
