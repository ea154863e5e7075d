"""What the engine says happened. Plain values; times are float seconds of the stream.

Input: nothing; the engine makes them. Output: `Opened`, `Token` and `Closed`.
Invariant: for one utterance_idx the events come as Opened, Token*, Closed, in time order.
"""

from dataclasses import dataclass

from vlm_tsi.timeline import ClosedBy


@dataclass(frozen=True, slots=True)
class Opened:
    """The model began to speak after the frame `frame_idx` that arrived at `time`."""

    time: float
    utterance_idx: int
    frame_idx: int


@dataclass(frozen=True, slots=True)
class Token:
    """One spoken token; `time` is when its speaking starts, `end` when it ends.

    `end` is estimated (from the speech rate) where the policy pauses the world to speak.
    """

    time: float
    end: float
    utterance_idx: int
    token_id: int
    frame_idx: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The utterance is over; `end` is when its last token ends."""

    time: float
    end: float
    utterance_idx: int
    closed_by: ClosedBy
    end_is_estimated: bool


Event = Opened | Token | Closed
