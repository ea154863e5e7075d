"""The TGLG protocol (paper Appendix A): context teacher-forced, then the window streams.

Input: a timeline (a datapoint), its frames' times and features, a model, a policy.
Output: the utterances generated inside the evaluation window.
Invariant: context and window go through the same engine, position by position as in
training; only frames of the window may open an utterance, and nothing later than a frame
is known when it is decided. Our own turns are fed only if they began before the window
(equations 3 and 4); other speakers' turns enter at their time, also inside it.

The window's first frame is the last one at or before its start: the frame in whose gap the
first scored utterance begins, which is also where training puts its BOS.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from vlm_tsi.errors import UserError
from vlm_tsi.sequence.interleave import Scheme, SchemeName, merge, place_turns
from vlm_tsi.sequence.tokens import Encode
from vlm_tsi.streaming.cache import stream_cache
from vlm_tsi.streaming.clock import LatencyLog
from vlm_tsi.streaming.engine import StreamEngine, StreamFrame
from vlm_tsi.streaming.events import Event
from vlm_tsi.streaming.policy import Policy
from vlm_tsi.streaming.record import Recorder
from vlm_tsi.streaming.window import Window
from vlm_tsi.timeline import Timeline, Utterance, Word


@dataclass(frozen=True)
class Decoding:
    """How to speak: policy, speech rate (tokens/s), expected frame gap (s), rounding.

    `window` is what is kept of an endless stream (None: all).
    """

    policy: Policy
    tokens_per_second: float
    frame_gap: float
    rounding: Literal["accumulate", "ceil"] = "accumulate"
    max_tokens: int = 128
    eager_close: bool = False
    onset: float = 0.0
    window: Window | None = None


def new_engine(model: Any, decoding: Decoding) -> StreamEngine:
    """An engine with an empty cache."""
    return StreamEngine(
        model,
        stream_cache(model, decoding.window),
        decoding.policy,
        tokens_per_second=decoding.tokens_per_second,
        frame_gap=decoding.frame_gap,
        rounding=decoding.rounding,
        max_tokens=decoding.max_tokens,
        eager_close=decoding.eager_close,
        onset=decoding.onset,
    )


def evaluation_window(timeline: Timeline) -> tuple[float, float]:
    """[start, end] in seconds: `meta.window`, else the span of the scored utterances.

    Without scored utterances it is the whole video.

    Raises:
        UserError: `meta.window` is no span of time.
    """
    if "window" in timeline.meta:
        return _checked_window(timeline)
    scored = [u for u in timeline.utterances if u.eval]
    if not scored:
        return 0.0, timeline.duration
    return min(u.start for u in scored), max(u.end for u in scored)


def _checked_window(timeline: Timeline) -> tuple[float, float]:
    window = timeline.meta["window"]
    try:
        start, end = (float(t) for t in window)
        if not 0 <= start <= end < math.inf:
            raise ValueError
    except (TypeError, ValueError, OverflowError) as err:
        problem = f"meta.window is {window!r}"
        raise UserError(timeline.video_id, problem, "use [start, end] in seconds") from err
    return start, end


def context_of(timeline: Timeline) -> list[Utterance]:
    """What the model is told: its own turns from before the window, and all of others'.

    Our scored turns are never told, nor are our own from inside the window; one that runs on
    into it is cut there (Eq. 4).
    """
    start = evaluation_window(timeline)[0]
    others = [u for u in timeline.utterances if u.role != "assistant"]
    ours = [u for u in timeline.utterances if u.role == "assistant" and not u.eval]
    told = [_cut(u, start) for u in ours if u.start < start]
    return sorted([*others, *told], key=lambda u: u.start)


def _cut(utterance: Utterance, end: float) -> Utterance:
    """The words of an utterance that begin before `end` (s); its first word at least."""
    if utterance.end <= end:
        return utterance
    words = [w for w in utterance.words if w.start < end]
    text = " ".join(w.text for w in words)
    if not utterance.words:
        spoken = utterance.text.split()
        share = (end - utterance.start) / (utterance.end - utterance.start)
        text = " ".join(spoken[: max(1, math.ceil(share * len(spoken)))])
    return replace(utterance, text=text, end=end, words=tuple(_ended(w, end) for w in words))


def _ended(word: Word, end: float) -> Word:
    return replace(word, end=min(word.end, end))


def stream_timeline(
    model: Any,
    encode: Encode,
    decode: Callable[[list[int]], str],
    timeline: Timeline,
    times_F: np.ndarray,
    features_FTV: torch.Tensor,
    decoding: Decoding,
    on_event: Callable[[Event], None] | None = None,
    log: LatencyLog | None = None,
) -> Recorder:
    """Run one datapoint; the recorder holds what was generated in its window.

    Args:
        model: see `StreamModel`, with a `language_model`.
        encode: text -> ids.
        decode: ids -> text.
        timeline: a datapoint.
        times_F: frame times, seconds.
        features_FTV: vision features of those frames.
        decoding: how to speak; its policy must be fresh if it draws at random.
        on_event: told of each event as it happens.
        log: takes how long each frame of the window took.
    """
    scheme: SchemeName = "turn_based" if decoding.policy.scheme == "turn_based" else "tsi"
    start, end = evaluation_window(timeline)
    first = max(0, int(np.searchsorted(times_F, start + 1e-6, side="right")) - 1)
    turns = place_turns(context_of(timeline), times_F, encode, Scheme(name=scheme))
    log = log or LatencyLog()
    engine = new_engine(model, decoding)
    recorder = Recorder(timeline.video_id, scheme, decode)
    if timeline.system:
        engine.feed_ids([*engine.model.tokens.prefixes["system"], *encode(" " + timeline.system)])
    for step in merge(turns, times_F):
        if step.time > end:
            break
        if step.frame_idx < 0:
            turn = turns[step.turn_idx]
            opens = step.token_idx == 0
            engine.hear(turn.role, [step.id], opens=opens)
            continue
        frame = StreamFrame(step.time, step.frame_idx, features_FTV[step.frame_idx])
        if step.frame_idx < first:
            engine.watch(frame)
            continue
        if step.frame_idx == first:
            engine.settle()
        with log.step():
            events = engine.step(frame)
        _record(events, recorder, on_event)
    _record(engine.finish(end), recorder, on_event)
    log.evicted = engine.cache.evicted
    return recorder


def _record(
    events: Iterable[Event], recorder: Recorder, on_event: Callable[[Event], None] | None
) -> None:
    for event in events:
        recorder.feed(event)
        if on_event is not None:
            on_event(event)
