"""The TGLG protocol (paper Appendix A): context teacher-forced, then the window streams.

Input: a timeline (a datapoint), its frames' times and features, a model, a policy.
Output: the utterances generated inside the evaluation window.
Invariant: context and window go through the same engine, position by position as in
training; only frames of the window may open an utterance, and nothing later than a frame
is known when it is decided.

The window's first frame is the last one at or before its start: the frame in whose gap the
first scored utterance begins, which is also where training puts its BOS.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from vlm_tsi.sequence.interleave import Scheme, SchemeName, merge, place_turns
from vlm_tsi.sequence.tokens import Encode
from vlm_tsi.streaming.cache import stream_cache
from vlm_tsi.streaming.engine import StreamEngine, StreamFrame
from vlm_tsi.streaming.events import Event
from vlm_tsi.streaming.policy import Policy
from vlm_tsi.streaming.record import Recorder
from vlm_tsi.timeline import Generated, Timeline


@dataclass(frozen=True)
class Decoding:
    """How to speak: policy, speech rate (tokens/s), expected frame gap (s), rounding."""

    policy: Policy
    tokens_per_second: float
    frame_gap: float
    rounding: Literal["accumulate", "ceil"] = "accumulate"
    max_tokens: int = 128


def new_engine(model: Any, decoding: Decoding) -> StreamEngine:
    """An engine with an empty cache."""
    layers = model.language_model.config.num_hidden_layers
    return StreamEngine(
        model,
        stream_cache(layers),
        decoding.policy,
        tokens_per_second=decoding.tokens_per_second,
        frame_gap=decoding.frame_gap,
        rounding=decoding.rounding,
        max_tokens=decoding.max_tokens,
    )


def evaluation_window(timeline: Timeline) -> tuple[float, float]:
    """[start, end] in seconds: `meta.window`, else the span of the scored utterances.

    Without scored utterances it is the whole video.
    """
    if "window" in timeline.meta:
        start, end = timeline.meta["window"]
        return float(start), float(end)
    scored = [u for u in timeline.utterances if u.eval]
    if not scored:
        return 0.0, timeline.duration
    return min(u.start for u in scored), max(u.end for u in scored)


def stream_timeline(
    model: Any,
    encode: Encode,
    decode: Callable[[list[int]], str],
    timeline: Timeline,
    times_F: np.ndarray,
    features_FTV: torch.Tensor,
    decoding: Decoding,
    on_event: Callable[[Event], None] | None = None,
) -> Recorder:
    """Run one datapoint; the recorder holds what was generated in its window.

    Args:
        times_F: frame times, seconds.
        features_FTV: vision features of those frames.
    """
    scheme: SchemeName = "turn_based" if decoding.policy.scheme == "turn_based" else "tsi"
    start, end = evaluation_window(timeline)
    first = max(0, int(np.searchsorted(times_F, start + 1e-6, side="right")) - 1)
    context = [u for u in timeline.utterances if not u.eval]
    turns = place_turns(context, times_F, encode, Scheme(name=scheme))
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
            _record(engine.hear(turn.role, [step.id], step.time, opens=opens), recorder, on_event)
            continue
        frame = StreamFrame(step.time, step.frame_idx, features_FTV[step.frame_idx])
        if step.frame_idx < first:
            engine.watch(frame)
        else:
            _record(engine.step(frame), recorder, on_event)
    _record(engine.finish(end), recorder, on_event)
    return recorder


def _record(
    events: Iterable[Event], recorder: Recorder, on_event: Callable[[Event], None] | None
) -> None:
    for event in events:
        recorder.feed(event)
        if on_event is not None:
            on_event(event)


def stream_all(
    model: Any,
    encode: Encode,
    decode: Callable[[list[int]], str],
    datapoints: Sequence[Timeline],
    frames: Callable[[Timeline], tuple[np.ndarray, torch.Tensor]],
    decoding: Decoding,
) -> list[Generated]:
    """All datapoints, one after the other."""
    spoken: list[Generated] = []
    for timeline in datapoints:
        times_F, features_FTV = frames(timeline)
        recorder = stream_timeline(
            model, encode, decode, timeline, times_F, features_FTV, decoding
        )
        spoken += recorder.finished
    return spoken
