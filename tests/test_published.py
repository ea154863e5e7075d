"""The published formats, both ways, and what they refuse."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlm_tsi.errors import UserError
from vlm_tsi.published import (
    annotations_to_dict,
    estimated_end,
    prediction_csv,
    read_annotations,
    read_prediction_csv,
    read_predictions,
    read_references,
    write_annotations,
    write_prediction_csv,
)
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_timelines

GAME = "england_epl/2015-2016/2015-08-29 - 17-00 Manchester City 2 - 0 Watford/1_224p"
PUBLISHED = {
    GAME: [
        {"role": "system", "content": "You watch football."},
        {"role": "user", "content": "Für wen?", "start": 0, "end": 1.25, "eval": False},
        {"role": "assistant", "content": "And here goes\nAguero.", "start": 1.5, "end": 3.0, "eval": True},
    ],
    "empty": [],
}  # fmt: skip


def write(tmp_path, value, name="r.json"):
    path = tmp_path / name
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_bytes(text.encode("utf-8"))
    return path


def test_annotations_there_and_back(tmp_path):
    timelines = read_annotations(write(tmp_path, PUBLISHED))
    assert timelines[0].system == "You watch football." and timelines[0].duration == 3.0
    assert [u.role for u in timelines[0].utterances] == ["user", "assistant"]
    assert timelines[1].duration == 0 and timelines[1].system == ""
    assert annotations_to_dict(timelines) == PUBLISHED
    write_annotations(tmp_path / "again.json", timelines)
    assert read_annotations(tmp_path / "again.json") == timelines


def test_durations_and_paths_are_given(tmp_path):
    path = write(tmp_path, PUBLISHED)
    first, second = read_annotations(path, durations={GAME: 2700}, video_paths={GAME: "x.mkv"})
    assert (first.duration, first.video_path) == (2700, "x.mkv")
    assert (second.duration, second.video_path) == (0, "")


def test_writing_refuses_the_same_id_twice():
    with pytest.raises(ValueError, match="stands twice"):
        annotations_to_dict([Timeline("a", "", 1)] * 2)


GOOD = {"role": "assistant", "content": "x", "start": 1, "end": 2, "eval": True}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"start": math.nan}, "start is nan; use finite seconds"),
        ({"start": -1}, "start is -1; use finite seconds"),
        ({"end": 0.5}, "end is 0.5; make it at least start"),
        ({"end": None}, "end is None; use finite seconds"),
        ({"start": "1"}, "start is '1'; use finite seconds"),
        ({"content": " "}, "content is ' '; give it words"),
        ({"content": None}, "content is None; give it words"),
        ({"role": "coach"}, "role is 'coach'; use system, user or assistant"),
        ({"role": "system"}, "start is 1 in a system entry; remove start"),
        ({"eval": "yes"}, "eval is 'yes'; use true or false"),
        ({"evl": True}, "unknown field evl; remove it"),
        ({"start": 0.25}, "start is 0.25; sort utterances by start"),
    ],
)
def test_a_bad_entry_is_refused(tmp_path, change, words):
    first = {**GOOD, "start": 0.5}
    path = write(tmp_path, {"v": [first, {**GOOD, **change}]})
    with pytest.raises(UserError) as err:
        read_annotations(path)
    assert str(err.value).startswith(f"{path}: 'v' entry 1: {words}")


@pytest.mark.parametrize("name", ["role", "content", "start", "end"])
def test_a_missing_field_is_named(tmp_path, name):
    path = write(tmp_path, {"v": [{k: v for k, v in GOOD.items() if k != name}]})
    shown = "start" if name == "start" else name
    with pytest.raises(UserError, match=f"'v' entry 0: {shown} is missing; add {shown}"):
        read_annotations(path)


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"a": [],\n "a": []}', "'a' stands twice"),
        ('{"a": [\n}', ":2: not JSON"),
        ("[]", "not a JSON object"),
        ('{"a": 1}', "'a': '1' is not a list"),
        ('{"a": [3]}', "entry 0: 3 is not a JSON object"),
        ('{"a": [{"role": "system", "content": "x"}, {"role": "system", "content": "y"}]}', "entry 1: a second system"),
        ("", ":1: not JSON"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused(tmp_path, text, words):
    with pytest.raises(UserError) as err:
        read_annotations(write(tmp_path, text))
    assert words in str(err.value)


def test_csv_with_mark_crlf_and_quoted_newlines(tmp_path):
    text = (
        '\ufeffvideo_id,start,end,content\r\n"a, b",1.5,2.25,"Go\r\non ""now"""\r\n\r\nc,3,4,ü\r\n'
    )
    got = read_prediction_csv(write(tmp_path, text, "p.csv"))
    assert got == [
        Generated("a, b", 1.5, 2.25, 'Go\non "now"'),
        Generated("c", 3.0, 4.0, "ü"),
    ]
    assert all(g.num_tokens == -1 for g in got)


@pytest.mark.parametrize(
    "text",
    [
        "video_id,start,content\na,1,one two three four five\n",
        "video_id,start,end,content\na,1,,one two three four five\n",
    ],
)
def test_a_missing_end_is_estimated_and_marked(tmp_path, text):
    (got,) = read_prediction_csv(write(tmp_path, text, "p.csv"))
    assert (got.end, got.end_is_estimated) == (3.0, True)


def test_estimates_agree_at_the_papers_rate():
    """150 words a minute and 1.3 tokens a word (Appendix A)."""
    assert estimated_end(1, "a b c d e") == 3
    assert estimated_end(1, "whatever", num_tokens=13) == pytest.approx(1 + 13 / (150 * 1.3 / 60))
    assert estimated_end(1, "whatever", num_tokens=0) == 1


def test_jsonl_predictions_without_end(tmp_path):
    lines = '{"video_id":"a","start":1,"text":"x y","num_tokens":13}\n{"video_id":"a","start":9,"text":"x y","end":null}\n'
    first, second = read_predictions(write(tmp_path, lines, "p.jsonl"))
    assert (first.end, first.end_is_estimated) == (5.0, True)
    assert second.end == pytest.approx(9.8)
    for bad in ('{"video_id":"a","start":"1","text":"x"}', '{"video_id":"a","start":1}'):
        with pytest.raises(UserError, match="p.jsonl:1: "):
            read_predictions(write(tmp_path, bad, "p.jsonl"))


@pytest.mark.parametrize(
    "text, words",
    [
        ("video_id,start,end,content\na,1,2,x\n\na,nan,2,x\n", ":4: start is nan; use finite"),
        ('video_id,start,end,content\na,1,2,"x\ny"\na,-1,2,x\n', ":4: start is -1.0; use finite"),
        ("video_id,start,end,content\na,3,2,x\n", ":2: end is 2.0; make it at least start"),
        ("video_id,start,content\na,soon,x\n", ":2: start is 'soon'; use seconds"),
        ("video_id,start,content\n,1,x\n", ":2: video_id is ''; give each video a name"),
        ("video_id,start,content\na,1,x,y\n", ":2: 4 cells under 3 columns; quote"),
        ("video_id,start,content\na,1\n", ":2: 2 cells under 3 columns; quote"),
        ("video_id,begin,content\na,1,x\n", ":1: its columns are 'video_id,begin,content'; use"),
        ("video_id,start,content,id\na,1,x,1\n", ":1: its columns are"),
        ("video_id,start,start,content\na,1,1,x\n", ":1: its columns are"),
        ("", ":1: its columns are ''"),
        ('video_id,start,content\na,1,"x\n', ":2: not CSV"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path, text, words):
    path = write(tmp_path, text, "p.csv")
    with pytest.raises(UserError) as err:
        read_prediction_csv(path)
    assert str(err.value).startswith(f"{path}{words}")


def test_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"video_id,start,content\na,1,\xff\n")
    with pytest.raises(UserError, match="not UTF-8; save it as UTF-8"):
        read_prediction_csv(tmp_path / "p.csv")


SECONDS = st.floats(0, 1e6, allow_nan=False)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"))
SAID = st.builds(
    lambda v, s, d, t: Generated(v, s, s + d, t),
    TEXT.filter(str.strip), SECONDS, SECONDS, TEXT,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(SAID, max_size=4))
def test_csv_there_and_back(tmp_path_factory, said):
    path = tmp_path_factory.mktemp("csv") / "p.csv"
    write_prediction_csv(path, said)
    assert read_prediction_csv(path) == said
    assert prediction_csv(said).startswith("video_id,start,end,content\n")


def test_the_suffix_chooses_the_reader(tmp_path):
    timeline = Timeline("v", "v.mp4", 3, (Utterance("assistant", "x", 1, 2, eval=True),))
    write_timelines(tmp_path / "r.jsonl", [timeline])
    write_annotations(tmp_path / "r.json", [timeline])
    assert read_references(tmp_path / "r.jsonl") == [timeline]
    assert read_references(tmp_path / "r.json")[0].utterances == timeline.utterances


def test_an_annotation_file_serves_as_predictions_too(tmp_path):
    """The assistant's turns are what was said, scored ones and others alike."""
    path = tmp_path / "said.json"
    turns = [
        {"role": "system", "content": "watch"},
        {"role": "user", "content": "what is it", "start": 0.0, "end": 0.5, "eval": False},
        {"role": "assistant", "content": "a ball", "start": 1.0, "end": 2.0, "eval": True},
        {"role": "assistant", "content": "again", "start": 3.0, "end": 3.5, "eval": False},
    ]
    path.write_text(json.dumps({"v": turns}))
    said = [(g.video_id, g.start, g.end, g.text) for g in read_predictions(path)]
    assert said == [("v", 1.0, 2.0, "a ball"), ("v", 3.0, 3.5, "again")]
