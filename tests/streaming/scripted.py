"""A model whose answers are written down, and what it was fed.

Input: the token it answers with after each run, in order (the last one for ever), or a
function from all that was fed. Output: one-hot logits. Invariant: `fed` lists every position
once, in order: ids as they are, a frame's slots as `FRAME` + its index.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import torch

from vlm_tsi.sequence.tokens import StreamTokens
from vlm_tsi.streaming.engine import StreamEngine, StreamFrame
from vlm_tsi.streaming.events import Event
from vlm_tsi.streaming.policy import Tsi

FRAME = 1000
BOS, EOS, SYSTEM, USER, ASSISTANT = 1, 2, 3, 4, 5
VOCABULARY = 16
TOKENS = StreamTokens(BOS, EOS, 0, {"system": [SYSTEM], "user": [USER], "assistant": [ASSISTANT]})


class ScriptedModel:
    """Fits `StreamModel`."""

    def __init__(self, answer: Sequence[int] | Callable[[list[int]], int], tokens=TOKENS) -> None:
        self.answer, self.tokens = answer, tokens
        self.fed: list[int] = []
        self.runs: list[int] = []
        self.text_config = SimpleNamespace(num_hidden_layers=1)
        self.frame_span = tokens.tokens_per_frame

    def embed_ids(self, ids: torch.Tensor) -> torch.Tensor:
        return ids[:, None].float()

    def embed_frames(self, features_FTV: torch.Tensor) -> torch.Tensor:
        return features_FTV[..., :1].flatten(0, 1) + FRAME

    def advance(self, embeds_LD: torch.Tensor, cache: object, is_frame: object) -> torch.Tensor:
        self.fed += [round(x) for x in embeds_LD[:, 0].tolist()]
        self.runs.append(len(embeds_LD))
        return self.logits(self._next())

    def _next(self) -> int:
        if callable(self.answer):
            return self.answer(self.fed)
        return self.answer[min(len(self.runs), len(self.answer)) - 1]

    def logits(self, token: int) -> torch.Tensor:
        return torch.eye(VOCABULARY)[token] * 10


def frame(idx: int, gap: float = 0.5, slots: int = 1) -> StreamFrame:
    return StreamFrame(idx * gap, idx, torch.full((slots, 1), float(idx)))


def run(answer, frames: int, policy=None, gap: float = 0.5, rate: float = 2.0, **options):
    """(engine, model, events of each frame) after `frames` frames and the end."""
    model = ScriptedModel(answer)
    engine = StreamEngine(
        model, None, policy or Tsi(TOKENS), tokens_per_second=rate, frame_gap=gap, **options
    )
    events: list[list[Event]] = [engine.step(frame(i, gap)) for i in range(frames)]
    events.append(engine.finish(frames * gap))
    engine.settle()
    return engine, model, events
