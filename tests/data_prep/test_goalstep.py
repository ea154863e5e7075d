"""Goal-Step: guidance from steps, the released code's rules for dialogues."""

import pytest

from data_prep.common.annotations import BROKEN_CHARACTER
from data_prep.common.report import Tally
from data_prep.goalstep import annotation, dialogue, turns, wording
from tests.data_prep.goalstep_records import meal, segment, video
from vlm_tsi.files import write_json


def run(videos):
    """Timelines, entry tally and video tally."""
    found = [t for v in videos if not v.dropped and (t := turns.timeline(v, "v.mp4"))]
    entries, tally = Tally("entry"), Tally("video")
    for v in videos:
        turns.count(v, entries, tally)
    entries.to_dict(), tally.to_dict()  # add up
    return found, entries, tally


def steps(*records, seed=0, **data):
    return run(annotation.read_videos({"videos": list(records), **data}, seed, None))


def only(*segments, **fields):
    """The turns of a video with these segments, and the tally without the usual note."""
    found, entries, _ = steps(video(*segments, **fields))
    return [u for t in found for u in t.utterances], entries


def talk(*entries, durations=None, **fields):
    record = {"video_uid": "v1", "conversation": list(entries), **fields}
    return run(dialogue.read_videos([record], durations or {}, None))


def says(role, content, time):
    return {"role": role, "content": content, "time": time}


def test_steps_and_substeps_become_guidance_when_they_begin():
    (timeline,), entries, _ = steps(meal(), split="val")
    assert timeline.duration == 100 and timeline.meta["split"] == "val"
    assert timeline.system == "The user's goal: Make soup. Tell them each step when its time comes."
    told = [u.text.lower() for u in timeline.utterances]
    wanted = [
        "cut the onion",
        "peel onion",
        "slice onion",
        "stir soup",
        "peel a carrot",
        "stir soup",
    ]
    assert [w in t for w, t in zip(wanted, told, strict=True)] == [True] * 6
    assert [u.start for u in timeline.utterances][2:] == [10, 40, 61, 80]
    first, second = timeline.utterances[:2]
    assert first.start == 2 and second.start == first.end == 2 + len(first.text.split()) / 2.5
    assert {u.role for u in timeline.utterances} == {"assistant"}
    assert [u.meta["kind"] for u in timeline.utterances][:3] == ["step", "substep", "substep"]
    assert told[-1].startswith(("go on", "carry on", "back to it"))
    assert entries.dropped == {"irrelevant to the goal": 1}
    assert entries.repaired == {turns.WAITED: 1}


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ("Stirs the soup..", "stir the soup"),
        ("mixing flour", "mix flour"),
        ("Making bread", "make bread"),
        ("cutting Onions`", "cut Onions"),
        ("fries egg", "fry egg"),
        ("washes cup", "wash cup"),
        ("press dough", "press dough"),
        ("TV watch", "TV watch"),
        ("singing loudly", "sing a song"),
        ("", "sing a song"),
    ],
)
def test_descriptions_become_instructions(description, said):
    verbs = wording.verbs_of(["stir", "Mix it", "make", "cut", "fry", "wash", ""])
    assert wording.instruction(description, "Music: Sing a song", verbs) == said


def test_what_has_no_instruction_at_all_is_said_as_it_stands():
    assert wording.instruction("singing", "", frozenset()) == "singing"


def test_templates_depend_on_seed_video_and_turn_alone():
    texts = {
        (seed, uid): [u.text for u in steps(meal(uid), seed=seed)[0][0].utterances]
        for seed in (0, 1) for uid in ("a", "b", "c")
    }  # fmt: skip
    assert len({tuple(t) for t in texts.values()}) > 3
    again, *_ = steps(meal("x"), meal("b"), seed=1)
    assert [u.text for u in again[1].utterances] == texts[1, "b"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (7, annotation.NOT_A_SEGMENT),
        (segment(1, 5, is_relevant="unsure"), "unsure if relevant to the goal"),
        (segment(1, 5, "", ""), annotation.NO_WORDS),
        (segment(None, 5), "time is no finite number"),
        (segment(1, float("nan")), "time is no finite number"),
        (segment(-9, -5), "ends before the video begins"),
        (segment(120, 130), turns.PAST_END),
        (segment(99.5, 100), turns.TOO_LATE),
    ],
)
def test_a_segment_that_cannot_be_said_is_dropped_by_name(bad, reason):
    said, entries = only(bad, segment(50, 60, "Add salt"))
    assert len(said) == 1 and entries.dropped == {reason: 1}


def test_odd_segments_are_survived_and_counted_by_name():
    said, entries = only(
        segment(20, 40, "Add salt", below=[
            segment(15, 22, "Take salt", below="none"),
            segment(30, 45, "Open salt", below=[segment(31, 32)]),
        ]),
        segment(10, 25, "Wash hands", is_relevant="maybe"),
        {"start_time": 24, "end_time": 23, "step_description": "Dry hands", "segments": None},
        segment(-1, 8, "Start", is_relevant=[]),
    )  # fmt: skip
    assert [u.start for u in said] == sorted(u.start for u in said)
    assert len(said) == 6 and said[0].start == 0
    assert entries.dropped == {annotation.THIRD_LEVEL: 1}
    assert {k: v for k, v in entries.noted.items() if "lacks" not in k} == {
        annotation.OUTSIDE_PARENT: 2,
        annotation.OVERLAP: 3,
        annotation.ODD_RELEVANCE: 2,
    }
    lacking = ["category", "is_continued", "is_procedural", "is_relevant", "summary"]
    assert sum(entries.noted[f"step lacks {k}"] for k in lacking[1:]) == 4
    assert entries.noted["step lacks step_category"] == entries.noted["substep lacks segments"] == 1
    assert entries.repaired[annotation.BEFORE_PARENT] == 1
    assert entries.repaired[turns.OUT_OF_ORDER] == 2
    assert entries.repaired["end before start estimated from its words"] == 1


def test_the_same_instruction_twice_in_a_row_is_said_once():
    said, entries = only(segment(1, 5), segment(6, 9), segment(20, 30, "Add salt"), segment(40, 50))
    assert len(said) == 3 and entries.dropped == {annotation.REPEATS: 1}


def test_a_step_that_ends_before_the_voice_is_free_is_left_out():
    said, entries = only(
        segment(1, 9, "Add one two three four five"), segment(1.5, 1.9, "Add salt")
    )
    assert len(said) == 1 and entries.dropped == {turns.NO_TIME_LEFT: 1}


def test_videos_that_cannot_be_used_are_dropped_by_name_and_their_segments_with_them():
    bad = ["x", video(segment(1, 5), uid=""), meal("a"), meal("a"), video(uid="b", segments=3)]
    _, entries, videos = steps(*bad)
    assert videos.dropped == {turns.NOT_A_VIDEO: 1, turns.NO_NAME: 1, turns.TWICE: 1,
                              turns.NOTHING_SAID: 1}  # fmt: skip
    assert videos.noted == {annotation.NO_SEGMENTS: 1}
    assert entries.dropped[turns.VIDEO_OUT] == 1 + 6 and entries.read == 1 + 7 + 7


def test_goal_duration_and_procedure_may_be_missing():
    fields = {"goal_description": "", "end_time": None, "is_procedural": False}
    (timeline,), _, videos = steps(video(segment(1, 5), **fields))
    assert timeline.meta["goal"] == "make soup" and timeline.duration == timeline.utterances[0].end
    assert videos.repaired == {turns.NO_DURATION: 1}
    assert videos.noted == {annotation.NOT_PROCEDURAL: 1}
    (silent,), _, videos = steps(video(segment(1, 5), goal_description=1, goal_category=""))
    assert silent.system == "" and videos.noted == {annotation.NO_GOAL: 1}


def test_a_standalone_assistant_turn_keeps_its_time():
    (timeline,), *_ = talk(says("assistant", "Chop the onion now.", 4.5))
    assert [(u.start, u.end) for u in timeline.utterances] == [(4.5, 4.5 + 4 / 2.5)]


def test_an_answer_comes_three_tenths_after_the_latest_question():
    (timeline,), entries, _ = talk(
        says("user", "Hm?", 1),
        says("user", "What is next then?", 5),
        says("assistant", "Salt.", 20),
    )
    asked, answered = timeline.utterances
    assert (asked.role, asked.start, asked.end) == ("user", 5, 5 + 4 / 2.5)
    assert answered.start == asked.end + 0.3 and answered.end == answered.start + 1 / 2.5
    assert entries.dropped == {turns.NOT_LATEST: 1} and entries.repaired == {turns.ANSWER_SET: 1}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("x", dialogue.NOT_A_TURN),
        (says("system", "Hi", 1), dialogue.ODD_ROLE),
        (says("assistant", "", 1), "text is empty"),
        (says("assistant", None, 1), "text is no string"),
        (says("user", "(takes the pan)", 1), dialogue.ACTION),
        (says("user", "Where is it?", 60), turns.NO_ANSWER),
        (says("assistant", "Hi", "1"), "time is no finite number"),
        (says("assistant", "Hi", -1), "ends before the video begins"),
        (says("assistant", "Hi", 101), turns.PAST_END),
        (says("assistant", "Hi", 99.5), turns.TOO_LATE),
    ],
)
def test_a_turn_that_cannot_be_used_is_dropped_by_name(bad, reason):
    (timeline,), entries, _ = talk(bad, says("assistant", "Good.", 50), duration=100)
    assert len(timeline.utterances) == 1 and entries.dropped == {reason: 1}


def test_a_question_whose_answer_is_too_late_goes_with_it():
    late = [says("user", "One two three?", 98), says("assistant", "Yes.", 98)]
    found, entries, videos = talk(*late, duration=100)
    assert not found and entries.dropped == {turns.TOO_LATE: 2}
    assert videos.dropped == {turns.NOTHING_SAID: 1}
    kept = talk(*late)[0][0]
    assert len(kept.utterances) == 2


def test_times_that_go_backwards_are_sorted_and_counted():
    (timeline,), entries, _ = talk(says("assistant", "B.", 9), says("assistant", "A.", 3))
    assert [u.text for u in timeline.utterances] == ["A.", "B."]
    assert entries.repaired == {turns.OUT_OF_ORDER: 1}


def test_ends_are_cut_at_the_video_and_voices_wait():
    (timeline,), entries, _ = talk(
        says("assistant", "one two three four five", 1), says("assistant", "six seven", 2),
        says("assistant", "a b c d e f", 8.5), duration=10,
    )  # fmt: skip
    assert [(u.start, u.end) for u in timeline.utterances] == [(1, 3), (3, 3.8), (8.5, 10)]
    assert entries.repaired == {turns.WAITED: 1, turns.CUT: 1}


def test_a_second_dialogue_of_a_video_has_a_name_of_its_own():
    records = [{"video_uid": "v", "conversation": [says("assistant", "Hi", k)]} for k in range(3)]
    found, _, videos = run(dialogue.read_videos(records, {}, None))
    assert [t.video_id for t in found] == ["v", "v/2", "v/3"]
    assert videos.noted == {dialogue.SECOND: 2}


def test_durations_come_from_three_kinds_of_file(tmp_path):
    kinds = [{"v1": 30}, {"v1": {"fps": 2, "num_frames": 60}}, {"videos": [video(end_time=30)]}]
    for kind in kinds:
        write_json(tmp_path / "d.json", kind)
        assert dialogue.read_durations(str(tmp_path / "d.json")) == {"v1": 30}
    (timeline,), *_ = talk(says("assistant", "Hi", 1), durations={"v1": 30})
    assert timeline.duration == 30


def test_a_broken_character_is_counted_wherever_it_stood():
    broken = "Stir\ud800 soup"
    found, entries, videos = steps(
        video(segment(2, 9, broken), segment(20, 30, "Cut onion", f"Cut: {broken}")),
        video(segment(2, 9), uid="v\ud800", goal_description=broken),
    )
    assert entries.repaired == {BROKEN_CHARACTER: 2} and entries.mended == 2
    assert videos.repaired == {BROKEN_CHARACTER: 1} and videos.mended == 1
    assert found[1].video_id == "v?" and "Stir? soup" in found[1].system
    turn = {"role": "assistant", "content": broken, "time": 3}
    record = {"video_uid": "w", "system": broken, "duration": 60, "conversation": [turn]}
    _, entries, videos = run(dialogue.read_videos([record], {}, None))
    assert entries.repaired == videos.repaired == {BROKEN_CHARACTER: 1}
