"""When to speak and when to stay silent. No model in here, only its logits.

Input: next-token logits [V] after a frame or after a spoken token, and whether the model
is speaking. Output: a `Decision`. Invariant: a policy holds no state but its random
generator; what it decides depends on the logits and on `speaking` alone.

`Tsi` (paper Section 5.3): after a frame, BOS opens an utterance (and closes one that is
under way); without BOS silence goes on, or the sentence does. `TurnBased` (VideoLLM-Online):
after a frame the probability of the silence token is held against a threshold; once open,
an utterance is decoded to its end while the environment waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from vlm_tsi.sequence.tokens import StreamTokens

Pick = Callable[[torch.Tensor], int]


@dataclass(frozen=True, slots=True)
class Decision:
    """`open`: begin an utterance; `token`: say `token_id`; `close`: end it; `wait`: nothing."""

    act: Literal["open", "token", "close", "wait"]
    token_id: int = -1


WAIT, OPEN, CLOSE = Decision("wait"), Decision("open"), Decision("close")


class Policy(Protocol):
    """Decides at frames and, while speaking, after each spoken token."""

    scheme: str
    pauses_world: bool

    def at_frame(self, logits_V: torch.Tensor, speaking: bool) -> Decision:
        """A frame has just been seen."""
        ...

    def at_token(self, logits_V: torch.Tensor) -> Decision:
        """A token (or the role prefix) has just been fed, and there is time for another."""
        ...


def greedy(logits_V: torch.Tensor) -> int:
    """The most likely token."""
    return int(logits_V.argmax())


def sampler(temperature: float, seed: int) -> Pick:
    """Draw from softmax(logits / temperature), reproducibly."""
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}; use a value > 0, or greedy decoding")
    generator = torch.Generator().manual_seed(seed)

    def pick(logits_V: torch.Tensor) -> int:
        below_V = logits_V.double().cpu() - logits_V.max().double().cpu()
        probabilities = (below_V / temperature).float().softmax(-1)  # none of them overflows
        return int(torch.multinomial(probabilities, 1, generator=generator))

    return pick


class Tsi:
    """Time-synchronized interleaving: the world goes on while the model speaks."""

    scheme = "tsi"
    pauses_world = False

    def __init__(self, tokens: StreamTokens, pick: Pick = greedy) -> None:
        self.tokens, self.pick = tokens, pick

    def at_frame(self, logits_V: torch.Tensor, speaking: bool) -> Decision:
        """BOS opens; silent, all else is discarded; speaking, all else is said."""
        decision = self.at_token(logits_V)
        return decision if speaking or decision is OPEN else WAIT

    def at_token(self, logits_V: torch.Tensor) -> Decision:
        """EOS closes, BOS opens the next utterance, all else is said."""
        token = self.pick(logits_V)
        if token == self.tokens.bos_id:
            return OPEN
        return CLOSE if token == self.tokens.eos_id else Decision("token", token)


class TurnBased:
    """Streaming EOS prediction with a threshold (0.725 in the paper, 0.8 on HoloAssist)."""

    scheme = "turn_based"
    pauses_world = True

    def __init__(self, tokens: StreamTokens, threshold: float = 0.725, pick: Pick = greedy) -> None:
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold is {threshold}; use a probability from 0 to 1")
        self.tokens, self.threshold, self.pick = tokens, threshold, pick

    def at_frame(self, logits_V: torch.Tensor, speaking: bool) -> Decision:
        """Speak where silence is less likely than the threshold.

        Below the threshold the silence token is struck out and the rest decides: in this
        vocabulary only BOS opens a turn, so any other winner still means "speak".
        """
        silence = float(logits_V.float().softmax(-1)[self.tokens.eos_id])
        return OPEN if silence < self.threshold else WAIT

    def at_token(self, logits_V: torch.Tensor) -> Decision:
        """Decode to EOS; a BOS inside a turn ends it."""
        token = self.pick(logits_V)
        ends = token in (self.tokens.eos_id, self.tokens.bos_id)
        return CLOSE if ends else Decision("token", token)
