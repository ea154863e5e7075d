"""Timelines are checked line by line, and everything that is wrong is told."""

import json

import numpy as np
import pytest

from data_prep import validate
from vlm_tsi.timeline import Timeline, Utterance, Word, timeline_to_dict
from vlm_tsi.video.writer import write_mp4

TURN = Utterance("assistant", "so", 1.0, 2.0, True, (Word("so", 1.0, 2.0),))


def record(**change):
    whole = timeline_to_dict(Timeline("v#0", "v.mp4", 2.0, (TURN,), meta={"window": [1.0, 2.0]}))
    return whole | change


def turn(**change):
    return [record()["utterances"][0] | change]


@pytest.fixture
def place(tmp_path):
    write_mp4(tmp_path / "v.mp4", [np.zeros((32, 32, 3), np.uint8)] * 10, fps=5.0)
    return tmp_path


def checked(place, *records, name="t.jsonl", more=()):
    path = place / name
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
    return validate.main([str(path), *more])


def test_what_is_well_passes_with_a_summary(place, capsys):
    assert checked(place, record()) == 0
    assert "1 files, 1 lines, 1 utterances, 1 scored: all well" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("{", "not JSON"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        ("[1]", "is not a JSON object"),
        (record(duration="long"), "duration is 'long'"),
        (record(meta={"window": [2, 1]}), "meta.window is [2, 1]"),
        (record(meta={"window": "all"}), "meta.window is 'all'"),
        (record(meta={"window": [0, float("inf")]}), "meta.window is [0, inf]"),
        (record(meta={"window": [1, 9]}), "after the video"),
        (record(meta={"window": [1.5, 2]}), "is scored but 1.0-2.0 s is not in"),
        (record(utterances=turn(words=[{"text": "so", "start": 0.5, "end": 2}])), "outside of its"),
        (record(duration=9.0), "duration is 9.0 s, but"),
        (record(video_path="none.mp4"), "none.mp4: No such file"),
        (record(video_path="t.jsonl"), "t.jsonl"),
        (record(video_path=""), "video_path is empty"),
    ],
)
def test_each_breach_is_told_with_its_line(place, capsys, bad, told):
    assert checked(place, record(video_id="fine"), bad) == 2
    out = capsys.readouterr().out
    assert told in out and "t.jsonl:2" in out and "1 problems" in out


def test_all_problems_are_listed_not_only_the_first(place, capsys):
    assert checked(place, "{", record(duration=-1), record(), record()) == 2
    out = capsys.readouterr().out
    assert all(f"t.jsonl:{n}" in out for n in (1, 2, 4)) and "stands at" in out
    assert "3 problems" in out


def test_ids_are_unique_across_files(place, capsys):
    assert checked(place, record(), name="a.jsonl") == 0
    assert checked(place, record(), name="b.jsonl", more=[str(place / "a.jsonl")]) == 2
    assert "a.jsonl:1" in capsys.readouterr().out


def test_without_videos_they_are_not_looked_for(place):
    assert checked(place, record(video_path=""), more=["--no-video"]) == 0


def test_an_empty_or_missing_file_is_a_problem(place, capsys):
    assert checked(place, "") == 2 and "holds no line" in capsys.readouterr().out
    assert validate.main([str(place / "none.jsonl")]) == 2
