"""Pacing: nothing early, nothing lost unsaid, stale frames dropped, latencies summed up."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_tsi.streaming.clock import LatencyLog, RealClock, SimClock, paced


@dataclass(frozen=True)
class F:
    time: float


def stream(times, work, clock=None):
    """Consume `times` with `work[i]` seconds for the i-th delivered frame."""
    clock = clock or SimClock()
    got, dropped = [], []
    for i, frame in enumerate(paced(iter([F(t) for t in times]), clock, dropped.append)):
        got.append((frame.time, clock.now()))
        clock.advance(work[i] if i < len(work) else 0.0)
    return got, [f.time for f in dropped]


def test_a_fast_consumer_gets_each_frame_at_its_time():
    got, dropped = stream([0.0, 0.5, 1.0], [0.1] * 3)
    assert got == [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)]
    assert dropped == []


def test_late_by_less_than_a_gap_drops_nothing():
    got, dropped = stream([0, 1, 2, 3], [1.9, 0.0])
    assert [t for t, _ in got] == [0, 1, 2, 3]
    assert got[1] == (1, 1.9)
    assert dropped == []


def test_late_by_exactly_one_gap_drops_nothing():
    got, dropped = stream([0, 1, 2], [2.0])
    assert [t for t, _ in got] == [0, 1, 2]
    assert dropped == []


def test_late_by_more_keeps_the_newest_due_frame():
    got, dropped = stream([0, 1, 2, 3, 4, 5], [3.5])
    assert [t for t, _ in got] == [0, 3, 4, 5]
    assert dropped == [1, 2]


def test_the_last_frame_is_delivered_however_late():
    got, dropped = stream([0, 1, 2], [100.0])
    assert [t for t, _ in got] == [0, 2]
    assert dropped == [1]


def test_no_frames():
    assert stream([], []) == ([], [])


@given(
    st.lists(st.floats(0, 50), max_size=30).map(sorted),
    st.lists(st.floats(0, 20), max_size=30),
)
def test_each_frame_is_delivered_or_dropped_in_order_and_never_early(times, work):
    got, dropped = stream(times, work)
    delivered = [t for t, _ in got]
    assert sorted(delivered + dropped) == times
    assert delivered == sorted(delivered)
    assert all(now >= t for t, now in got)
    if times:
        assert delivered[-1] == times[-1]


def test_sim_clock_never_runs_backwards():
    clock = SimClock(5.0)
    clock.wait_until(1.0)
    assert clock.now() == 5.0
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)


def test_real_clock_starts_when_first_looked_at_and_waits():
    clock = RealClock()
    assert clock.now() < 0.05
    clock.wait_until(0.05)
    assert 0.05 <= clock.now() < 1.0
    clock.wait_until(0.0)


def test_latency_summary():
    log = LatencyLog()
    for i in range(1, 101):
        log.add(i / 100)
    log.drop(F(1.0))
    s = log.summary(video_seconds=101)
    assert (s.steps, s.p50, s.p95, s.max, s.dropped) == (100, 0.5, 0.95, 1.0, 1)
    assert s.real_time_factor == pytest.approx(0.5)
    assert "p95 950.0 ms" in str(s) and "dropped 1" in str(s)


def test_latency_of_nothing_and_of_a_failing_step():
    log = LatencyLog()
    assert log.summary(0.0).max == 0.0
    with pytest.raises(RuntimeError), log.step():
        raise RuntimeError
    assert log.summary(1.0).steps == 1
