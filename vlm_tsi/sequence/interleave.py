"""Timeline + tokenizer + frame times -> one interleaved sequence with its labels.

Input: utterances, frame times (s, increasing), `StreamTokens`, a `Scheme`.
Output: `InterleavedSequence`. Pure: no model, no file.
Invariant (paper Sections 5.1-5.3): positions are ordered by time and no text position
stands before a frame that was already there; `labels[p]` is what is to be predicted after
position p (already shifted, -100 for nothing); only the assistant's own text, BOS and EOS
are ever targets; BOS and EOS are targets, never inputs.

Which position predicts what (scheme `tsi`):
    last slot of a frame -> BOS, if an utterance opens before the next frame;
                            the utterance's next token, if one is said before the next frame;
                            EOS (weight `silence_weight`), if nobody of ours is speaking
    role prefix          -> the first token
    token, token follows -> that token
    token, frame follows -> nothing; `bridge_weight` > 0 lets it predict the next token
    last token           -> EOS; BOS if a new utterance follows at once; nothing if the next
                            frame opens one (BOS supersedes EOS where a speaker breaks off)
Scheme `turn_based` puts the whole utterance behind its trigger frame, and every frame that
triggers nothing predicts EOS (streaming EOS prediction of VideoLLM-Online).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from vlm_tsi.sequence.tokens import Encode, StreamTokens
from vlm_tsi.sequence.turns import Turn, spoken_turns, take_floor, whole_turns
from vlm_tsi.timeline import Utterance

IGNORE = -100
SchemeName = Literal["tsi", "turn_based"]
_Row = tuple[int, int, float, float, int, int]


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How frames and text share a sequence, and what silent frames weigh in the loss."""

    name: SchemeName = "tsi"
    silence_weight: float = 0.0
    bridge_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in get_args(SchemeName):
            raise ValueError(f"scheme is {self.name!r}; use one of {get_args(SchemeName)}")
        if self.silence_weight < 0 or self.bridge_weight < 0:
            raise ValueError("silence_weight and bridge_weight must be >= 0")


@dataclass(frozen=True, slots=True)
class InterleavedSequence:
    """L positions: ids, labels (shifted), label weights, times (s), frame index or -1.

    `target_turn_L` counts turns by start: the assistant's turn that a label opens, says or
    closes; -1 where a label means silence, or there is none.
    """

    ids_L: np.ndarray
    labels_L: np.ndarray
    weights_L: np.ndarray
    times_L: np.ndarray
    frame_idx_L: np.ndarray
    target_turn_L: np.ndarray

    def __len__(self) -> int:
        return len(self.ids_L)


@dataclass(slots=True)
class _Step:
    """One input of the merged order: a frame, or a token with its turn."""

    time: float
    frame_idx: int = -1
    turn_idx: int = -1
    token_idx: int = -1
    id: int = -1
    label: int = IGNORE
    weight: float = 1.0
    target_turn: int = -1


def interleave(
    utterances: Sequence[Utterance],
    frame_times: Sequence[float] | np.ndarray,
    tokens: StreamTokens,
    encode: Encode,
    scheme: Scheme,
    system: str = "",
) -> InterleavedSequence:
    """Build the training sequence of one video (paper Sections 5.1 and 5.2).

    Args:
        utterances: all turns, any order, overlaps allowed.
        frame_times: seconds of each frame, strictly increasing (real PTS).
        tokens: special-token ids; every frame takes `tokens.tokens_per_frame` positions.
        encode: text -> ids.
        scheme: `tsi` or `turn_based`, and the label weights.
        system: system text, placed first and never labelled.
    """
    times_F = np.asarray(frame_times, dtype=np.float64)
    assert (np.diff(times_F) > 0).all(), "frame times must increase"
    turns = place_turns(utterances, times_F, encode, scheme)
    steps = merge(turns, times_F)
    _label(steps, turns, tokens, scheme)
    prefix = [*tokens.prefixes["system"], *encode(" " + system)] if system else []
    return _expand(prefix, steps, turns, tokens)


def place_turns(
    utterances: Sequence[Utterance], times_F: np.ndarray, encode: Encode, scheme: Scheme
) -> list[Turn]:
    """Turns with the times at which the scheme feeds their tokens."""
    turns = spoken_turns(utterances, encode)
    if scheme.name == "turn_based":
        return take_floor(whole_turns(turns, utterances), times_F, whole=True)
    return take_floor(turns, times_F, whole=False)


def merge(turns: Sequence[Turn], times_F: np.ndarray) -> list[_Step]:
    """Frames and tokens in one order; a frame comes before a token of the same time."""
    steps: list[_Step] = []
    frame = 0
    for turn_idx, turn in enumerate(turns):
        for token_idx, (token, time) in enumerate(zip(turn.ids, turn.times, strict=True)):
            while frame < len(times_F) and times_F[frame] <= time:
                steps.append(_Step(float(times_F[frame]), frame_idx=frame))
                frame += 1
            steps.append(_Step(time, turn_idx=turn_idx, token_idx=token_idx, id=token))
    steps += [_Step(float(times_F[f]), frame_idx=f) for f in range(frame, len(times_F))]
    return steps


def _label(steps: list[_Step], turns: Sequence[Turn], tokens: StreamTokens, scheme: Scheme) -> None:
    """Fill in what is emitted after each step and before the next input."""
    speaking = False
    for i, step in enumerate(steps):
        after = steps[i + 1] if i + 1 < len(steps) else None
        if step.frame_idx >= 0:
            _label_frame(step, after, speaking, turns, tokens, scheme)
            continue
        turn = turns[step.turn_idx]
        speaking = turn.role == "assistant" and step.token_idx + 1 < len(turn.ids)
        if turn.role == "assistant":
            _label_token(steps, i, turns, tokens, scheme)


def _label_frame(
    step: _Step,
    after: _Step | None,
    speaking: bool,
    turns: Sequence[Turn],
    tokens: StreamTokens,
    scheme: Scheme,
) -> None:
    if after is not None and after.turn_idx >= 0 and turns[after.turn_idx].role == "assistant":
        step.label = tokens.bos_id if after.token_idx == 0 else after.id
        step.target_turn = after.turn_idx
    elif not speaking and scheme.silence_weight > 0:
        step.label, step.weight = tokens.eos_id, scheme.silence_weight


def _label_token(
    steps: list[_Step], i: int, turns: Sequence[Turn], tokens: StreamTokens, scheme: Scheme
) -> None:
    step, turn = steps[i], turns[steps[i].turn_idx]
    after = steps[i + 1] if i + 1 < len(steps) else None
    step.target_turn = step.turn_idx
    if step.token_idx + 1 < len(turn.ids):
        if after is not None and after.turn_idx == step.turn_idx:
            step.label = after.id
        elif scheme.bridge_weight > 0:
            step.label, step.weight = turn.ids[step.token_idx + 1], scheme.bridge_weight
    elif _opens_turn(after, turns):
        step.label = tokens.bos_id
    elif not (scheme.name == "tsi" and _opens_turn(_second(steps, i), turns)):
        step.label = tokens.eos_id


def _opens_turn(step: _Step | None, turns: Sequence[Turn]) -> bool:
    is_first = step is not None and step.turn_idx >= 0 and step.token_idx == 0
    return is_first and turns[step.turn_idx].role == "assistant"  # type: ignore[union-attr]


def _second(steps: list[_Step], i: int) -> _Step | None:
    """The step after the frame that follows step i, if a frame does."""
    if i + 2 < len(steps) and steps[i + 1].frame_idx >= 0:
        return steps[i + 2]
    return None


def _expand(
    prefix: Sequence[int], steps: list[_Step], turns: Sequence[Turn], tokens: StreamTokens
) -> InterleavedSequence:
    """Frames to their slots, turns to prefix and tokens; columns to arrays."""
    start = steps[0].time if steps else 0.0
    rows: list[_Row] = [(token, IGNORE, 1.0, start, -1, -1) for token in prefix]
    for step in steps:
        if step.frame_idx >= 0:
            slot = (tokens.frame_id, IGNORE, 1.0, step.time, step.frame_idx, -1)
            rows += [slot] * (tokens.tokens_per_frame - 1)
            last = (step.label, step.weight, step.time, step.frame_idx, step.target_turn)
            rows.append((tokens.frame_id, *last))
            continue
        if step.token_idx == 0:
            rows += _role_prefix(step, turns[step.turn_idx], tokens)
        rows.append((step.id, step.label, step.weight, step.time, -1, step.target_turn))
    columns: list[tuple[float, ...]] = list(zip(*rows, strict=True)) or [()] * 6
    types = (np.int64, np.int64, np.float32, np.float64, np.int64, np.int64)
    return InterleavedSequence(*(np.array(c, dtype=t) for c, t in zip(columns, types, strict=True)))


def _role_prefix(step: _Step, turn: Turn, tokens: StreamTokens) -> list[_Row]:
    """The prefix ids; the last of an assistant's prefix predicts its first token."""
    ids = tokens.prefixes[turn.role]
    rows: list[_Row] = [(token, IGNORE, 1.0, step.time, -1, -1) for token in ids]
    if rows and turn.role == "assistant":
        rows[-1] = (ids[-1], step.id, 1.0, step.time, -1, step.turn_idx)
    return rows
