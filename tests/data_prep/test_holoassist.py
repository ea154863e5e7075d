"""HoloAssist: every event has its fate, both rules, files whole or not at all."""

import copy
import gzip
import itertools
import json
import shutil
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_prep.holoassist import events as ev
from data_prep.holoassist import table
from data_prep.holoassist import videos as vid
from data_prep.holoassist.__main__ import main
from vlm_tsi.files import read_jsonl, write_json
from vlm_tsi.timeline import read_timelines
from vlm_tsi.worlds.datapoints import INTERACTION_BEGINS, INTERACTION_ENDS

OTHER = "instructor-start-conversation_other"
QUESTION = "student-start-conversation_ask questions"
NUMBERS = itertools.count(1000)
LOW = {"Transcription Confidence": "low-confidence-transcription"}


def talk(start, end, text="Turn the dial.", purpose=OTHER, number=None, **attributes):
    number = next(NUMBERS) if number is None else number
    said = {"Conversation Purpose": purpose, "Transcription": text, **attributes}
    return {"id": number, "label": "Conversation", "type": "range", "start": start, "end": end,
            "attributes": said}  # fmt: skip


def narration(text="A student sets a dial."):
    return {"id": 0, "label": "Narration", "type": "range", "start": 0, "end": 60,
            "attributes": {"Long form description": text}}  # fmt: skip


def video(*events, name="v1", **fields):
    length = {"raw": "00:01:00.50", "seconds": 60}
    return {"video_name": name, "taskId": "t", "taskType": "setup switch",
            "videoMetadata": {"duration": length}, "events": list(events), **fields}  # fmt: skip


def lesson(name="v1"):
    """An instruction, a question inside, a correction, and one word after it."""
    return video(
        narration(),
        talk(1, 3, "Hello.", number=1),
        talk(5, 7, "Turn the dial left.", INTERACTION_BEGINS, 2),
        talk(8, 9, "This dial?", QUESTION, 3),
        talk(10, 12, "No, the small one.", INTERACTION_ENDS, 4),
        talk(15, 16, "Good.", number=5),
        talk(50, 51, "Bye.", number=6),
        {"id": 7, "label": "Fine grained action", "start": 9, "end": 11, "attributes": {"Verb": "turn", "Adjective": ["small", "left"]}},
        name=name,
    )  # fmt: skip


def read(*records, rules="paper"):
    corpus = vid.read_videos(records, rules)
    for tally in (corpus.events, corpus.videos):
        tally.to_dict()  # adds up
    return corpus


def only(*events, rules="paper"):
    """The turns of a video with these events and one harmless turn at 55 s; and the tally."""
    corpus = read(video(*events, talk(55, 56, "Done.", number=99)), rules=rules)
    (timeline,) = corpus.timelines
    return [u for u in timeline.utterances if u.start != 55], corpus.events


def test_a_timeline_holds_the_dialogue_with_roles_narration_and_task():
    (timeline,) = read(lesson()).timelines
    assert timeline.video_id == timeline.video_path == "v1/Export_py/Video_pitchshift.mp4"
    assert timeline.system == "A student sets a dial."
    assert timeline.duration == 60.5
    assert timeline.meta == {"corpus": "holoassist", "task_id": "t", "task_type": "setup switch",
                             "task_group": "Setup Electronics"}  # fmt: skip
    assert [u.role for u in timeline.utterances] == ["assistant"] * 2 + ["user"] + ["assistant"] * 3
    assert timeline.utterances[2].speaker == "student"
    assert timeline.utterances[2].meta == {"purpose": QUESTION}
    assert [u.eval for u in timeline.utterances] == [False, True, False, True, False, False]


def test_released_rules_score_ten_seconds_more_trim_the_rest_and_leave_videos_out():
    corpus = read(lesson(), video(narration(), talk(1, 2), name="v2"), rules="released")
    (timeline,) = corpus.timelines
    assert [u.eval for u in timeline.utterances] == [False, True, False, True, True]
    assert corpus.events.dropped == {vid.TRAILING: 1, ev.ACTION: 1, vid.VIDEO_OUT: 2}
    assert corpus.videos.dropped == {vid.NO_CORRECTION: 1}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("low-confidence-transcription", ev.LOW_CONFIDENCE),
        ([], ev.LIST_CONFIDENCE),
        ("21", ev.ODD_CONFIDENCE),
        (21, ev.ODD_CONFIDENCE),
    ],
)
def test_a_confidence_other_than_none_drops_the_turn_by_name(value, reason):
    turns, tally = only(talk(1, 2, **{"Transcription Confidence": value}))
    assert turns == [] and tally.dropped == {reason: 1}


@pytest.mark.parametrize("value", ["none", None])
def test_confidence_none_or_absent_keeps_the_turn(value):
    assert len(only(talk(1, 2, **{"Transcription Confidence": value}))[0]) == 1


def test_unintelligible_speech_is_cut_out_or_dropped_and_kept_by_the_released_rules():
    said = ["*unintelligible*", "*Unintelligible*.", "Take the *unintelligible*, please."]
    turns, tally = only(*[talk(k, k + 1, text) for k, text in enumerate(said)])
    assert [u.text for u in turns] == ["Take the, please."]
    assert tally.dropped == {ev.UNINTELLIGIBLE: 2} and tally.repaired == {ev.UNHEARD_CUT: 1}
    assert tally.noted == {ev.UNHEARD_ALL: 2, ev.UNHEARD_SOME: 1}
    corrected = talk(20, 21, "No.", INTERACTION_ENDS)
    kept = read(video(talk(1, 2, said[0]), corrected), rules="released").timelines[0].utterances
    assert [u.text for u in kept] == [said[0], "No."]


def test_the_filler_none_is_dropped_and_the_spoken_word_kept():
    turns, tally = only(talk(1, 2, "none"), talk(3, 4, "None."))
    assert [u.text for u in turns] == ["None."]
    assert tally.dropped == {ev.FILLED_IN: 1} and tally.noted == {ev.WORD_NONE: 2}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("text", ev.NOT_AN_EVENT),
        ({"label": "Conversation", "start": 1, "end": 2}, ev.NO_ATTRIBUTES),
        ({**talk(1, 2), "label": "Gaze"}, ev.UNKNOWN_LABEL),
        (talk(1, 2, purpose=None), ev.NO_PURPOSE),
        (talk(1, 2, purpose=["a"]), ev.NO_PURPOSE),
        (talk(1, 2, purpose="bystander_other"), ev.NO_SPEAKER),
        (talk(1, 2, None), ev.NO_TRANSCRIPTION),
        (talk(1, 2, ["Hi"]), ev.NO_TEXT),
        (talk(1, 2, "  "), "text is empty"),
        (talk(float("nan"), 2), "time is no finite number"),
        (talk(1, float("inf")), "time is no finite number"),
        (talk("1", 2), "time is no finite number"),
        ({k: v for k, v in talk(1, 2).items() if k != "end"}, "time is no finite number"),
        (talk(-3, -2), "ends before the video begins"),
        (narration("none"), "narration: the filler none"),
        (narration(None), "narration: text is no string"),
    ],
)
def test_an_event_that_cannot_be_used_is_dropped_by_name(event, reason):
    turns, tally = only(event)
    assert turns == [] and tally.dropped == {reason: 1}


def test_odd_times_ids_purposes_and_lists_are_survived_and_counted():
    turns, tally = only(
        talk(30, 31, "Later.", number=5),
        talk(10, 12, "Early.", number=5),
        talk(11, 13, "Across.", purpose="instructor-start-conversation_new", number=6),
        talk(20, 19, "Five words are said here.", number=7),
        talk(-1, 2, "Low.", number=8),
        talk(58, 61, "Long.", number=9, **{"Conversation Purpose -- Other": ["x"]}),
    )
    assert [u.text.split()[0] for u in turns] == [
        "Low.",
        "Early.",
        "Across.",
        "Five",
        "Later.",
        "Long.",
    ]
    assert turns[0].start == 0 and turns[3].end == 22
    assert tally.repaired == {
        vid.OUT_OF_ORDER: 3,
        "end before start estimated from its words": 1,
        "start below 0 set to 0": 1,
    }
    assert tally.noted == {vid.SAME_ID: 1, vid.OVERLAP: 1, ev.UNKNOWN_PURPOSE: 1,
                           vid.AFTER_END: 1, ev.LISTED: 1}  # fmt: skip


def test_videos_that_cannot_be_used_are_dropped_by_name_and_their_events_with_them():
    bad = [
        "text",
        {"events": [talk(1, 2)]},
        lesson("a"),
        lesson("a"),
        {"video_name": "b", "events": None},
        video(narration(), talk(1, 2, **LOW), name="c"),
    ]
    corpus = read(*bad)
    assert corpus.videos.dropped == {vid.NOT_A_VIDEO: 1, vid.NO_NAME: 1, vid.TWICE: 1,
                                     vid.NO_EVENTS: 1, vid.NO_DIALOGUE: 1}  # fmt: skip
    assert corpus.events.dropped[vid.VIDEO_OUT] == 1 + 8 + 1
    assert corpus.events.read == 1 + 8 + 8 + 2


def test_a_video_without_narration_length_or_known_task_is_noted():
    corpus = read(video(talk(1, 70), name="v", videoMetadata={}, taskType=None), lesson("w"))
    assert corpus.timelines[0].duration == 70 and corpus.timelines[0].system == ""
    assert corpus.videos.repaired == {vid.NO_DURATION: 1}
    assert corpus.videos.noted == {vid.NO_NARRATION: 1, vid.NOTHING_SCORED: 1, vid.NO_GROUP: 1}
    two = read(video(narration("one"), narration("two"), talk(1, 70)))
    assert two.timelines[0].system == "one" and two.timelines[0].duration == 70
    assert two.videos.repaired == {vid.SHORT: 1}
    assert two.events.dropped == {vid.SECOND_NARRATION: 1}


def test_the_papers_twenty_tasks_have_their_five_groups():
    assert len(vid.TASK_GROUPS) == 20
    sizes = Counter(vid.TASK_GROUPS.values())
    assert sorted(sizes.values()) == [2, 3, 4, 4, 7]


def test_statistics_are_those_counted_by_hand():
    timelines = {r: read(lesson(), rules=r).timelines for r in ("paper", "released")}
    split, join, _, released = table.rows(timelines)
    assert (split.size, join.size, released.size) == (2, 1, 1)
    assert split.utterances == (2 + 4) / 2 and join.utterances == 4 and released.utterances == 5
    assert split.gap == (2 + 2 + 1 + 1) / 4 and released.gap == (2 + 1 + 1 + 3) / 4
    words = (1 + 4) + (1 + 4 + 2 + 4)
    assert split.words == words / 6 and split.tokens == pytest.approx(1.3 * words / 6)
    assert table.row([], "paper", "join").size == table.row([], "paper", "join").gap == 0


def test_the_command_writes_what_it_says(tmp_path, capsys):
    source = tmp_path / "a.json.gz"
    source.write_bytes(gzip.compress(json.dumps([lesson("v1"), lesson("v2")]).encode()))
    (tmp_path / "raw/v1/Export_py").mkdir(parents=True)
    (tmp_path / "raw/v1/Export_py/Video_pitchshift.mp4").touch()
    out = tmp_path / "out"
    asked = ["--annotations", str(source), "--out", str(out), "--videos", str(tmp_path / "raw")]
    assert main(asked) == 0
    timelines = read_timelines(out / "timelines.jsonl")
    assert timelines[0].video_path == "../raw/v1/Export_py/Video_pitchshift.mp4"
    points = read_timelines(out / "datapoints.jsonl")
    assert [p.video_id.rsplit("#")[-1] for p in points] == ["0", "1", "0", "1"]
    assert points[1].meta["window"] == [10, 12] and points[1].meta["task_group"]
    report = json.loads((out / "report.json").read_text())
    assert report["read"] == report["kept"] + sum(report["dropped"].values()) == 16
    assert report["also"]["video"]["noted"] == {vid.NO_FILE: 1}
    assert str(tmp_path) not in (out / "report.json").read_text()
    rows = json.loads((out / "statistics.json").read_text())["rows"]
    assert [(r["rules"], r["user_turns"], r["size"]) for r in rows] == [
        ("paper", "split", 4), ("paper", "join", 2), ("released", "split", 4), ("released", "join", 2)
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert "2 timelines" in printed and "4 datapoints" in printed and "15.84" in printed
    assert main([*asked, "--rules", "released", "--limit", "1"]) == 0
    assert len(list(read_jsonl(out / "datapoints.jsonl"))) == 1


@pytest.mark.parametrize(
    ("value", "told"),
    [({}, "is a dict, not a list"), ([], "lists no video"), ([1], "none of its 1 videos")],
)
def test_a_file_of_another_shape_is_one_line(value, told, tmp_path, capsys):
    write_json(tmp_path / "a.json", value)
    asked = ["--annotations", str(tmp_path / "a.json"), "--out", str(tmp_path / "o")]
    assert main(asked) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ") and told in last


def test_options_are_checked_before_any_work(tmp_path, capsys):
    asked = ["--annotations", "gone.json", "--out", str(tmp_path / "o")]
    assert main([*asked, "--limit", "0"]) == 2
    assert main([*asked, "--videos", str(tmp_path / "none")]) == 2
    assert main(asked) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert ["--limit" in lines[0], "--videos" in lines[1], "gone.json" in lines[2]] == [True] * 3


odd = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 99), st.floats(), st.just("none"), st.just([]),
    st.text(max_size=4), st.lists(st.integers(), max_size=1),
)  # fmt: skip
times = st.one_of(st.floats(-5, 90), st.integers(-5, 90), odd)
said = st.one_of(st.sampled_from(["Left.", "*unintelligible*", "no *unintelligible* so"]), odd)
confidences = st.one_of(st.sampled_from(["none", "21", "low-confidence-transcription"]), odd)
purposes = st.one_of(st.sampled_from(sorted(ev.PURPOSES)), odd)
attributes = st.one_of(
    odd,
    st.fixed_dictionaries(
        {"Conversation Purpose": purposes, "Transcription": said},
        optional={"Transcription Confidence": confidences, "sequence": odd},
    ),
    st.fixed_dictionaries({"Long form description": said}),
)
labels = st.one_of(st.sampled_from(["Conversation", "Narration", *ev.ACTIONS]), odd)
events = st.fixed_dictionaries(
    {"label": labels, "attributes": attributes}, optional={"id": odd, "start": times, "end": times}
)
names = st.one_of(st.sampled_from(["a", "b"]), odd)
records = st.one_of(
    odd,
    st.fixed_dictionaries(
        {"video_name": names, "events": st.one_of(st.lists(st.one_of(events, odd)), odd)},
        optional={"videoMetadata": odd, "taskType": odd, "taskId": odd},
    ),
    st.lists(st.builds(talk, st.floats(0, 60), st.floats(0, 60), said, purposes)).map(
        lambda turns: video(*turns, name="c")
    ),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(records, max_size=4), st.sampled_from(["paper", "released"]))
def test_any_list_of_odd_events_gives_a_valid_file_or_one_clear_line(tmp_path, capsys, data, rules):
    before = copy.deepcopy(data)
    (tmp_path / "a.json").write_text(json.dumps(data))
    out = tmp_path / "out"
    shutil.rmtree(out, ignore_errors=True)
    code = main(["--annotations", str(tmp_path / "a.json"), "--out", str(out), "--rules", rules])
    printed = capsys.readouterr()
    if not data:
        assert code == 2 and "lists no video" in printed.err
        return
    report = json.loads((out / "report.json").read_text())
    for tally in (report, report["also"]["video"]):
        assert tally["read"] == tally["kept"] + sum(tally["dropped"].values())
        assert tally["repaired_records"] <= tally["kept"]
    listed = [r["events"] for r in before if isinstance(r, dict) and isinstance(r["events"], list)]
    assert report["read"] == sum(map(len, listed))
    if not report["also"]["video"]["kept"]:
        assert code == 2 and not (out / "timelines.jsonl").exists()
        return
    timelines = read_timelines(out / "timelines.jsonl")
    assert len(timelines) == report["also"]["video"]["kept"]
    turns = sum(len(t.utterances) for t in timelines)
    assert turns + sum(bool(t.system) for t in timelines) == report["kept"]
    read_timelines(out / "datapoints.jsonl")
    assert code == (0 if timelines else 2)
    assert timelines or "none of its" in printed.err


def test_the_sample_adds_up_and_gives_its_known_statistics(shared_data, tmp_path):
    source = shared_data / "holoassist/data-annotation-sample-v1_1.json.gz"
    assert main(["--annotations", str(source), "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["read"], report["kept"], report["also"]["video"]["kept"]) == (36339, 6350, 330)
    rows = json.loads((tmp_path / "statistics.json").read_text())["rows"]
    shown = [(r["size"], round(r["utterances"], 2), round(r["gap"], 2)) for r in rows]
    assert shown == [(327, 13.64, 6.5), (242, 12.92, 8.06), (375, 15.27, 6.33), (281, 14.67, 7.55)]
