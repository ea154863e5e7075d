"""A slow, obvious interleaving: gap by gap, what is heard and what is emitted.

Input and output are those of `vlm_tsi.sequence.interleave.interleave`, as plain lists of
rows. Invariant: written from the rules alone and sharing no code with the library: a gap is
the time from one frame to the next; whoever may emit (`listener`) is labelled with the next
thing that is emitted before the gap ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NONE = -100


@dataclass
class Row:
    id: int
    time: float
    frame: int = -1
    label: int = NONE
    weight: float = 1.0


def spoken(utterance: Any, encode: Callable[[str], list[int]]) -> list[tuple[int, float]]:
    """Tokens with times: over each word where words are known, else over the utterance."""
    timed: list[tuple[int, float]] = []
    for span in utterance.words or (utterance,):
        ids = encode(span.text)
        for i, token in enumerate(ids):
            time = span.start + (span.end - span.start) * i / len(ids)
            timed.append((token, max([time, *(t for _, t in timed)])))
    return timed


def at_once(utterance: Any, encode: Callable[[str], list[int]]) -> list[tuple[int, float]]:
    """Turn-based: an assistant's words all at their start, a user's all at their end."""
    time = utterance.start if utterance.role == "assistant" else utterance.end
    return [(token, time) for token, _ in spoken(utterance, encode)]


def floor(turns: list[tuple[str, list]], frames: Sequence[float], whole: bool) -> list:
    """One speaker after the other; the assistant opens only with a frame to open on."""
    held: list[tuple[str, list[tuple[int, float]]]] = []
    for role, timed in turns:
        before_role, before = held[-1] if held else ("nobody", [])
        last = before[-1][1] if before else float("-inf")
        start = max(timed[0][1], last)

        def may_open(time: float, last: float = last, by: str = before_role) -> bool:
            seen = [f for f in frames if f <= time]
            fresh = bool(seen) and last < seen[-1]
            own = by == "assistant" and not whole
            return bool(seen) and (fresh or own)

        if role == "assistant":
            later = [f for f in frames if f > start]
            start = next((t for t in [start, *later] if may_open(t)), start)
        held.append((role, [(token, max(time, start)) for token, time in timed]))
    return held


def reference(
    utterances: Sequence[Any],
    frames: Sequence[float],
    tokens: Any,
    encode: Callable[[str], list[int]],
    scheme: Any,
    system: str = "",
) -> list[Row]:
    """The rows of one sequence."""
    whole = scheme.name == "turn_based"
    order = sorted(utterances, key=lambda u: u.start)
    if whole:
        order.sort(key=lambda u: u.start if u.role == "assistant" else u.end)
    turns = floor(
        [(u.role, (at_once if whole else spoken)(u, encode)) for u in order], frames, whole
    )

    gaps: list[list[tuple[int, int]]] = [[] for _ in range(len(frames) + 1)]
    for k, (_, timed) in enumerate(turns):
        for i, (_, time) in enumerate(timed):
            gaps[sum(f <= time for f in frames)].append((k, i))

    def opens(where: list[tuple[int, int]]) -> bool:
        return bool(where) and where[0][1] == 0 and turns[where[0][0]][0] == "assistant"

    rows: list[Row] = []
    speaking = False
    for g, said in enumerate(gaps):
        listener: Row | None = None
        for _ in range(tokens.tokens_per_frame if g else 0):
            listener = Row(tokens.frame_id, frames[g - 1], frame=g - 1)
            rows.append(listener)
        is_silent = not speaking and (not said or turns[said[0][0]][0] == "user")
        if g and is_silent and scheme.silence_weight > 0:
            listener.label, listener.weight = tokens.eos_id, scheme.silence_weight
        for n, (k, i) in enumerate(said):
            role, timed = turns[k]
            token, time = timed[i]
            if i == 0:
                if role == "assistant" and listener is not None:
                    listener.label = tokens.bos_id
                for part in tokens.prefixes[role]:
                    listener = Row(part, time)
                    rows.append(listener)
            if role == "assistant":
                assert listener is not None
                listener.label = token
            listener = Row(token, time)
            rows.append(listener)
            is_last = i == len(timed) - 1
            speaking = role == "assistant" and not is_last
            if role == "user":
                listener = None
            elif is_last:
                cut = n == len(said) - 1 and g + 1 < len(gaps) and opens(gaps[g + 1])
                if whole or not cut:
                    listener.label = tokens.eos_id
            elif n == len(said) - 1 and scheme.bridge_weight > 0:
                listener.label, listener.weight = timed[i + 1][0], scheme.bridge_weight
    if system:
        begin = rows[0].time if rows else 0.0
        # The first frame or token begins the clock; a prefix carries its token's time.
        heard = [Row(t, begin) for t in (*tokens.prefixes["system"], *encode(system))]
        rows = heard + rows
    return rows
