"""One video as it comes: order at a frame, pace, drops, typed turns, Ctrl-C, newest frame."""

import os
import signal
import threading
import time
from itertools import islice

import pytest

from tests.tiny import save_tiny, tiny_video
from vlm_tsi import stopping
from vlm_tsi.errors import UserError
from vlm_tsi.model.loading import load_checkpoint
from vlm_tsi.stopping import STOPS
from vlm_tsi.streaming.keyboard import TypedLines, is_at_terminal
from vlm_tsi.streaming.live import Watcher, latency_at, stream_live, stream_name
from vlm_tsi.streaming.newest import Newest
from vlm_tsi.streaming.settings import StreamSettings
from vlm_tsi.video.reader import open_source

TALKATIVE = StreamSettings(policy="turn_based", threshold=0.99, max_tokens=5)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_checkpoint(save_tiny(tmp_path_factory.mktemp("tiny") / "model", talkative=True))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return str(tiny_video(tmp_path_factory.mktemp("clips") / "a clip.mp4", 3.0, 4.0))


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return str(tiny_video(tmp_path_factory.mktemp("clips") / "short.mp4", 1.25, 4.0))


class Notes(Watcher):
    def __init__(self, at=lambda time: None):
        self.seen, self.on_frame = [], at

    def at(self, time):
        self.seen.append(("at", time))
        self.on_frame(time)

    def forming(self, start, text):
        self.seen.append(("forming", start, text))

    def said(self, spoken):
        self.seen.append(("said", spoken.start, spoken.text))

    def heard(self, time, text):
        self.seen.append(("heard", time, text))


def test_every_frame_is_seen_and_what_is_said_is_told_as_it_forms(loaded, clip):
    notes = Notes()
    result = stream_live(loaded, clip, TALKATIVE, watcher=notes)
    assert [t for what, t in (n for n in notes.seen if n[0] == "at")] == [0, 0.5, 1, 1.5, 2, 2.5]
    assert (result.frames, result.seconds, result.log.dropped) == (6, 3.0, 0)
    assert result.recorder.video_id == "a clip"
    spoken = result.recorder.finished
    assert [n[2] for n in notes.seen if n[0] == "said"] == [g.text for g in spoken] != []
    forming = [n[2] for n in notes.seen if n[0] == "forming" and n[1] == spoken[0].start]
    assert forming[0] == "" and len(forming) == spoken[0].num_tokens + 1


def test_two_runs_are_the_same(loaded, clip):
    warm = StreamSettings(temperature=0.3, seed=3)
    first, second = (stream_live(loaded, clip, warm).recorder.finished for _ in range(2))
    assert first == second
    other = stream_live(loaded, clip, StreamSettings(temperature=0.3, seed=4)).recorder.finished
    assert other != first


def test_a_typed_line_is_a_users_turn_before_the_next_frame(loaded, clip):
    lines = iter([[], ["take the red part"], [], [], ["no", "yes"], []])
    notes = Notes()
    result = stream_live(loaded, clip, StreamSettings(), typed=lambda: next(lines), watcher=notes)
    assert result.heard == [(0.5, "take the red part"), (2.0, "no"), (2.0, "yes")]
    assert notes.seen.index(("heard", 0.5, "take the red part")) < notes.seen.index(("at", 0.5))
    assert result.positions >= 6 + 5 + 2 + 2


def test_real_time_waits_for_the_clock(loaded, short):
    began = time.perf_counter()
    result = stream_live(loaded, short, StreamSettings(fps=4), realtime=True)
    assert time.perf_counter() - began >= 0.95
    assert result.frames + result.log.dropped == 5


def test_real_time_drops_what_has_gone_stale(loaded, short):
    late = Notes(at=lambda t: time.sleep(0.9 if t == 0 else 0))
    result = stream_live(loaded, short, StreamSettings(fps=4), realtime=True, watcher=late)
    assert result.log.dropped >= 2
    assert result.frames + result.log.dropped == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_stream_and_keeps_what_was_said(loaded, clip, number):
    before = [signal.getsignal(s) for s in STOPS]
    stop = Notes(at=lambda t: signal.raise_signal(number) if t == 1.0 else None)
    result = stream_live(loaded, clip, TALKATIVE, watcher=stop)
    assert (result.stopped_by, result.frames, result.seconds) == (number, 3, 1.5)
    assert result.recorder.finished
    assert [signal.getsignal(s) for s in STOPS] == before


def test_an_ignored_hang_up_stays_ignored(loaded, clip):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop = Notes(at=lambda t: signal.raise_signal(signal.SIGHUP))
        result = stream_live(loaded, clip, TALKATIVE, watcher=stop)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (result.stopped_by, result.frames) == (0, 6)


def test_a_signal_that_is_passed_on_again_is_no_second_one(loaded, clip):
    twice = Notes(at=lambda t: [signal.raise_signal(s) for s in (signal.SIGTERM, signal.SIGHUP)])
    result = stream_live(loaded, clip, TALKATIVE, watcher=twice)
    assert (result.stopped_by, result.frames) == (signal.SIGTERM, 1)


def test_a_second_signal_is_as_always(loaded, clip, monkeypatch):
    monkeypatch.setattr(stopping, "REPEAT", -1.0)
    twice = Notes(at=lambda t: [signal.raise_signal(signal.SIGINT) for _ in range(2)])
    with pytest.raises(KeyboardInterrupt):
        stream_live(loaded, clip, TALKATIVE, watcher=twice)


def test_the_stream_ends_when_nobody_listens(loaded, clip):
    gone = Notes(at=lambda t: setattr(gone, "is_gone", t == 1.0))
    result = stream_live(loaded, clip, TALKATIVE, watcher=gone)
    assert (result.stopped_by, result.frames) == (signal.SIGPIPE, 3)


def test_a_source_that_breaks_keeps_what_was_said(loaded, clip, monkeypatch):
    def breaks(*args, **options):
        yield from islice(open_source(*args, **options), 3)
        raise UserError("camera", "is gone", "plug it in")

    monkeypatch.setattr("vlm_tsi.streaming.live.open_source", breaks)
    kept = []
    result = stream_live(loaded, clip, TALKATIVE, spool=kept.append)
    assert "camera is gone" in str(result.broken).replace(":", "")
    assert kept == result.recorder.finished != [] and result.frames == 3


def test_a_source_without_a_frame_is_an_error(loaded, monkeypatch):
    def breaks(*args, **options):
        raise UserError("camera", "is gone", "plug it in")
        yield

    monkeypatch.setattr("vlm_tsi.streaming.live.open_source", breaks)
    with pytest.raises(UserError, match="camera"):
        stream_live(loaded, "0", TALKATIVE)


def test_names():
    assert [stream_name(s) for s in ("a/b.c.mp4", "0", "rtsp://x/y")] == ["b.c", "live", "live"]


def test_latency_on_the_way():
    steps = [0.001] * 500 + [0.002] * 600
    assert latency_at(steps) == {10: 0.001, 100: 0.001, 1000: 0.002}
    assert latency_at(steps[:99]) == {10: 0.001}
    assert latency_at([]) == {}


def test_typed_lines():
    reader, writer = os.pipe()
    lines = TypedLines(reader)
    assert lines.take() == []
    os.write(writer, b"  one\n\ntwo  zwei \nthr")
    os.write(writer, "eé".encode() + b"\xff")
    os.close(writer)
    lines.thread.join(5)
    assert lines.take() == ["one", "two zwei", "threé\ufffd"]
    assert lines.take() == []
    assert not is_at_terminal(reader)
    os.close(reader)


def test_newest_gives_what_came_last_and_counts_the_rest():
    gate, dropped = threading.Event(), []

    def source():
        yield 0
        assert gate.wait(5)
        yield from range(1, 6)

    got = []
    for frame in Newest(source(), dropped.append):
        got.append(frame)
        gate.set()
        time.sleep(0.05)
    assert got[0] == 0 and got[-1] == 5
    assert sorted(got + dropped) == list(range(6)) and got == sorted(got)


def test_newest_raises_what_the_source_raises():
    def source():
        yield 1
        raise UserError("camera", "went away", "plug it in")

    with pytest.raises(UserError, match="went away"):
        list(Newest(source(), lambda f: None))


@pytest.mark.parametrize(
    "bad",
    [
        {"policy": "x"}, {"threshold": 1.2}, {"fps": 0}, {"fps": float("nan")},
        {"temperature": -1}, {"rounding": "down"}, {"max_tokens": 0},
    ],
)  # fmt: skip
def test_settings_refuse(bad):
    with pytest.raises(UserError, match=str(next(iter(bad.values())))):
        StreamSettings(**bad)
