"""One stream through one model: frames and other speakers in, speech events out.

Input: `step(frame)` with the frame's features and time (s); `hear(...)` for what others
say (or for teacher forcing). Output: `Opened`, `Token`, `Closed` events. No I/O, no clock.
Invariant: every position is fed to the cache exactly once and in order; BOS and EOS never
are; tokens are said at the speech rate, and those that do not fit before the next frame
wait for it (paper Section 5.3).

The positions fed are those of `sequence.interleave`, so that a teacher-forced stream gives
the training forward's logits.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from vlm_tsi.sequence.tokens import StreamTokens
from vlm_tsi.streaming.events import Closed, Event, Opened, Token
from vlm_tsi.streaming.policy import Decision, Policy
from vlm_tsi.timeline import ClosedBy

PREFILL = 512


class StreamModel(Protocol):
    """What the engine asks of a model (VlmTsiModel has it)."""

    @property
    def tokens(self) -> StreamTokens:
        """Special tokens."""
        ...

    def embed_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """[L] -> [L, D]."""
        ...

    def embed_frames(self, features_FTV: torch.Tensor) -> torch.Tensor:
        """[F, T, V] -> [F * T, D]."""
        ...

    def advance(
        self, embeds_LD: torch.Tensor, cache: Any, is_frame: Sequence[bool]
    ) -> torch.Tensor:
        """Feed L positions, some of them a frame's; logits [V] after the last."""
        ...


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """A frame's time (s), index, and vision features [T, D_vision]."""

    time: float
    idx: int
    features_TV: torch.Tensor


@dataclass(slots=True)
class _Speech:
    """The utterance under way: when it opened, how many tokens, until when they last.

    `clock` is the speech time (s) that had passed at the latest frame.
    """

    utterance_idx: int
    opened: float
    clock: float
    spoken: int = 0
    until: float = 0.0


class StreamEngine:
    """Feed frames with `step`; read what the model says from the events it returns.

    Args:
        model: see `StreamModel`.
        cache: an empty cache for it.
        policy: `Tsi` or `TurnBased`.
        tokens_per_second: speech rate.
        frame_gap: expected seconds to the next frame.
        rounding: `accumulate` hands tokens out by accumulated speech time; `ceil` rounds
            up at each frame, as the released code does.
        max_tokens: an utterance that reaches this length is closed with `limit`.
        onset: where between a frame and the next an utterance begins to be said, from 0 (with
            the frame) to 1. Training puts BOS on the last frame before the start, so the
            start lies on average half a gap behind that frame.
        eager_close: look for EOS or BOS also after the last token that fits before the next
            frame; otherwise that waits for the frame, as does the next token.
    """

    def __init__(
        self,
        model: StreamModel,
        cache: Any,
        policy: Policy,
        *,
        tokens_per_second: float,
        frame_gap: float,
        rounding: Literal["accumulate", "ceil"] = "accumulate",
        max_tokens: int = 128,
        eager_close: bool = False,
        onset: float = 0.0,
    ) -> None:
        self.model, self.cache, self.policy = model, cache, policy
        self.rate, self.gap = tokens_per_second, frame_gap
        self.rounding, self.max_tokens = rounding, max_tokens
        self.eager_close, self.onset = eager_close, onset * frame_gap
        self.positions = 0
        self._pending: list[tuple[torch.Tensor, bool]] = []
        self._logits: torch.Tensor | None = None
        self._speech: _Speech | None = None
        self._utterances = 0
        self._until = 0.0
        self._floor: str | None = None
        self._waiting: list[tuple[str, Sequence[int], bool]] = []
        self._last_frame: float | None = None

    @property
    def _rounded_up(self) -> int:
        return math.ceil(self.rate * self.gap - 1e-9)

    @property
    def _token_seconds(self) -> float:
        """How long a token lasts; rounded up, as many share a frame gap as are said in it."""
        if self.rounding == "ceil" and not self.policy.pauses_world:
            return self.gap / self._rounded_up
        return 1 / self.rate

    @property
    def speaking(self) -> bool:
        """Is an utterance under way?"""
        return self._speech is not None

    @torch.inference_mode()
    def feed_ids(self, ids: Sequence[int]) -> None:
        """Append text positions (a system text, a prefix, tokens), to be run when needed."""
        if len(ids):
            device = getattr(self.model, "device", None)
            embeds_LD = self.model.embed_ids(torch.as_tensor(list(ids), device=device))
            self._append(embeds_LD, is_frame=False)

    @torch.inference_mode()
    def watch(self, frame: StreamFrame) -> None:
        """Append a frame without a decision (context)."""
        self._append(self.model.embed_frames(frame.features_TV[None]), is_frame=True)

    def hear(self, role: str, ids: Sequence[int], *, opens: bool) -> None:
        """Another speaker's tokens (or our own, teacher-forced) arrive.

        `opens` marks the first tokens of a turn, before which the role prefix is fed; it is
        fed again where a turn goes on after the model has spoken into it. While the model is
        speaking they wait for the end of its utterance: speakers hold the floor one after
        the other, as in training (`sequence.turns.take_floor`).
        """
        if self.speaking:
            self._waiting.append((role, ids, opens))
            return
        if opens or self._floor != role:
            self.feed_ids(self.model.tokens.prefixes[role])
        self._floor = role
        self.feed_ids(ids)

    def step(self, frame: StreamFrame) -> list[Event]:
        """See a frame, decide, and say what fits before the next one."""
        self.watch(frame)
        self._pass_time(frame.time)
        decision = self.policy.at_frame(self._run(), self.speaking)
        if decision.act == "wait":
            return []
        if decision.act == "open":
            opened = self._open(frame)
            room = max(1, self._room())
            return opened + self._speak(self.policy.at_token(self._run()), room, frame)
        return self._speak(decision, self._room(), frame)

    def _pass_time(self, time: float) -> None:
        """Count the time since the last frame as speech time, up to one frame gap.

        A longer gap (dropped frames, a variable rate) leaves no backlog to be rattled off.
        """
        passed = self.gap if self._last_frame is None else time - self._last_frame
        if self._speech is not None:
            self._speech.clock += min(passed, self.gap)
        self._last_frame = time

    def _speak(self, decision: Decision, room: int, frame: StreamFrame) -> list[Event]:
        """Carry out `decision` and those that follow while `room` tokens fit.

        A BOS right after a BOS opens nothing: nothing has been said yet.
        """
        events: list[Event] = []
        while self._speech is not None:
            if decision.act == "close":
                events += self._close("eos", frame.time)
            elif decision.act == "open":
                if not self._speech.spoken:
                    break
                events += self._open(frame)
            elif room < 1:
                break
            else:
                events += self._say(decision.token_id, frame)
                room -= 1
            if not self.speaking or (room < 1 and not self.eager_close):
                break
            decision = self.policy.at_token(self._run())
        return events

    def settle(self) -> None:
        """Run what has been fed (a context), so that the next step has only its own work."""
        if self._pending:
            self._run()

    def finish(self, time: float) -> list[Event]:
        """The stream has ended: an utterance under way is closed there."""
        return self._close("stream_end", time)

    def _append(self, embeds_LD: torch.Tensor, *, is_frame: bool) -> None:
        self._pending.append((embeds_LD, is_frame))
        self.positions += len(embeds_LD)

    def _run(self) -> torch.Tensor:
        """Logits [V] after all that has been fed; each position runs once."""
        pending, self._pending = self._pending, []
        for pieces in _in_parts(
            pending, min(PREFILL, getattr(self.cache, "most", None) or PREFILL)
        ):
            embeds_LD = torch.cat([embeds for embeds, _ in pieces])
            is_frame = [flag for embeds, flag in pieces for _ in range(len(embeds))]
            self._logits = self.model.advance(embeds_LD, self.cache, is_frame)
        assert self._logits is not None, "nothing has been fed yet"
        return self._logits

    def _room(self) -> int:
        """How many tokens fit between this frame and the next."""
        if self.policy.pauses_world:
            return self.max_tokens
        if self.rounding == "ceil":
            return self._rounded_up
        assert self._speech is not None
        fit = math.floor((self._speech.clock + self.gap) * self.rate + 1e-9)
        return fit - self._speech.spoken

    def _open(self, frame: StreamFrame) -> list[Event]:
        events = self._close("bos", frame.time)
        begin = frame.time + self.onset
        start = begin if self.policy.pauses_world else max(begin, self._until)
        self._speech = _Speech(self._utterances, start, begin - start, until=start)
        self._utterances += 1
        self._floor = "assistant"
        self.feed_ids(self.model.tokens.prefixes["assistant"])
        return [*events, Opened(start, self._speech.utterance_idx, frame.idx)]

    def _say(self, token_id: int, frame: StreamFrame) -> list[Event]:
        speech = self._speech
        assert speech is not None
        start = speech.until if self.policy.pauses_world else max(speech.until, frame.time)
        speech.until = start + self._token_seconds
        speech.spoken += 1
        self._until = speech.until
        self.feed_ids([token_id])
        events: list[Event] = [
            Token(start, speech.until, speech.utterance_idx, token_id, frame.idx)
        ]
        if speech.spoken >= self.max_tokens:
            events += self._close("limit", frame.time)
        return events

    def _close(self, how: ClosedBy, time: float) -> list[Event]:
        speech, self._speech = self._speech, None
        if speech is None:
            return []
        waiting, self._waiting = self._waiting, []
        for role, ids, opens in waiting:
            self.hear(role, ids, opens=opens)
        estimated = self.policy.pauses_world
        return [
            Closed(max(time, speech.opened), speech.until, speech.utterance_idx, how, estimated)
        ]


Piece = tuple[torch.Tensor, bool]


def _in_parts(pieces: Sequence[Piece], most: int) -> Iterator[list[Piece]]:
    """Parts of at most `most` positions, in order; text may be cut, a frame is not."""
    part: list[Piece] = []
    room = most
    for embeds_LD, is_frame in pieces:
        sizes = len(embeds_LD) if is_frame else most
        for piece_LD in embeds_LD.split(sizes):
            if part and len(piece_LD) > room:
                yield part
                part, room = [], most
            part.append((piece_LD, is_frame))
            room -= len(piece_LD)
    if part:
        yield part
