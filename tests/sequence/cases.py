"""Random timelines for sequences: overlaps, users, silence, odd gaps, words or none.

Output: `cases()`, a hypothesis strategy of `Case`. Invariant: every token of every
utterance has an id of its own (from 100 on), so that a lost or doubled one shows.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from vlm_tsi.sequence.interleave import InterleavedSequence, Scheme, interleave
from vlm_tsi.sequence.tokens import StreamTokens
from vlm_tsi.timeline import Utterance, Word

BOS, EOS, FRAME = 1, 2, 3
PREFIXES = {"system": [10], "user": [11], "assistant": [12, 13]}


def encode(text: str) -> list[int]:
    """`w123` is token 123."""
    return [int(word[1:]) for word in text.split()]


def stream(tokens_per_frame: int = 1) -> StreamTokens:
    return StreamTokens(BOS, EOS, FRAME, PREFIXES, tokens_per_frame)


@dataclass(frozen=True)
class Case:
    utterances: list[Utterance]
    frames: list[float]
    tokens: StreamTokens
    scheme: Scheme
    system: str

    def build(self) -> InterleavedSequence:
        return interleave(
            self.utterances, self.frames, self.tokens, encode, self.scheme, self.system
        )


def say(
    first: int, count: int, start: float, end: float, role: str = "assistant", words=()
) -> Utterance:
    """An utterance of `count` tokens, ids from `first` on."""
    text = " ".join(f"w{first + i}" for i in range(count))
    return Utterance(role, text, start, end, words=tuple(words))  # type: ignore[arg-type]


GRID = st.integers(0, 24).map(lambda i: i / 4)
TIMES = GRID | st.floats(0, 6, allow_nan=False).map(lambda t: round(t, 3))


@st.composite
def timed_words(draw: st.DrawFn, first: int, count: int) -> list[Word]:
    """One or two tokens a word, at free (also overlapping) times."""
    texts, at = [], 0
    while at < count:
        size = min(draw(st.integers(1, 2)), count - at)
        texts.append(" ".join(f"w{first + at + i}" for i in range(size)))
        at += size
    spans = sorted(sorted((draw(TIMES), draw(TIMES))) for _ in texts)
    return [Word(text, start, end) for text, (start, end) in zip(texts, spans, strict=True)]


@st.composite
def utterance_lists(draw: st.DrawFn) -> list[Utterance]:
    found = []
    for k in range(draw(st.integers(0, 5))):
        count, role = draw(st.integers(1, 7)), draw(st.sampled_from(["assistant", "user"]))
        start = draw(TIMES)
        end = start + draw(st.sampled_from([0.0, 0.1, 0.6, 2.0, 4.0]))
        first = 100 * (k + 1)
        words = draw(timed_words(first, count)) if draw(st.booleans()) else []
        found.append(say(first, count, start, end, role, words))
    return draw(st.permutations(found))


@st.composite
def cases(draw: st.DrawFn, name: str | None = None) -> Case:
    frames = sorted(draw(st.sets(TIMES, max_size=draw(st.sampled_from([0, 3, 14])))))
    scheme = Scheme(
        name=name or draw(st.sampled_from(["tsi", "turn_based"])),  # type: ignore[arg-type]
        silence_weight=draw(st.sampled_from([0.0, 0.25, 1.0])),
        bridge_weight=draw(st.sampled_from([0.0, 0.5])),
    )
    system = draw(st.sampled_from(["", "w50 w51"]))
    utterances = draw(utterance_lists())
    return Case(utterances, frames, stream(draw(st.integers(1, 3))), scheme, system)


def owner(case: Case) -> dict[int, str]:
    """Token id -> role of who said it."""
    return {i: u.role for u in case.utterances for i in encode(u.text)}


def last_slots(seq: InterleavedSequence) -> np.ndarray:
    """True at the last slot of each frame."""
    after = np.append(seq.frame_idx_L[1:], -2)
    return (seq.frame_idx_L >= 0) & (after != seq.frame_idx_L)
