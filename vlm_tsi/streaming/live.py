"""One video or camera through a model, as it comes.

Input: a loaded checkpoint, a source, settings; what a user types meanwhile.
Output: `LiveResult`: what was said, what was heard, how long the steps took.
Invariant: at each frame, in this order: what was typed is heard, the frame is seen, the
model speaks. Ctrl-C, SIGTERM, a hang-up, a closed output or a source that breaks end the
stream after the frame, and what was said until then is kept.
"""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from vlm_tsi.errors import UserError
from vlm_tsi.model.frames import encode_frames
from vlm_tsi.model.loading import Loaded
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.stopping import asked_to_stop
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
    """Told what happens; the base does nothing.

    Attributes:
        is_gone: nobody listens any more; the stream ends.
    """

    is_gone: bool = False

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
    """What came out of a stream.

    Attributes:
        seconds: how much of the video was streamed.
        stopped_by: the signal that ended it, or 0.
        broken: what went wrong with the source on the way.
    """

    recorder: Recorder
    log: LatencyLog
    seconds: float = 0.0
    frames: int = 0
    positions: int = 0
    heard: list[tuple[float, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stopped_by: int = 0
    broken: UserError | None = None


def stream_live(
    loaded: Loaded,
    source: str,
    settings: StreamSettings,
    *,
    realtime: bool = False,
    typed: Callable[[], list[str]] = list,
    watcher: Watcher | None = None,
    spool: Callable[[Generated], None] = lambda spoken: None,
) -> LiveResult:
    """Stream a file, camera or URL.

    Args:
        loaded: model and tokenizer.
        source: what `open_source` takes.
        settings: how to stream.
        realtime: pace a file by the clock (a live source paces itself), dropping stale frames.
        typed: gives the lines typed since it was last asked.
        watcher: told of everything as it happens.
        spool: keeps each utterance as it ends.

    Raises:
        UserError: the source gives no frame.
    """
    name = stream_name(source)
    chosen = resolved(settings, loaded.model.config)
    decoding = decoding_for(settings, loaded.model, name)
    recorder = Recorder(name, decoding.policy.scheme, text_of(loaded.tokenizer))
    result = LiveResult(recorder, LatencyLog())
    watcher = watcher or Watcher()
    stream = _Stream(loaded, new_engine(loaded.model, decoding), result, watcher, spool)
    stream.begin(chosen.system)
    frames = open_source(
        source, fps=chosen.fps, size=loaded.model.config.frame_size,
        on_warning=result.warnings.append,
    )  # fmt: skip
    with asked_to_stop() as asked:
        for frame in _until_broken(_in_time(frames, source, realtime, result.log), result):
            stream.step(frame, typed())
            result.seconds = frame.time + decoding.frame_gap
            if asked or watcher.is_gone:
                result.stopped_by = asked[0] if asked else signal.SIGPIPE
                break
        stream.end()
    return result


def _until_broken(frames: Iterator[Frame], result: LiveResult) -> Iterator[Frame]:
    """The frames; a source that breaks after the first one ends them."""
    try:
        yield from frames
    except UserError as err:
        if not result.frames:
            raise
        result.broken = err


def stream_name(source: str) -> str:
    """The file's stem, as UTF-8 can hold it; a plain name for a live source."""
    stem = "live" if is_live(source) else Path(source).stem
    return stem.encode(errors="backslashreplace").decode()


def _in_time(
    frames: Iterator[Frame], source: str, realtime: bool, log: LatencyLog
) -> Iterator[Frame]:
    if is_live(source):
        return iter(Newest(frames, log.drop))
    return paced(frames, RealClock(), log.drop) if realtime else frames


class _Stream:
    """The parts of one stream, and what happens at a frame."""

    def __init__(
        self,
        loaded: Loaded,
        engine: StreamEngine,
        result: LiveResult,
        watcher: Watcher,
        spool: Callable[[Generated], None],
    ) -> None:
        self.model, self.encode = loaded.model, encoder(loaded.tokenizer)
        self.engine, self.result, self.watcher, self.spool = engine, result, watcher, spool

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
        self.result.log.evicted = self.engine.cache.evicted

    def _hear(self, line: str, time: float) -> None:
        self.result.heard.append((time, line))
        self.watcher.heard(time, line)
        self.engine.hear("user", self.encode(" " + line), opens=True)

    def _tell(self, events: list[Event]) -> None:
        recorder = self.result.recorder
        for event in events:
            spoken = recorder.feed(event)
            if spoken is not None:
                self.spool(spoken)
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
