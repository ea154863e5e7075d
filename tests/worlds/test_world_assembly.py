"""Assembly: the hand decides what the instructor says; HoloAssist's rule decides what is scored."""

import itertools

import numpy as np
import pytest

from vlm_tsi.timeline import Timeline, Utterance
from vlm_tsi.worlds.assembly import Assembly
from vlm_tsi.worlds.base import CENTRES, COLOURS, PLACES
from vlm_tsi.worlds.bench import Bench, Carry, Move, Part
from vlm_tsi.worlds.datapoints import datapoints, mark_eval
from vlm_tsi.worlds.signals import Signals

CLIPS = [Assembly().clip(seed, f"a{seed}") for seed in range(60)]


def is_correction(turn: Utterance) -> bool:
    return turn.meta["purpose"].endswith("correct the wrong action")


def is_confirmation(turn: Utterance) -> bool:
    return "_confirming" in turn.meta["purpose"]


def test_the_same_seed_gives_the_same_clip():
    one, two = Assembly().clip(3, "x"), Assembly().clip(3, "x")
    assert one.timeline == two.timeline
    assert all(np.array_equal(a, b) for a, b in zip(one.frames(), two.frames(), strict=True))


def test_durations_are_whole_frames_after_the_last_word():
    for clip in CLIPS:
        duration = clip.timeline.duration
        assert (duration * 8).is_integer()
        assert duration >= clip.timeline.utterances[-1].end + 2
        assert 20 < duration < 50
    assert len(list(CLIPS[0].frames())) == CLIPS[0].timeline.duration * 8


def test_assistant_turns_never_overlap():
    for clip in CLIPS:
        turns = [u for u in clip.timeline.utterances if u.role == "assistant"]
        assert all(a.end <= b.start for a, b in itertools.pairwise(turns))


def test_the_hand_decides_what_is_said():
    corrections = confirmations = 0
    for clip in CLIPS:
        order = clip.timeline.system.removeprefix("build order ").split(" then ")
        done = 0
        for turn in clip.timeline.utterances:
            seen = clip.caption(turn.meta["event"])
            if is_correction(turn):
                corrections += 1
                assert "hand on " in seen and not seen.endswith("hand on " + order[done])
            elif is_confirmation(turn):
                assert seen.endswith("hand on " + order[done])
                confirmations += 1
                done += 1
            elif turn.role == "assistant":
                assert seen.endswith("hand rest")
        assert done == 3
    assert 0.3 * confirmations < corrections < 0.7 * confirmations


def test_every_reaction_comes_after_more_than_a_frame_gap():
    for clip in CLIPS:
        for before, turn in itertools.pairwise([None, *clip.timeline.utterances]):
            if turn.role == "user":
                assert turn.start == pytest.approx(turn.meta["event"] + 0.1)
            elif turn.meta["purpose"].startswith("instructor-reply-to-student"):
                assert before.role == "user" and turn.start == pytest.approx(
                    before.end + 0.1, abs=2e-3
                )
            else:
                assert 0.5 < turn.start - turn.meta["event"] < 0.63


def test_colour_is_said_before_the_hand_leaves():
    for clip in CLIPS:
        order = clip.timeline.system.removeprefix("build order ").split(" then ")
        asked = [u for u in clip.timeline.utterances if u.meta["purpose"].endswith("instruction")]
        for part, turn in zip(order, asked, strict=True):
            end = next(w.end for w in turn.words if w.text == part.split()[0])
            assert clip.caption(end - 0.001).endswith("hand rest")


def test_a_reaction_breaks_off_what_is_being_said():
    corrections = broken = 0
    for clip in CLIPS:
        turns = [u for u in clip.timeline.utterances if u.role == "assistant"]
        for before, turn in itertools.pairwise(turns):
            if is_correction(turn):
                corrections += 1
                broken += before.meta["kind"] == "broken"
    assert 0.35 * corrections < broken < 0.75 * corrections


def test_the_part_is_seen_where_the_caption_says():
    for clip in CLIPS[:20]:
        frame, seen = clip.scene(0.0), clip.caption(0.0)
        assert seen.endswith(" no hand")
        for place, (x, y) in zip(PLACES, CENTRES, strict=True):
            after = seen.split(place + " ")[1].split()
            pixel = frame[y, x + 10 if after[1] == "ring" else x].astype(float)
            if after[0] != "off":
                nearest = min(COLOURS, key=lambda c: float(np.abs(pixel - COLOURS[c]).sum()))
                assert nearest == after[0]


def test_the_bench_shows_hand_carried_part_and_tray():
    bench = Bench((Part("red", "cube", 0),))
    bench.moves = [Move(1, 1, (64, 110), "rest"), Move(2, 3, (28, 43), "on red cube"), Move(4, 5, (12, 113), "moving")]  # fmt: skip
    bench.carries = [Carry(bench.parts[0], 4, 5)]
    assert bench.caption(0.9).endswith("no hand")
    assert bench.caption(2.5).endswith("hand moving")
    assert bench.caption(3.0).endswith("hand on red cube")
    assert bench.caption(4.0).startswith("top left off")
    empty, rest, on, put = (bench.draw(t) for t in (0.9, 1.0, 3.0, 5.0))
    assert rest[110, 64, 0] > 200 > empty[110, 64, 0]
    assert on[20, 28, 0] > 200 > on[20, 28, 1] and on[43, 28, 1] > 150
    assert put[121, 12, 0] > 200 > put[20, 28, 0]


def turn(role: str, start: float, end: float, purpose: str) -> Utterance:
    return Utterance(role, "word", start, end, meta={"purpose": purpose})  # type: ignore[arg-type]


def test_holoassist_rule():
    turns = [
        turn("assistant", 0, 1, "x_describing high-level instruction"),
        turn("assistant", 2, 3, "x_confirming the previous action"),
        turn("assistant", 4, 5, "x_follow-up instruction"),
        turn("user", 6, 6.5, "student-start-conversation_ask questions"),
        turn("assistant", 6, 7, "x_other"),
        turn("assistant", 8, 9, "x_correct the wrong action"),
        turn("assistant", 18.9, 19, "x_other"),
        turn("assistant", 19, 20, "x_other"),
    ]
    assert [u.eval for u in mark_eval(turns)] == [
        False,
        False,
        True,
        False,
        True,
        True,
        True,
        False,
    ]


def test_datapoint_windows_and_context():
    turns = mark_eval([
        turn("assistant", 0, 1, "x_follow-up instruction"),
        turn("assistant", 2, 3, "x_correct the wrong action"),
        turn("user", 3, 4, "student-start-conversation_ask questions"),
        turn("assistant", 5, 6, "x_other"),
        turn("user", 7, 8, "student-start-conversation_ask questions"),
        turn("assistant", 20, 21, "x_other"),
        turn("assistant", 30, 31, "x_follow-up instruction"),
        turn("assistant", 32, 33, "x_correct the wrong action"),
    ])  # fmt: skip
    first, second = datapoints(Timeline("v", "v.mp4", 40, turns, "system"))
    assert (first.video_id, second.video_id) == ("v#0", "v#1")
    assert (first.meta["window"], second.meta["window"]) == ([0, 6], [30, 33])
    assert first.utterances == turns[:4]
    assert [u.eval for u in second.utterances] == [False] * 6 + [True] * 2


def test_datapoints_of_the_worlds():
    found = 0
    for clip in CLIPS:
        for point in datapoints(clip.timeline):
            found += 1
            scored = [u for u in point.utterances if u.eval]
            assert point.meta["window"] == [scored[0].start, scored[-1].end]
            assert any(is_correction(u) for u in scored)
            assert all(u.start < point.meta["window"][1] for u in point.utterances)
        corrected = any(is_correction(u) for u in clip.timeline.utterances)
        assert bool(datapoints(clip.timeline)) == corrected
    assert found > 30
    whole = Signals().clip(0, "s").timeline
    assert datapoints(whole) == [whole]
