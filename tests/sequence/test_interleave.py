"""Sequences: every invariant of the paper's Section 5 by name, and a slow peer's answer."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reference.interleave_reference import reference
from tests.sequence.cases import (
    BOS,
    EOS,
    FRAME,
    PREFIXES,
    Case,
    cases,
    encode,
    last_slots,
    owner,
    say,
    stream,
)
from vlm_tsi.sequence.interleave import IGNORE, InterleavedSequence, Scheme
from vlm_tsi.timeline import Word

MANY = settings(max_examples=25, deadline=None)
TSI, TURNS = Scheme(name="tsi"), Scheme(name="turn_based", silence_weight=1.0)


def case(utterances, frames, scheme=TSI, tokens_per_frame=1, system="") -> Case:
    return Case(utterances, frames, stream(tokens_per_frame), scheme, system)


def pairs(seq: InterleavedSequence) -> list[tuple[int, int]]:
    return list(zip(seq.ids_L.tolist(), seq.labels_L.tolist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(cases())
@example(case([say(100, 3, 0.0, 1.0)], []))
@example(case([], []))
@example(case([say(100, 5, 0.0, 2.0), say(200, 2, 0.2, 0.4, "user")], [0.0, 0.5, 1.0]))
def test_the_slow_peer_gives_the_same_rows(c: Case) -> None:
    seq = c.build()
    rows = reference(c.utterances, c.frames, c.tokens, encode, c.scheme, c.system)
    assert seq.ids_L.tolist() == [r.id for r in rows]
    assert seq.labels_L.tolist() == [r.label for r in rows]
    assert seq.frame_idx_L.tolist() == [r.frame for r in rows]
    np.testing.assert_allclose(seq.weights_L, [r.weight for r in rows])
    np.testing.assert_allclose(seq.times_L, [r.time for r in rows])


@MANY
@given(cases())
def test_positions_are_in_order_of_time(c: Case) -> None:
    assert (np.diff(c.build().times_L) >= 0).all()


@MANY
@given(cases())
def test_no_text_stands_before_a_frame_that_was_already_there(c: Case) -> None:
    seq = c.build()
    system = len(PREFIXES["system"]) + 2 if c.system else 0
    for position in range(system, len(seq)):
        seen = seq.frame_idx_L[:position].max(initial=-1)
        if seq.frame_idx_L[position] < 0:
            assert all(t > seq.times_L[position] for t in c.frames[seen + 1 :])
        assert all(f <= seq.times_L[position] for f in c.frames[: seen + 1])


@MANY
@given(cases())
def test_labels_are_shifted_right(c: Case) -> None:
    """A label that is a word stands directly before it, or (bridge) before the frames between."""
    seq = c.build()
    for position, label in enumerate(seq.labels_L.tolist()):
        if label in (IGNORE, BOS, EOS):
            continue
        rest = [
            (i, f)
            for i, f in zip(seq.ids_L[position + 1 :], seq.frame_idx_L[position + 1 :], strict=True)
        ]
        if c.scheme.bridge_weight:
            rest = [(i, f) for i, f in rest if f < 0]
        assert rest[0] == (label, -1)


@MANY
@given(cases())
def test_only_the_assistants_words_are_targets(c: Case) -> None:
    seq, said_by = c.build(), owner(c)
    for token, label in pairs(seq):
        assert label in (IGNORE, BOS, EOS) or said_by[label] == "assistant"
        heard = said_by.get(token) == "user" or token in (50, 51, *PREFIXES["system"])
        if heard or token in PREFIXES["user"]:
            assert label == IGNORE


@MANY
@given(cases())
def test_bos_and_eos_are_never_inputs(c: Case) -> None:
    assert not np.isin(c.build().ids_L, [BOS, EOS]).any()


@MANY
@given(cases())
def test_bos_follows_visual_input(c: Case) -> None:
    """Or the assistant's own last word, where it starts again before the next frame."""
    seq = c.build()
    last_words = {encode(u.text)[-1] for u in c.utterances if u.role == "assistant"}
    for position in np.flatnonzero(seq.labels_L == BOS):
        assert last_slots(seq)[position] or seq.ids_L[position] in last_words


@MANY
@given(cases())
def test_frames_are_labelled_at_their_last_slot_only(c: Case) -> None:
    seq = c.build()
    inner = (seq.frame_idx_L >= 0) & ~last_slots(seq)
    assert (seq.labels_L[inner] == IGNORE).all()
    assert (np.bincount(seq.frame_idx_L[seq.frame_idx_L >= 0]) == c.tokens.tokens_per_frame).all()
    assert (seq.ids_L[seq.frame_idx_L >= 0] == FRAME).all()


@MANY
@given(cases())
def test_eos_follows_only_last_words_and_silent_frames(c: Case) -> None:
    seq = c.build()
    last_words = {encode(u.text)[-1] for u in c.utterances if u.role == "assistant"}
    for position in np.flatnonzero(seq.labels_L == EOS):
        is_silence = last_slots(seq)[position] and c.scheme.silence_weight > 0
        assert is_silence or seq.ids_L[position] in last_words


@MANY
@given(cases())
def test_an_utterance_ends_in_eos_or_in_the_next_ones_bos(c: Case) -> None:
    seq = c.build()
    for u in c.utterances:
        if u.role == "assistant":
            (position,) = np.flatnonzero(seq.ids_L == encode(u.text)[-1])
            label = seq.labels_L[position]
            later_bos = (seq.labels_L[position + 1 :] == BOS).any()
            assert label in (EOS, BOS) or (label == IGNORE and later_bos)


@MANY
@given(cases())
def test_weight_zero_gives_silent_frames_no_label(c: Case) -> None:
    seq = c.build()
    if c.scheme.silence_weight == 0:
        assert not (seq.labels_L[seq.frame_idx_L >= 0] == EOS).any()
    else:
        at = (seq.frame_idx_L >= 0) & (seq.labels_L == EOS)
        assert (seq.weights_L[at] == np.float32(c.scheme.silence_weight)).all()


@MANY
@given(cases())
def test_nothing_is_dropped(c: Case) -> None:
    words = [i for i in c.build().ids_L.tolist() if i >= 100]
    assert sorted(words) == sorted(i for u in c.utterances for i in encode(u.text))


@MANY
@given(cases())
def test_every_word_of_the_assistant_is_a_target_once_and_over_a_frame_twice(c: Case) -> None:
    """At most once (in turns exactly once); a bridge adds the token before the frame."""
    targets = [i for i in c.build().labels_L.tolist() if i >= 100]
    wanted = [i for u in c.utterances if u.role == "assistant" for i in encode(u.text)]
    most = 2 if c.scheme.bridge_weight else 1
    assert all(targets.count(i) <= most for i in targets) and set(targets) <= set(wanted)
    if c.scheme.name == "turn_based":
        assert sorted(targets) == sorted(wanted)


@MANY
@given(cases(name="turn_based"))
def test_in_turns_an_utterance_is_not_interrupted(c: Case) -> None:
    ids = c.build().ids_L.tolist()
    for u in c.utterances:
        words = encode(u.text)
        at = ids.index(words[0])
        assert ids[at : at + len(words)] == words


def test_in_turns_the_whole_utterance_follows_its_trigger_and_silence_is_eos() -> None:
    seq = case([say(100, 3, 0.6, 2.0)], [0.0, 0.5, 1.0], TURNS).build()
    assert pairs(seq) == [
        (FRAME, EOS),
        (FRAME, BOS),
        (12, IGNORE),
        (13, 100),
        (100, 101),
        (101, 102),
        (102, EOS),
        (FRAME, EOS),
    ]


def test_frames_and_words_share_a_clock() -> None:
    """0.6, 1.1 and 1.6 s between frames at 0.5, 1.0, 1.5 s: one word a frame."""
    seq = case([say(100, 3, 0.6, 2.1)], [0.0, 0.5, 1.0, 1.5, 2.0]).build()
    assert pairs(seq) == [
        (FRAME, IGNORE),
        (FRAME, BOS),
        (12, IGNORE),
        (13, 100),
        (100, IGNORE),
        (FRAME, 101),
        (101, IGNORE),
        (FRAME, 102),
        (102, EOS),
        (FRAME, IGNORE),
    ]


def test_bos_supersedes_eos_where_a_speaker_breaks_off() -> None:
    """The second call opens on the next frame: the first one's last word learns nothing."""
    utterances = [say(100, 2, 0.0, 0.4), say(200, 1, 0.5, 0.9)]
    seq = case(utterances, [0.0, 0.5]).build()
    assert (101, IGNORE) in pairs(seq) and (FRAME, BOS) in pairs(seq)


def test_starting_again_in_the_same_gap_predicts_bos_from_the_last_word() -> None:
    utterances = [say(100, 2, 0.0, 0.2), say(200, 1, 0.3, 0.4)]
    assert (101, BOS) in pairs(case(utterances, [0.0, 1.0]).build())


def test_word_times_are_used_where_the_transcript_has_them() -> None:
    words = (Word("w100", 0.1, 0.2), Word("w101", 1.6, 1.8))
    seq = case([say(100, 2, 0.1, 1.8, words=words)], [0.0, 0.5, 1.0, 1.5]).build()
    assert seq.times_L[seq.ids_L == 101] == 1.6
    spread = case([say(100, 2, 0.1, 1.8)], [0.0, 0.5, 1.0, 1.5]).build()
    assert spread.times_L[spread.ids_L == 101] == pytest.approx(0.95)


def test_overlapping_word_times_do_not_run_backwards() -> None:
    words = (Word("w100 w101", 0.0, 1.0), Word("w102", 0.25, 1.0))
    seq = case([say(100, 3, 0.0, 1.0, words=words)], [0.0]).build()
    assert seq.times_L[seq.ids_L == 102] == 0.5


def test_an_answer_waits_for_a_frame_after_the_users_last_word() -> None:
    """BOS is predicted from a frame, never from what another speaker said."""
    utterances = [say(100, 2, 0.5, 0.9, "user"), say(200, 1, 0.9, 1.2)]
    seq = case(utterances, [0.0, 0.5, 1.0]).build()
    assert seq.times_L[seq.ids_L == 200] == 1.0
    assert pairs(seq)[-4:] == [(FRAME, BOS), (12, IGNORE), (13, 200), (200, EOS)]


@pytest.mark.parametrize("bad", [{"silence_weight": -1.0}, {"bridge_weight": -0.1}, {"name": "x"}])
def test_an_impossible_scheme_is_refused(bad: dict) -> None:
    with pytest.raises(ValueError):
        Scheme(**bad)


@given(st.floats(0, 5))
def test_an_utterance_before_the_first_frame_waits_for_it(start: float) -> None:
    seq = case([say(100, 1, start, start)], [5.0, 6.0]).build()
    assert seq.frame_idx_L[0] == 0 and seq.labels_L[0] == BOS
