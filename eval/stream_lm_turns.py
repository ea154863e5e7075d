"""One interleaved sequence and a model -> what the model made of each assistant's turn.

Input: an `InterleavedSequence` labelled on silent frames too, the video's features, a model,
the speaking policy. Output: `TurnReading`s, and counts of what is no part of a turn.
Invariant: everything before a position is given (teacher forcing), but for the frames after
an opening that the model missed: those are read as if the turn had not been said.

Shapes: L positions, F frames, S streamed frames of a turn, M text positions, N later frames.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn import functional

from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.scoring.stream_lm import TurnReading
from vlm_tsi.sequence.interleave import IGNORE, InterleavedSequence
from vlm_tsi.sequence.tokens import StreamTokens
from vlm_tsi.streaming.policy import OPEN, Policy

_AT_ONCE = 256
"""Positions whose logits [.., V] are held at once."""
UNOPENED = "frames before a turn that follows another's words: no frame opens it"
TRAILING = "frames after the last turn"


@dataclass(slots=True)
class TurnPositions:
    """Where a turn's labels stand: streamed frames (the last one opens it), then its text."""

    frames: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)


def turn_positions(
    sequence: InterleavedSequence, tokens: StreamTokens
) -> tuple[list[TurnPositions], Counter[str]]:
    """The turns of a sequence in order, and the streamed frames that belong to none.

    A frame that nothing of ours follows is streamed for the next turn, and so is the frame that
    opens it. A frame in mid-sentence predicts a word: text. A turn that is opened behind
    another speaker's words has no streamed frames.
    """
    turns: dict[int, TurnPositions] = {}
    waiting: list[int] = []
    outside: Counter[str] = Counter()
    for at in np.flatnonzero(sequence.labels_L != IGNORE).tolist():
        turn, is_frame = int(sequence.target_turn_L[at]), sequence.frame_idx_L[at] >= 0
        if turn < 0:
            waiting.append(at)
            continue
        if turn not in turns:
            turns[turn] = TurnPositions()
            opens = is_frame and sequence.labels_L[at] == tokens.bos_id
            if opens:
                turns[turn].frames = [*waiting, at]
            elif waiting:
                outside[UNOPENED] += len(waiting)
            waiting = []
            if opens:
                continue
        turns[turn].texts.append(at)
    if waiting:
        outside[TRAILING] += len(waiting)
    return [turns[k] for k in sorted(turns)], outside


class Reader:
    """Reads sequences with one model and policy."""

    def __init__(self, model: VlmTsiModel, policy: Policy) -> None:
        self.model, self.policy = model, policy

    @torch.inference_mode()
    def read(
        self, sequence: InterleavedSequence, features_FTV: torch.Tensor
    ) -> tuple[list[TurnReading], Counter[str]]:
        """Every turn of a sequence; one forward pass, and one for each opening missed."""
        turns, outside = turn_positions(sequence, self.model.tokens)
        hidden_LD = self._hidden(sequence.ids_L, sequence.frame_idx_L >= 0, features_FTV)
        readings = []
        for turn, until in zip(turns, _last_frames(turns, sequence), strict=True):
            opens_S = self._opens(hidden_LD[turn.frames])
            later_N, times_N = np.zeros(0, dtype=bool), np.zeros(0)
            if turn.frames and not opens_S.any():
                later_N, times_N = self._later(sequence, turn, until, features_FTV)
            losses_M, right_M = self._text(hidden_LD[turn.texts], sequence.labels_L[turn.texts])
            times_S = sequence.times_L[turn.frames]
            readings.append(TurnReading(opens_S, times_S, later_N, times_N, losses_M, right_M))
        return readings, outside

    def _hidden(
        self, ids_L: np.ndarray, is_frame_L: np.ndarray, features_FTV: torch.Tensor
    ) -> torch.Tensor:
        device = self.model.device
        ids_BL, mask_BL = (torch.from_numpy(x)[None].to(device) for x in (ids_L, is_frame_L))
        return self.model.hidden_states(ids_BL, mask_BL, features_FTV)[0]

    def _logits(self, hidden_ND: torch.Tensor) -> Iterator[torch.Tensor]:
        head = self.model.get_output_embeddings()
        return (head(some_D).float() for some_D in hidden_ND.split(_AT_ONCE) if len(some_D))

    def _opens(self, hidden_ND: torch.Tensor) -> np.ndarray:
        said = (
            self.policy.at_frame(logits_V, speaking=False) is OPEN
            for logits_NV in self._logits(hidden_ND)
            for logits_V in logits_NV
        )
        return np.fromiter(said, dtype=bool, count=len(hidden_ND))

    def _text(self, hidden_MD: torch.Tensor, labels_M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        targets_M = torch.from_numpy(labels_M).to(hidden_MD.device)
        losses, right = [np.zeros(0)], [np.zeros(0, dtype=bool)]
        pairs = zip(self._logits(hidden_MD), targets_M.split(_AT_ONCE), strict=False)
        for logits_NV, targets_N in pairs:
            loss_N = functional.cross_entropy(logits_NV, targets_N, reduction="none")
            losses.append(loss_N.double().cpu().numpy())
            right.append((logits_NV.argmax(-1) == targets_N).cpu().numpy())
        return np.concatenate(losses), np.concatenate(right)

    def _later(
        self,
        sequence: InterleavedSequence,
        turn: TurnPositions,
        until: int,
        features_FTV: torch.Tensor,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether it would begin at the frames after a missed opening, and their times.

        As many as were streamed before the opening at most, and none past the next turn's
        opening (VideoLLM-Online: both sides alike).
        """
        opening = turn.frames[-1]
        first = int(sequence.frame_idx_L[opening]) + 1
        count = min(until + 1 - first, len(turn.frames) - 1)
        if count < 1:
            return np.zeros(0, dtype=bool), np.zeros(0)
        slots = self.model.tokens.tokens_per_frame
        more = np.full(count * slots, self.model.tokens.frame_id)
        ids_L = np.concatenate([sequence.ids_L[: opening + 1], more])
        is_frame_L = np.concatenate([sequence.frame_idx_L[: opening + 1] >= 0, more == more])
        hidden_LD = self._hidden(ids_L, is_frame_L, features_FTV[: first + count])
        ends = sequence.frame_idx_L[:, None] == np.arange(first, first + count)
        times_N = sequence.times_L[ends.argmax(axis=0)]
        return self._opens(hidden_LD[opening + slots :: slots]), times_N


def _last_frames(turns: list[TurnPositions], sequence: InterleavedSequence) -> list[int]:
    """For each turn the last frame that it may be late by: the next turn's opening, or the end."""
    final = int(sequence.frame_idx_L.max(initial=-1))
    lasts = []
    for following in [*turns[1:], None]:
        if following is None:
            lasts.append(final)
            continue
        at = (following.frames or following.texts)[-1 if following.frames else 0]
        lasts.append(int(sequence.frame_idx_L[: at + 1].max(initial=-1)))
    return lasts
