"""The engine on scripted logits: when it speaks, what it feeds, what it says happened."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streaming.scripted import (
    ASSISTANT,
    BOS,
    EOS,
    FRAME,
    TOKENS,
    USER,
    VOCABULARY,
    ScriptedModel,
    frame,
    run,
)
from vlm_tsi.streaming.engine import PREFILL, StreamEngine, StreamFrame
from vlm_tsi.streaming.events import Closed, Opened, Token
from vlm_tsi.streaming.policy import Tsi, TurnBased

WORDS = range(6, VOCABULARY)


def flat(events):
    return [e for at_frame in events for e in at_frame]


def said(events):
    return [e.token_id for e in flat(events) if isinstance(e, Token)]


def closings(events):
    return [(e.closed_by, e.end) for e in flat(events) if isinstance(e, Closed)]


def test_bos_opens_a_token_is_said_and_eos_closes():
    _, model, events = run([EOS, BOS, 7, 8, EOS], frames=4)
    assert events[0] == []
    assert events[1] == [Opened(0.5, 0, 1), Token(0.5, 1.0, 0, 7, 1)]
    assert events[2] == [Token(1.0, 1.5, 0, 8, 2)]
    assert events[3] == [Closed(1.5, 1.5, 0, "eos", False)]
    assert model.fed == [FRAME, FRAME + 1, ASSISTANT, 7, FRAME + 2, 8, FRAME + 3]


@pytest.mark.parametrize("token", [EOS, 7, USER])
def test_silent_anything_but_bos_is_discarded(token):
    _, model, events = run([token], frames=5)
    assert flat(events) == []
    assert model.fed == [FRAME + i for i in range(5)]


def test_bos_cuts_and_opens_the_next_utterance():
    _, model, events = run([BOS, 7, BOS, 8, EOS], frames=3)
    assert events[1] == [
        Closed(0.5, 0.5, 0, "bos", False), Opened(0.5, 1, 1), Token(0.5, 1.0, 1, 8, 1)
    ]  # fmt: skip
    assert closings(events) == [("bos", 0.5), ("eos", 1.0)]
    assert model.fed == [FRAME, ASSISTANT, 7, FRAME + 1, ASSISTANT, 8, FRAME + 2]


def test_bos_inside_a_gap_opens_behind_what_was_said():
    _, _, events = run([BOS, 7, BOS, 8, 9, EOS], frames=2, gap=1.5)
    opened = [e for e in events[0] if isinstance(e, Opened)]
    assert [o.time for o in opened] == [0.0, 0.5]
    assert said(events[:1]) == [7, 8, 9]


def test_a_model_that_only_says_bos_neither_hangs_nor_speaks():
    _, _, events = run([BOS], frames=3)
    assert said(events) == []
    assert [c for c, _ in closings(events)] == ["bos", "bos", "stream_end"]


def test_eos_right_after_bos_closes_an_empty_utterance():
    _, _, events = run([BOS, EOS], frames=1)
    assert events[0] == [Opened(0.0, 0, 0), Closed(0.0, 0.0, 0, "eos", False)]


def test_the_stream_ending_closes_what_is_open():
    _, _, events = run([BOS, 7], frames=2)
    assert closings(events) == [("stream_end", 1.0)]
    assert run([EOS], frames=2)[2][-1] == []


def test_the_limit_closes():
    _, _, events = run([BOS, 7, 7, 7, EOS], frames=9, max_tokens=3)
    assert closings(events) == [("limit", 1.5)]
    assert said(events) == [7, 7, 7]


def endless(fed):
    """Opens at the first frame, then talks for ever."""
    return BOS if len(fed) == 1 else 7


@pytest.mark.parametrize("rate", [0.7, 2.0, 3.25, 10.0])
@pytest.mark.parametrize("gap", [0.1, 0.5, 1.0])
def test_accumulated_speech_time_gives_the_rate_on_average(rate, gap):
    frames = 200
    _, _, events = run(endless, frames, gap=gap, rate=rate, max_tokens=10_000)
    assert len(said(events)) == pytest.approx(frames * gap * rate, abs=1.001)
    counts = [len(said([e])) for e in events[1:-1]]
    assert max(counts) - min(counts) <= 1
    tokens = [e for e in flat(events) if isinstance(e, Token)]
    assert all(t.end - t.time == pytest.approx(1 / rate) for t in tokens)
    assert all(b.time >= a.end - 1e-9 for a, b in zip(tokens, tokens[1:], strict=False))
    late = max(t.end - (t.frame_idx + 1) * gap for t in tokens)
    assert late < 1 / rate + 1e-6


@pytest.mark.parametrize(("rate", "gap"), [(3.25, 0.5), (2.0, 0.5), (3.25, 1.0), (0.7, 0.5)])
def test_rounding_up_gives_as_many_at_every_frame(rate, gap):
    _, _, events = run(endless, 20, gap=gap, rate=rate, rounding="ceil")
    counts = {len(said([e])) for e in events[:-1]}
    assert counts == {math.ceil(rate * gap)}
    assert closings(events) == [("stream_end", pytest.approx(20 * gap))]


def test_more_frames_than_tokens_says_each_when_its_time_has_come():
    _, _, events = run(endless, 11, gap=0.1, rate=2.0)
    assert [e.frame_idx for e in flat(events) if isinstance(e, Token)] == [0, 9]


def test_a_closing_frame_needs_no_room():
    """At 10 frames/s and 2 tokens/s the second frame finds the first word unfinished."""
    _, _, events = run([BOS, 7, EOS], frames=2, gap=0.1)
    assert events[1] == [Closed(0.1, 0.5, 0, "eos", False)]


def test_the_next_utterance_waits_for_the_last_word():
    _, _, events = run([BOS, 7, BOS, 8, EOS], frames=3, gap=0.1)
    opened = [e.time for e in flat(events) if isinstance(e, Opened)]
    assert opened == [0.0, 0.5]


def test_eager_close_reads_eos_without_waiting_for_a_frame():
    script = [BOS, 7, EOS, 9]
    assert closings(run(script, 3, eager_close=True)[2][:1]) == [("eos", 0.5)]
    assert closings(run(script, 3)[2][:1]) == []
    _, model, events = run([BOS, 7, 9, 8, EOS], 3, eager_close=True)
    assert said(events) == [7, 8]
    assert model.fed == [FRAME, ASSISTANT, 7, FRAME + 1, 8, FRAME + 2]


def test_what_is_heard_in_silence_is_fed_at_its_time():
    engine, model, events = run([BOS, 7], frames=1)
    assert closings(events) == [("stream_end", 0.5)]
    model.answer = [EOS]
    engine.hear("user", [9, 10], opens=True)
    engine.step(frame(2))
    assert model.fed[-4:] == [USER, 9, 10, FRAME + 2]


def test_what_is_heard_while_the_model_speaks_waits_for_the_floor_as_in_training():
    model = ScriptedModel([BOS, 7, EOS, EOS])
    engine = StreamEngine(model, None, Tsi(TOKENS), tokens_per_second=2, frame_gap=0.5)
    engine.step(frame(0))
    engine.hear("user", [9], opens=True)
    assert engine.speaking and 9 not in model.fed
    assert [type(e) for e in engine.step(frame(1))] == [Closed]
    engine.step(frame(2))
    assert model.fed == [FRAME, ASSISTANT, 7, FRAME + 1, USER, 9, FRAME + 2]


@pytest.mark.parametrize("policy", [Tsi(TOKENS), TurnBased(TOKENS)])
def test_onset_moves_the_start_within_the_gap_and_no_token_count(policy):
    answers = [BOS, 7, 7, 7, EOS, EOS, EOS]
    starts, counts = [], []
    for onset in (0.0, 0.5):
        engine = StreamEngine(
            ScriptedModel(answers), None, policy, tokens_per_second=2.5, frame_gap=0.5, onset=onset
        )
        events = [e for i in range(6) for e in engine.step(frame(i))]
        starts.append(next(e.time for e in events if isinstance(e, Opened)))
        counts.append(sum(isinstance(e, Token) for e in events))
    assert starts[1] == starts[0] + 0.25
    assert counts[0] == counts[1] > 0


def test_a_gap_without_frames_leaves_no_backlog_to_rattle_off():
    model = ScriptedModel([BOS, 7, 7, 7, 7, 7, 7])
    engine = StreamEngine(model, None, Tsi(TOKENS), tokens_per_second=2.5, frame_gap=0.5)
    at = [
        len(said([engine.step(StreamFrame(t, i, frame(i).features_TV))]))
        for i, t in enumerate((0.0, 0.5, 4.0, 4.5))
    ]
    assert max(at) <= 2
    assert sum(at) == 5


def test_a_turn_that_goes_on_after_the_model_spoke_is_named_again():
    model = ScriptedModel([BOS, 7, EOS])
    engine = StreamEngine(model, None, Tsi(TOKENS), tokens_per_second=2, frame_gap=0.5)
    engine.hear("user", [9], opens=True)
    engine.hear("user", [10], opens=False)
    engine.step(frame(0))
    engine.step(frame(1))
    engine.hear("user", [11], opens=False)
    engine.settle()
    assert model.fed == [USER, 9, 10, FRAME, ASSISTANT, 7, FRAME + 1, USER, 11]


def test_turn_based_says_all_at_the_trigger_frame_and_estimates_the_end():
    policy = TurnBased(TOKENS)
    _, model, events = run([EOS, BOS, 7, 8, 9, EOS], frames=4, policy=policy)
    assert [len(e) for e in events] == [0, 5, 0, 0, 0]
    assert {e.frame_idx for e in events[1] if isinstance(e, Token)} == {1}
    assert events[1][-1] == Closed(0.5, 2.0, 0, "eos", True)
    assert model.fed == [FRAME, FRAME + 1, ASSISTANT, 7, 8, 9, FRAME + 2, FRAME + 3]


def test_a_long_context_runs_in_parts_and_each_position_once():
    model = ScriptedModel([EOS])
    engine = StreamEngine(model, None, Tsi(TOKENS), tokens_per_second=2, frame_gap=0.5)
    engine.feed_ids([6] * (2 * PREFILL + 3))
    assert engine.positions == 2 * PREFILL + 3 and model.runs == []
    engine.settle()
    engine.settle()
    assert model.runs == [PREFILL, PREFILL, 3]


answers = st.lists(
    st.one_of(st.sampled_from([BOS, EOS]), st.sampled_from(list(WORDS))), min_size=1, max_size=60
)


@settings(max_examples=150, deadline=None)
@given(
    answers,
    st.integers(1, 15),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from(["accumulate", "ceil"]),
    st.booleans(),
    st.booleans(),
)
def test_every_position_once_and_events_well_formed(script, frames, gap, rounding, eager, turns):
    policy = TurnBased(TOKENS) if turns else Tsi(TOKENS)
    _, model, events = run(
        script, frames, policy=policy, gap=gap, rate=3.25, rounding=rounding,
        max_tokens=9, eager_close=eager,
    )  # fmt: skip
    expected = []
    for i, at_frame in enumerate(events[:-1]):
        expected.append(FRAME + i)
        for event in at_frame:
            if isinstance(event, Opened):
                expected.append(ASSISTANT)
            elif isinstance(event, Token):
                expected.append(event.token_id)
    assert model.fed == expected
    assert BOS not in said(events) and EOS not in said(events)
    check_order(flat(events), overlap=turns)


def check_order(events, overlap):
    """Opened, Token*, Closed, one utterance after another, in time order."""
    now, open_idx = 0.0, None
    for event in events:
        if isinstance(event, Opened):
            assert open_idx is None
            open_idx, last_end, start = event.utterance_idx, event.time, event.time
            assert overlap or start >= now
        elif isinstance(event, Token):
            assert event.utterance_idx == open_idx and last_end <= event.time < event.end
            last_end = event.end
        else:
            assert event.utterance_idx == open_idx and event.end == last_end >= start
            now, open_idx = event.end, None
    assert open_idx is None


def test_greedy_takes_the_likeliest_and_logits_may_be_any_float_type():
    logits = torch.full((VOCABULARY,), -1.0, dtype=torch.bfloat16)
    logits[BOS] = 1
    assert Tsi(TOKENS).at_frame(logits, False).act == "open"
