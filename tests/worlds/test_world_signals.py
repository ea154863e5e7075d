"""Signals: what is said is what can be seen, when it can be seen."""

import itertools

import numpy as np
import pytest

from vlm_tsi.worlds.base import CENTRES, COLOURS, PLACES, Clip
from vlm_tsi.worlds.signals import STYLES, TURNS, Signals

CLIPS = [Signals().clip(seed, f"s{seed}") for seed in range(60)]
CALLS = [(clip, call) for clip in CLIPS for call in clip.timeline.utterances]


def lit_at(caption: str) -> dict[str, tuple[str, bool]]:
    """Place -> (colour, ring), read back from a caption."""
    found, rest = {}, caption
    for place, following in itertools.zip_longest(PLACES, PLACES[1:]):
        rest = rest.removeprefix(place + " ")
        state, _, rest = rest.partition(" " + following) if following else (rest, "", "")
        rest = (following or "") + rest
        if state != "off":
            found[place] = (state.split()[0], state.endswith(" ring"))
    return found


def shown_colour(clip: Clip, time: float, place: str) -> str:
    """The named colour nearest to the pixel at a place's centre."""
    x, y = CENTRES[PLACES.index(place)]
    pixel = clip.scene(time)[y, x].astype(float)
    return min(COLOURS, key=lambda name: float(np.abs(pixel - COLOURS[name]).sum()))


def test_the_same_seed_gives_the_same_clip():
    one, two = Signals().clip(7, "x"), Signals().clip(7, "x")
    assert one.timeline == two.timeline
    assert all(np.array_equal(a, b) for a, b in zip(one.frames(), two.frames(), strict=True))
    assert Signals().clip(8, "x").timeline != one.timeline


def test_frames_have_their_shape_and_number():
    frames = list(CLIPS[0].frames())
    assert len(frames) == 240
    assert {(f.shape, f.dtype) for f in frames} == {((128, 128, 3), np.dtype("uint8"))}


def test_calls_never_overlap_and_fit():
    for clip in CLIPS:
        calls = clip.timeline.utterances
        assert all(a.end <= b.start for a, b in itertools.pairwise(calls))
        assert calls[-1].end < clip.timeline.duration == 30.0
        assert clip.timeline.meta["window"] == [0.0, 30.0]
        assert all(call.eval and call.role == "assistant" for call in calls)


def test_words_fill_the_utterance_at_the_speech_rate():
    for _, call in CALLS:
        assert " ".join(w.text for w in call.words) == call.text
        assert (call.start, call.end) == (call.words[0].start, call.words[-1].end)
        assert all(a.end == b.start for a, b in itertools.pairwise(call.words))
        assert all(0.37 < w.end - w.start < 0.43 for w in call.words)
        assert all(t == round(t, 3) for w in call.words for t in (w.start, w.end))


def test_every_call_follows_its_lamp_by_more_than_a_frame_gap():
    for _, call in CALLS:
        assert 0.5 < call.start - call.meta["event"]["time"] <= 0.621


def test_lamp_is_seen_at_the_start_of_its_call_and_not_before_it_lights():
    for clip, call in CALLS:
        event = call.meta["event"]
        assert shown_colour(clip, call.start, event["place"]) == event["colour"]
        state = lit_at(clip.caption(call.start))[event["place"]]
        assert state == (event["colour"], event["ring"])
        assert event["place"] not in lit_at(clip.caption(event["time"] - 0.001))


@pytest.mark.parametrize("ring", [True, False])
def test_a_ring_is_white(ring: bool):
    clip, call = next(c for c in CALLS if c[1].meta["event"]["ring"] is ring)
    x, y = CENTRES[PLACES.index(call.meta["event"]["place"])]
    assert bool(clip.scene(call.start)[y, x + 19].min() > 200) is ring


def test_a_second_lamp_often_changes_what_is_said():
    kinds = [call.meta["kind"] for _, call in CALLS]
    assert kinds.count("bent") > 0.15 * len(kinds)
    assert kinds.count("broken") > 0.25 * len(kinds)
    assert kinds.count("bent") + kinds.count("broken") >= 0.3 * len(kinds)


def test_the_ring_decides_between_bending_and_breaking_off():
    for clip, call in CALLS:
        second = call.meta.get("second")
        assert (second is None) == (call.meta["kind"] == "none")
        if second:
            assert second["ring"] == (call.meta["kind"] == "broken")
            assert call.start < second["time"] < call.end
            state = lit_at(clip.caption(second["time"]))[second["place"]]
            assert state == (second["colour"], second["ring"])


def test_what_is_said_is_a_template_whole_cut_or_bent():
    for _, call in CALLS:
        kind, event, second = (call.meta.get(k) for k in ("kind", "event", "second"))
        full = [t.format(**event) for style in STYLES.values() for t in style]
        if kind == "none":
            assert call.text in full
        elif kind == "broken":
            assert any(text.startswith(call.text + " ") for text in full)
        else:
            turns = [t.format(**second) for t in TURNS if call.text.endswith(t.format(**second))]
            heads = [call.text.removesuffix(turn).strip() for turn in turns]
            assert any(text.startswith(head) for text in full for head in heads)


def test_the_system_text_says_what_is_named_first():
    for clip, call in CALLS:
        assert clip.timeline.system in STYLES
        heads = [t.format(**call.meta["event"]) for t in STYLES[clip.timeline.system]]
        assert any(head.startswith(" ".join(call.text.split()[:1])) for head in heads)
        if call.meta["kind"] == "none":
            colour, place = call.meta["event"]["colour"], call.meta["event"]["place"]
            colour_first = call.text.index(colour) < call.text.index(place)
            assert colour_first == ("colour first" in clip.timeline.system)


def test_the_turn_of_a_bent_call_waits_for_the_reaction():
    for _, call in CALLS:
        if call.meta["kind"] == "bent":
            second = call.meta["second"]
            turns = [t.format(**second) for t in TURNS if call.text.endswith(t.format(**second))]
            words = max(len(turn.split()) for turn in turns)
            assert call.words[-words].start - second["time"] > 0.5


def test_a_broken_call_is_followed_by_the_call_of_what_broke_it():
    for clip in CLIPS:
        for call, following in itertools.pairwise(clip.timeline.utterances):
            if call.meta["kind"] == "broken":
                assert following.meta["event"] == call.meta["second"]
                assert following.start - call.end < 0.43


def test_only_lamps_that_light_up_get_words():
    went_off = 0
    for clip in CLIPS:
        states = [lit_at(clip.caption(k / 8)) for k in range(241)]
        pairs = list(itertools.pairwise(states))
        lit = sum(place not in a for a, b in pairs for place in b)
        went_off += sum(place not in b for a, b in pairs for place in a)
        calls = clip.timeline.utterances
        assert lit == len(calls) + sum(c.meta["kind"] == "bent" for c in calls)
        assert max(len(state) for state in states) <= 3
    assert went_off > 100


def test_distractors_are_there():
    glimmers = squares = 0
    for clip in CLIPS[:10]:
        for k in range(0, 240, 4):
            frame, lit = clip.scene(k / 8), lit_at(clip.caption(k / 8))
            dark = [c for c, p in zip(CENTRES, PLACES, strict=True) if p not in lit]
            glimmers += any(frame[y, x].min() > 100 for x, y in dark)
            squares += int((frame == 95).all(axis=2).sum() > 70)
    assert glimmers > 5
    assert squares > 150
