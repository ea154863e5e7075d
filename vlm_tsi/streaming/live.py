"""One video or camera through a model, as it comes.

Input: a loaded checkpoint, a source, settings; what a user types meanwhile.
Output: `LiveResult`: what was said, what was heard, how long the steps took.
Invariant: at each frame, in this order: what was typed is heard, the frame is seen, the
model speaks. Ctrl-C ends the stream after the frame, and what was said until then is kept.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from vlm_tsi.model.frames import encode_frames
from vlm_tsi.model.loading import Loaded
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.streaming.batch import text_of
from vlm_tsi.streaming.clock import LatencyLog, RealClock, paced
from vlm_tsi.streaming.engine import StreamEngine, StreamFrame
from vlm_tsi.streaming.events import Event
from vlm_tsi.streaming.newest import Newest
from vlm_tsi.streaming.protocol import new_engine
from vlm_tsi.streaming.record import Recorder
from vlm_tsi.streaming.settings import StreamSettings, decoding_for, resolved
from vlm_tsi.timeline import Generated
from vlm_tsi.video.reader import Frame, is_live, open_source

REPORTED = (10, 100, 1000)
"""Frames at which the step latency is reported."""
AROUND = 5


class Watcher:
    """Told what happens; the base does nothing."""

    def at(self, time: float) -> None:
        """The stream has come to `time` (s)."""

    def forming(self, start: float, text: str) -> None:
        """An utterance so far."""

    def said(self, spoken: Generated) -> None:
        """A finished utterance."""

    def heard(self, time: float, text: str) -> None:
        """A user's turn."""


@dataclass
class LiveResult:
    """What came out of a stream; `seconds` is how much of the video was streamed."""

    recorder: Recorder
    log: LatencyLog
    seconds: float = 0.0
    frames: int = 0
    positions: int = 0
    heard: list[tuple[float, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    interrupted: bool = False


def stream_live(
    loaded: Loaded,
    source: str,
    settings: StreamSettings,
    *,
    realtime: bool = False,
    typed: Callable[[], list[str]] = list,
    watcher: Watcher | None = None,
) -> LiveResult:
    """Stream a file, camera or URL.

    Args:
        loaded: model and tokenizer.
        source: what `open_source` takes.
        settings: how to stream.
        realtime: pace a file by the clock (a live source paces itself), dropping stale frames.
        typed: gives the lines typed since it was last asked.
        watcher: told of everything as it happens.

    Raises:
        UserError: the source cannot be read.
    """
    name = stream_name(source)
    chosen = resolved(settings, loaded.model.config)
    decoding = decoding_for(settings, loaded.model, name)
    recorder = Recorder(name, decoding.policy.scheme, text_of(loaded.tokenizer))
    result = LiveResult(recorder, LatencyLog())
    stream = _Stream(loaded, new_engine(loaded.model, decoding), result, watcher or Watcher())
    stream.begin(chosen.system)
    frames = open_source(
        source, fps=chosen.fps, size=loaded.model.config.frame_size,
        on_warning=result.warnings.append,
    )  # fmt: skip
    with _first_ctrl_c() as asked:
        for frame in _in_time(frames, source, realtime, result.log):
            stream.step(frame, typed())
            result.seconds = frame.time + decoding.frame_gap
            if asked:
                result.interrupted = True
                break
    stream.end()
    return result


@contextmanager
def _first_ctrl_c() -> Iterator[list[int]]:
    """Yield a list that the first Ctrl-C fills; the second one is as always."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.getsignal(signal.SIGINT)

    def once(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, once)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def stream_name(source: str) -> str:
    """The file's stem; a plain name for a live source."""
    return "live" if is_live(source) else Path(source).stem


def _in_time(
    frames: Iterator[Frame], source: str, realtime: bool, log: LatencyLog
) -> Iterator[Frame]:
    if is_live(source):
        return iter(Newest(frames, log.drop))
    return paced(frames, RealClock(), log.drop) if realtime else frames


class _Stream:
    """The parts of one stream, and what happens at a frame."""

    def __init__(
        self, loaded: Loaded, engine: StreamEngine, result: LiveResult, watcher: Watcher
    ) -> None:
        self.model, self.encode = loaded.model, encoder(loaded.tokenizer)
        self.engine, self.result, self.watcher = engine, result, watcher

    def begin(self, system: str | None) -> None:
        """Feed the system text; it takes no time from the first frame."""
        if system:
            ids = [*self.model.tokens.prefixes["system"], *self.encode(" " + system)]
            self.engine.feed_ids(ids)
            self.engine.settle()

    def step(self, frame: Frame, lines: list[str]) -> None:
        with self.result.log.step():
            for line in lines:
                self._hear(line, frame.time)
            features_TV = encode_frames(self.model, [frame])[0]
            events = self.engine.step(StreamFrame(frame.time, frame.idx, features_TV))
        self.result.frames += 1
        self.result.positions = self.engine.positions
        self._tell(events)
        self.watcher.at(frame.time)

    def end(self) -> None:
        self._tell(self.engine.finish(self.result.seconds))

    def _hear(self, line: str, time: float) -> None:
        self.result.heard.append((time, line))
        self.watcher.heard(time, line)
        self.engine.hear("user", self.encode(" " + line), opens=True)

    def _tell(self, events: list[Event]) -> None:
        recorder = self.result.recorder
        for event in events:
            spoken = recorder.feed(event)
            if spoken is not None:
                self.watcher.said(spoken)
            elif (text := recorder.open_text) is not None:
                self.watcher.forming(recorder.open_start, text)


def latency_at(durations: list[float], frames: tuple[int, ...] = REPORTED) -> dict[int, float]:
    """Median step duration (s) around each of `frames` that the stream reached."""
    return {
        n: median(durations[max(0, n - 1 - AROUND) : n + AROUND])
        for n in frames
        if n <= len(durations)
    }
