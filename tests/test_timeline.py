"""The one schema for time: what it takes, what it refuses, and how it says so."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_tsi.errors import UserError
from vlm_tsi.timeline import (
    Generated,
    Timeline,
    Utterance,
    Word,
    read_generated,
    read_timelines,
    write_generated,
    write_timelines,
)

GOOD = {
    "video_id": "a",
    "video_path": "a.mp4",
    "duration": 9.0,
    "system": "",
    "utterances": [{"role": "assistant", "text": "hello there", "start": 1.0, "end": 2.0}],
}


def with_turn(**changes):
    return {**GOOD, "utterances": [{**GOOD["utterances"][0], **changes}]}


def two_turns(first_start, second_start):
    turns = [
        {"role": "user", "text": "x", "start": s, "end": s + 1} for s in (first_start, second_start)
    ]
    return {**GOOD, "utterances": turns}


BAD = {
    "NaN": (with_turn(start=math.nan), "start"),
    "infinite": (with_turn(end=math.inf), "end"),
    "negative": (with_turn(start=-0.5), "start"),
    "reversed": (with_turn(start=2.0, end=1.0), "end"),
    "out of order": (two_turns(5.0, 1.0), "utterances[1].start"),
    "empty text": (with_turn(text=""), "text"),
    "blank text": (with_turn(text="  \n"), "text"),
    "text is a number": (with_turn(text=3), "text"),
    "time is a string": (with_turn(start="1.0"), "start"),
    "time is a bool": (with_turn(start=True), "start"),
    "unknown role": (with_turn(role="narrator"), "role"),
    "eval is not a bool": (with_turn(eval="yes"), "eval"),
    "word reversed": (with_turn(words=[{"text": "w", "start": 2, "end": 1}]), "end"),
    "words out of order": (
        with_turn(words=[{"text": "b", "start": 2, "end": 3}, {"text": "a", "start": 1, "end": 2}]),
        "words[1].start",
    ),
    "unknown field": (with_turn(colour="red"), "colour"),
    "no duration": ({k: v for k, v in GOOD.items() if k != "duration"}, "duration"),
    "negative duration": ({**GOOD, "duration": -1}, "duration"),
    "utterances are no list": ({**GOOD, "utterances": {}}, "utterances"),
    "utterance is no object": ({**GOOD, "utterances": ["hi"]}, "utterances[0]"),
    "words are no list": (with_turn(words=5), "words"),
    "a word is no object": (with_turn(words=[5]), "words[0]"),
    "a turn's meta is a number": (with_turn(meta=5), "meta"),
    "a turn's meta is null": (with_turn(meta=None), "meta"),
    "meta is a list": ({**GOOD, "meta": []}, "meta"),
    "meta is null": ({**GOOD, "meta": None}, "meta"),
    "speaker is a number": (with_turn(speaker=7), "speaker"),
    "system is a list": ({**GOOD, "system": []}, "system"),
    "a path with NUL": ({**GOOD, "video_path": "a\0.mp4"}, "video_path"),
    "a time of 400 digits": (with_turn(end=10**399), "end"),
    "half a surrogate pair": (with_turn(text="Tor \ud83d"), "text"),
    "half a pair in the id": ({**GOOD, "video_id": "\udcff"}, "video_id"),
    "empty id": ({**GOOD, "video_id": ""}, "video_id"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_is_refused_with_file_line_field_and_mend(tmp_path, name):
    record, field = BAD[name]
    path = tmp_path / "t.jsonl"
    path.write_text(
        json.dumps(GOOD)
        + "\n\n"
        + json.dumps({**record, "video_id": record["video_id"].replace("a", "b")})
        + "\n"
    )
    with pytest.raises(UserError) as caught:
        read_timelines(path)
    message = str(caught.value)
    assert f"{path}:3" in message and field in message and "\n" not in message
    assert caught.value.mend


BAD_GENERATED = {
    "estimated is a string": ({"end_is_estimated": "no"}, "end_is_estimated"),
    "scheme is a number": ({"scheme": 3}, "scheme"),
    "fewer than no tokens": ({"num_tokens": -5}, "num_tokens"),
    "tokens are a bool": ({"num_tokens": True}, "num_tokens"),
    "a frame before the first": ({"trigger_frame_idx": -2}, "trigger_frame_idx"),
    "text is null": ({"text": None}, "text"),
    "an id that is a list": ({"video_id": []}, "video_id"),
    "a start of 5,000 digits": ({"start": None}, "start"),
    "closed by nobody": ({"closed_by": "me"}, "closed_by"),
}


@pytest.mark.parametrize("name", BAD_GENERATED)
def test_a_bad_generated_utterance_is_refused(tmp_path, name):
    changes, field = BAD_GENERATED[name]
    path = tmp_path / "g.jsonl"
    text = json.dumps({"video_id": "a", "start": 0.5, "end": 1.0, "text": "hello"} | changes)
    path.write_text(text.replace("null", "9" * 5000) if "digits" in name else text)
    with pytest.raises(UserError, match=r"g\.jsonl:1") as caught:
        read_generated(path)
    assert field in str(caught.value) and len(str(caught.value)) < len(str(path)) + 200


def test_a_line_that_is_not_json_names_its_line(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(GOOD) + "\n{oops\n")
    with pytest.raises(UserError, match=r"t\.jsonl:2"):
        read_timelines(path)


def test_two_records_of_one_video_are_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD) + "\n")
    with pytest.raises(UserError, match="line 1 already"):
        read_timelines(path)


seconds = st.floats(0, 1e5, allow_nan=False).map(lambda x: round(x, 3))
texts = st.text(min_size=1, max_size=20).filter(lambda s: s.strip() and s.isprintable())


@st.composite
def utterances(draw):
    start, length = draw(seconds), draw(st.floats(0, 60).map(lambda x: round(x, 3)))
    words = tuple(Word(w, start, start + length) for w in draw(st.lists(texts, max_size=2)))
    return Utterance(
        draw(st.sampled_from(["assistant", "user"])), draw(texts), start, start + length,
        draw(st.booleans()), words, draw(st.none() | texts), {"kind": draw(texts)},
    )  # fmt: skip


@given(st.lists(utterances(), max_size=5), texts)
def test_what_is_written_is_read_back_equal(tmp_path_factory, turns, system):
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    ordered = tuple(sorted(turns, key=lambda u: u.start))
    timeline = Timeline("id", "v.mp4", 1e6, ordered, system, {"a": [1, 2]})
    write_timelines(path, [timeline])
    assert read_timelines(path) == [timeline]


@given(st.lists(st.tuples(seconds, texts), max_size=4))
def test_generated_utterances_are_read_back_equal(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("g") / "g.jsonl"
    spoken = [Generated("v", s, s + 1, t, True, 3, 7, "bos", "tsi") for s, t in rows]
    write_generated(path, spoken)
    assert read_generated(path) == spoken


def test_a_closing_that_does_not_exist_is_refused(tmp_path):
    path = tmp_path / "g.jsonl"
    path.write_text(
        '{"video_id": "v", "start": 0, "end": 1, "text": "x", "closed_by": "boredom"}\n'
    )
    with pytest.raises(UserError, match="closed_by.*boredom"):
        read_generated(path)
