"""Events to utterances: text, times, what is empty, words."""

import pytest

from vlm_tsi.streaming.events import Closed, Opened, Token
from vlm_tsi.streaming.record import (
    Recorder,
)
from vlm_tsi.timeline import Word

PIECES = {1: " the", 2: " red", 3: " la", 4: "mp", 5: " ", 6: "\ufffd"}


def recorder():
    return Recorder("v", "tsi", lambda ids: "".join(PIECES[i] for i in ids))


def say(rec, idx, ids, start=1.0, closed_by="eos", estimated=False):
    rec.feed(Opened(start, idx, 7))
    t = start
    for i in ids:
        rec.feed(Token(t, t + 0.5, idx, i, 7))
        t += 0.5
    return rec.feed(Closed(t, t, idx, closed_by, estimated))


def test_an_utterance_is_written_when_it_closes():
    rec = recorder()
    g = say(rec, 0, [1, 2, 3, 4], closed_by="bos", estimated=True)
    assert (g.video_id, g.scheme, g.text) == ("v", "tsi", "the red lamp")
    assert (g.start, g.end, g.num_tokens, g.trigger_frame_idx) == (1.0, 3.0, 4, 7)
    assert (g.closed_by, g.end_is_estimated) == ("bos", True)
    assert rec.finished == [g]


def test_word_times_follow_the_tokens():
    rec = recorder()
    say(rec, 0, [1, 2, 3, 4])
    assert rec.words == [(Word("the", 1.0, 1.5), Word("red", 1.5, 2.0), Word("lamp", 2.0, 3.0))]


@pytest.mark.parametrize("ids", [[], [5, 5], [6]])
def test_what_says_nothing_is_counted_and_not_written(ids):
    rec = recorder()
    assert say(rec, 0, ids) is None
    assert (rec.empty, rec.finished, rec.words) == (1, [], [])


def test_open_text_grows_and_holds_back_half_a_character():
    rec = recorder()
    assert rec.open_text is None
    rec.feed(Opened(0.0, 3, 0))
    assert rec.open_text == ""
    rec.feed(Token(0.0, 0.1, 3, 1, 0))
    rec.feed(Token(0.1, 0.2, 3, 6, 0))
    assert rec.open_text == "the"
    rec.feed(Closed(0.2, 0.2, 3, "stream_end", False))
    assert rec.open_text is None


def test_events_out_of_order_are_refused():
    rec = recorder()
    with pytest.raises(ValueError, match="not open"):
        rec.feed(Token(0.0, 0.1, 0, 1, 0))
    rec.feed(Opened(0.0, 0, 0))
    with pytest.raises(ValueError, match="is open"):
        rec.feed(Opened(0.0, 0, 0))
