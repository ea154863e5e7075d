"""The Goal-Step command: what it writes, what it refuses, any odd file."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_prep.goalstep import annotation, turns
from data_prep.goalstep.__main__ import main
from tests.data_prep.goalstep_records import meal
from vlm_tsi.files import read_json, write_json
from vlm_tsi.timeline import read_timelines


def test_the_command_writes_a_dialogue_that_gives_the_same_turns(tmp_path, capsys):
    write_json(tmp_path / "a.json", {"split": "val", "videos": [meal("v1"), meal("v2")]})
    out, again = tmp_path / "out", tmp_path / "again"
    assert main(["--annotations", str(tmp_path / "a.json"), "--out", str(out)]) == 0
    assert main(["--annotations", str(out / "dialogue.json"), "--out", str(again)]) == 0
    assert (out / "dialogue.json").read_bytes() == (again / "dialogue.json").read_bytes()
    first = read_json(out / "dialogue.json")[0]
    assert first["video_uid"] == "v1" and list(first["conversation"][0]) == [
        "role",
        "content",
        "time",
    ]
    report = read_json(out / "report.json")
    assert (report["read"], report["kept"], report["dropped"]) == (
        14,
        12,
        {"irrelevant to the goal": 2},
    )
    assert "2 timelines, 12 turns" in capsys.readouterr().out
    (tmp_path / "raw").mkdir()
    more = ["--videos", str(tmp_path / "raw"), "--limit", "1", "--resume", "--seed", "3"]
    assert main(["--annotations", str(tmp_path / "a.json"), "--out", str(out), *more]) == 0
    (timeline,) = read_timelines(out / "timelines.jsonl")
    assert timeline.video_path == "../raw/v1.mp4"


@pytest.mark.parametrize(
    ("value", "more", "told"),
    [
        ({"clips": []}, [], "is neither an annotation nor a dialogue"),
        ("text", [], "is neither an annotation nor a dialogue"),
        ([], [], "lists no video"),
        ([1], [], "none of its 1 videos"),
        ([1], ["--rewrite-url", "http://x/v1"], "a dialogue is not rewritten"),
        ([1], ["--durations", "a.json"], "a.json"),
        ({"videos": [1]}, ["--durations", "a.json"], "has its own"),
        ({"videos": [1]}, ["--rewrite-model", "m"], "--rewrite-url: is missing"),
        ({"videos": [1]}, ["--rewrite-url", "ftp://x"], "use http://host:port/v1"),
        ({"videos": [1]}, ["--rewrite-url", "http://["], "use http://host:port/v1"),
        ({"videos": [1]}, ["--rewrite-url", "http://x"], "--rewrite-model: is missing"),
        ({"videos": [1]}, ["--rewrite-timeout", "nan"], "--rewrite-timeout"),
        ({"videos": [1]}, ["--videos", "gone"], "gone is no folder"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(value, more, told, tmp_path, capsys):
    write_json(tmp_path / "x.json", value)
    asked = ["--annotations", str(tmp_path / "x.json"), "--out", str(tmp_path / "o"), *more]
    assert main(asked) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ") and told in last


@pytest.mark.parametrize("value", [[], {"v": 0}, {"v": {"fps": 0, "num_frames": 3}}, {"v": "long"}])
def test_odd_durations_are_refused_by_name(value, tmp_path, capsys):
    write_json(tmp_path / "d.json", value)
    write_json(tmp_path / "x.json", [{"video_uid": "v", "conversation": []}])
    asked = ["--annotations", str(tmp_path / "x.json"), "--out", str(tmp_path / "o")]
    assert main([*asked, "--durations", str(tmp_path / "d.json")]) == 2
    assert "d.json" in capsys.readouterr().err


odd = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 99), st.floats(), st.just([]), st.text(max_size=4)
)
times = st.one_of(st.floats(-5, 120), st.integers(-5, 120), odd)
texts = st.one_of(st.sampled_from(["Stirs soup", "(nods)", "Add salt", "so what now?"]), odd)
relevances = st.one_of(st.sampled_from(["essential", "unsure"]), odd)


def segments(below):
    keys = {"start_time": times, "step_category": texts, "is_relevant": relevances,
            "is_continued": st.booleans(), "segments": st.one_of(below, odd)}  # fmt: skip
    whole = st.fixed_dictionaries({"end_time": times, "step_description": texts}, optional=keys)
    return st.lists(st.one_of(whole, whole, odd), max_size=4)


levels = segments(segments(segments(st.just([]))))
uids = st.one_of(st.sampled_from(["a", "b"]), odd)
annotated = st.fixed_dictionaries(
    {"video_uid": uids, "segments": st.one_of(levels, odd)},
    optional={
        "end_time": times,
        "start_time": times,
        "goal_description": texts,
        "goal_category": texts,
    },
)
entries = st.fixed_dictionaries(
    {"role": st.one_of(st.sampled_from(["user", "assistant"]), odd), "content": texts},
    optional={"time": times},
)
spoken = st.fixed_dictionaries(
    {"video_uid": uids, "conversation": st.one_of(st.lists(st.one_of(entries, odd)), odd)},
    optional={"duration": times, "system": texts},
)
files = st.one_of(
    st.lists(st.one_of(annotated, odd), max_size=3).map(lambda v: {"videos": v}),
    st.lists(st.one_of(spoken, spoken, odd), max_size=3),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(files)
def test_any_odd_file_gives_a_valid_timeline_file_or_one_clear_line(tmp_path, capsys, data):
    (tmp_path / "a.json").write_text(json.dumps(data))
    out = tmp_path / "out"
    shutil.rmtree(out, ignore_errors=True)
    code = main(["--annotations", str(tmp_path / "a.json"), "--out", str(out)])
    printed = capsys.readouterr()
    if not (data["videos"] if isinstance(data, dict) else data):
        assert code == 2 and "lists no video" in printed.err
        return
    report = read_json(out / "report.json")
    for tally in (report, report["also"]["video"]):
        assert tally["read"] == tally["kept"] + sum(tally["dropped"].values())
        assert tally["repaired_records"] <= tally["kept"]
    if not report["also"]["video"]["kept"]:
        assert code == 2 and not (out / "timelines.jsonl").exists()
        return
    timelines = read_timelines(out / "timelines.jsonl")
    assert sum(len(t.utterances) for t in timelines) == report["kept"]
    assert (
        len(timelines) == report["also"]["video"]["kept"] == len(read_json(out / "dialogue.json"))
    )
    assert code == (0 if timelines else 2)
    for t in timelines:
        voice = [u for u in t.utterances if u.role == "assistant"]
        assert all(a.end <= b.start for a, b in zip(voice, voice[1:], strict=False))
        assert all(u.end <= t.duration for u in t.utterances)


def test_the_validation_file_adds_up_and_its_oddities_are_counted(shared_data, tmp_path):
    source = shared_data / "goalstep/goalstep_valid.json"
    assert main(["--annotations", str(source), "--out", str(tmp_path)]) == 0
    report = read_json(tmp_path / "report.json")
    assert report["read"] == 3349 + 4347 and report["kept"] == 6715
    noted = report["noted"]
    assert noted[annotation.OVERLAP] == 82 and noted["substep lacks segments"] == 4347
    assert noted[annotation.OUTSIDE_PARENT] == 261 and noted["step lacks is_relevant"] == 1
    assert report["repaired"][turns.OUT_OF_ORDER] == 2
