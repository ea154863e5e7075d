"""What stays in an endless stream: the ledger alone, against a slow peer and in random use."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_tsi.errors import UserError
from vlm_tsi.streaming.window import Ledger, Window, widest_window


def fed(ledger: Ledger, units: list[int], looks=None) -> list[tuple[str, int]]:
    """Feed text (0) and frames (1), evicting when full; names of what is kept, by slot order."""
    kept: list[tuple[str, int]] = []
    for n, is_frame in enumerate(units):
        slots = ledger.window.tokens_per_frame if is_frame else 1
        if not ledger.fits(slots):
            kept = [kept[k] for k in ledger.evict().kept_K]
        if is_frame:
            ledger.add_frame(looks[n] if looks else None)
        else:
            ledger.add_text(1)
        kept += [("frame" if is_frame else "text", n)] * slots
        assert len(kept) == ledger.length <= ledger.window.capacity
    return kept


@st.composite
def streams(draw):
    slots = draw(st.integers(1, 4))
    window = Window(
        frames=draw(st.integers(1, 6)), text=draw(st.integers(0, 5)), sink=draw(st.integers(0, 3)),
        tokens_per_frame=slots, slack=draw(st.integers(slots, 9)),
    )  # fmt: skip
    return window, draw(st.lists(st.integers(0, 1), max_size=120)), draw(st.integers(1, slots))


@given(streams())
def test_what_was_promised_is_kept_in_order_and_positions_stay_below_the_capacity(case):
    window, units, span = case
    ledger = Ledger(window, span)
    kept = fed(ledger, units)
    first = units.index(1) if 1 in units else len(units)
    frames = [n for n, u in enumerate(units) if u][-window.frames :]
    text = [n for n, u in enumerate(units) if not u]
    sink = [n for n in text if n < first][: window.sink]
    late = [n for n in text if n not in sink]
    for name, must in (("frame", frames), ("text", sink), ("text", late[-window.text :])):
        assert all((name, n) in kept for n in (must if window.text or name != "text" else sink))
    order = [n for _, n in kept]
    assert order == sorted(order)
    assert ledger.next_position <= window.capacity


@given(streams())
def test_shifts_lead_from_old_positions_to_contiguous_new_ones(case):
    window, units, span = case
    ledger, at = Ledger(window, span), []
    for is_frame in units:
        slots = window.tokens_per_frame if is_frame else 1
        if not ledger.fits(slots):
            eviction = ledger.evict()
            at = [at[k] + s for k, s in zip(eviction.kept_K, eviction.shift_K, strict=True)]
            assert ledger.fits(window.slack) and (eviction.shift_K <= 0).all()
        base = ledger.add_frame() if is_frame else ledger.add_text(1)[0]
        at += [base] * slots
    expected, position = [], 0
    for unit in ledger._units:
        expected += [position] * unit.slots
        position += unit.span
    assert at == expected and ledger.next_position == position


@given(streams())
def test_every_unit_is_kept_or_counted_as_gone(case):
    window, units, span = case
    ledger = Ledger(window, span)
    kept = {n for _, n in fed(ledger, units)}
    gone = [u for n, u in enumerate(units) if n not in kept]
    assert (ledger.evicted_frames, ledger.evicted_text) == (sum(gone), len(gone) - sum(gone))


def test_the_sink_never_moves():
    window = Window(frames=2, text=1, sink=3, slack=2)
    ledger = Ledger(window, 1)
    kept = fed(ledger, [0, 0, 0, 0] + [1, 0] * 40)
    assert kept[:3] == [("text", 0), ("text", 1), ("text", 2)]
    assert [u.base for u in ledger._units[:3]] == [0, 1, 2]


def test_distinct_keeps_what_differs_among_the_older_half():
    """Frames 0 to 9: four pictures, the second one shown six times."""
    pictures = [0, 1, 1, 1, 1, 1, 1, 2, 3, 0]
    looks = [np.eye(4)[p] for p in pictures]
    window = Window(frames=6, text=0, sink=0, slack=4, keep="distinct")
    ledger = Ledger(window, 1)
    fed(ledger, [1] * 10, looks)
    slots = ledger.evict().kept_K
    assert [pictures[k] for k in slots] == [0, 1, 1, 2, 3, 0]


def test_recent_lets_the_oldest_frames_leave_and_no_text_in_its_share():
    window = Window(frames=2, text=2, sink=0, slack=2)
    kept = fed(Ledger(window, 1), [1, 0, 1, 1, 1, 0, 1])
    assert kept == [("text", 1), ("frame", 3), ("frame", 4), ("text", 5), ("frame", 6)]


@pytest.mark.parametrize("positions", [600, 2048, 8192])
@pytest.mark.parametrize("slots", [1, 10])
def test_the_widest_window_fills_a_models_range(positions, slots):
    window = widest_window(positions, slots, text=64, sink=64)
    assert positions - slots < window.capacity <= positions
    assert window.slack >= slots


def test_a_range_without_room_for_a_frame_is_refused():
    with pytest.raises(UserError, match="leave no room for a frame in 512 positions"):
        widest_window(512, 10)
