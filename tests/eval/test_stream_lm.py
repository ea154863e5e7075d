"""Teacher-forced reading of sequences, and the command."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.stream_lm import main
from eval.stream_lm_turns import TRAILING, UNOPENED, Reader, turn_positions
from tests.tiny import save_tiny, tiny_config, tiny_tokenizer, tiny_video
from vlm_tsi.scoring.stream_lm import measure
from vlm_tsi.sequence.interleave import Scheme, interleave
from vlm_tsi.sequence.tokens import StreamTokens, encoder
from vlm_tsi.streaming.policy import Tsi, TurnBased
from vlm_tsi.timeline import Timeline, Utterance, write_timelines

TOKENIZER = tiny_tokenizer()
ENCODE = encoder(TOKENIZER)
SCHEMES = ("tsi", "turn_based")


def tokens(per_frame=1):
    return StreamTokens(**tiny_config(TOKENIZER, per_frame).stream_tokens)


def sequence_of(utterances, scheme, n_frames=20, per_frame=1):
    times = np.arange(n_frames) * 0.5
    return interleave(
        utterances, times, tokens(per_frame), ENCODE, Scheme(name=scheme, silence_weight=1.0)
    )


class Scripted(torch.nn.Module):
    """A model whose logits are written down: hidden states are logits, the head changes nothing."""

    def __init__(self, script, per_frame=1):
        super().__init__()
        self.script, self.tokens, self.device = script, tokens(per_frame), torch.device("cpu")
        self.passes = 0

    def hidden_states(self, ids_BL, mask_BL, features):
        self.passes += 1
        told = self.script(ids_BL[0].tolist(), mask_BL[0].tolist())
        logits = torch.full((len(told), len(TOKENIZER)), -50.0)
        logits[torch.arange(len(told)), torch.tensor(told)] = 50.0
        return logits[None]

    def get_output_embeddings(self):
        return torch.nn.Identity()


def read(sequence, script, scheme, per_frame=1):
    model = Scripted(script, per_frame)
    policy = Tsi(model.tokens) if scheme == "tsi" else TurnBased(model.tokens)
    features = torch.zeros(int(sequence.frame_idx_L.max()) + 1, per_frame, 4)
    turns, outside = Reader(model, policy).read(sequence, features)
    return [measure(t) for t in turns], turns, outside, model


def perfect(sequence):
    """Says what the labels say; where there is none, silence."""
    wanted = np.where(sequence.labels_L < 0, tokens().eos_id, sequence.labels_L).tolist()
    return lambda ids, mask: wanted[: len(ids)] + [tokens().eos_id] * (len(ids) - len(wanted))


CALLS = (
    Utterance("assistant", "the red lamp", 2.1, 3.6),
    Utterance("assistant", "green lamp left", 6.2, 7.4),
)

spans = st.tuples(st.floats(0, 9), st.floats(0.1, 3), st.integers(1, 5), st.booleans())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("per_frame", [1, 4])
def test_a_model_that_says_the_labels_is_perfect(scheme, per_frame):
    sequence = sequence_of(CALLS, scheme, per_frame=per_frame)
    found, _, _, model = read(sequence, perfect(sequence), scheme, per_frame)
    assert len(found) == 2 and model.passes == 1
    for turn in found:
        assert (turn.perplexity, turn.correctness, turn.fluency) == (1, 1, 1)
        assert turn.frame_diff == turn.time_diff == 0 and not turn.never


@settings(max_examples=60)
@given(st.lists(spans, max_size=6), st.sampled_from(SCHEMES))
def test_every_label_is_in_one_turn_or_counted_outside(spoken, scheme):
    words = ["red", "green", "blue", "lamp", "left"]
    said = [
        Utterance("assistant" if ours else "user", " ".join(words[:n]), start, start + length)
        for start, length, n, ours in spoken
    ]
    sequence = sequence_of(said, scheme)
    turns, outside = turn_positions(sequence, tokens())
    inside = [at for t in turns for at in (*t.frames, *t.texts)]
    assert len(inside) == len(set(inside))
    assert len(inside) + sum(outside.values()) == (sequence.labels_L >= 0).sum()
    for turn in turns:
        assert turn.frames == sorted(turn.frames) and turn.texts == sorted(turn.texts)
        for at in turn.frames[:-1]:
            assert sequence.labels_L[at] == tokens().eos_id
        if turn.frames:
            assert sequence.labels_L[turn.frames[-1]] == tokens().bos_id
    found, *_ = read(sequence, perfect(sequence), scheme) if turns else ([],)
    assert all(t.fluency in (None, 1) and t.correctness in (None, 1) for t in found)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_silent_model_is_late_by_what_may_be_looked_at(scheme):
    sequence = sequence_of(CALLS, scheme)
    silent = lambda ids, mask: [tokens().eos_id] * len(ids)  # noqa: E731
    found, turns, _, model = read(sequence, silent, scheme)
    assert all(t.never for t in found) and model.passes == 3
    for turn, reading in zip(found, turns, strict=True):
        assert turn.frame_diff == len(reading.later_N) <= len(reading.opens_S) - 1
        assert turn.time_diff == pytest.approx(0.5 * turn.frame_diff)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("per_frame", [1, 4])
def test_a_late_opening_is_looked_for_as_if_the_turn_had_not_been_said(scheme, per_frame):
    sequence, seen = sequence_of(CALLS[:1], scheme, per_frame=per_frame), []
    opening = int(np.flatnonzero(sequence.labels_L == tokens().bos_id)[0])

    def two_frames_late(ids, mask):
        is_later = len(seen) > 0
        seen.append((ids, mask))
        told = [tokens().eos_id] * len(ids)
        if is_later:
            told[opening + 2 * per_frame] = tokens().bos_id
        return told

    found, turns, _, _ = read(sequence, two_frames_late, scheme, per_frame)
    ids, mask = seen[1]
    assert ids[: opening + 1] == sequence.ids_L[: opening + 1].tolist() and all(mask[opening + 1 :])
    assert found[0].frame_diff == 2 and found[0].time_diff == pytest.approx(1.0)
    assert not found[0].never
    assert turns[0].later_times_N[0] == pytest.approx(sequence.times_L[opening] + 0.5)


def test_frames_after_the_last_turn_and_before_an_answer_belong_to_no_turn():
    said = (
        Utterance("user", "take the part", 2.2, 2.9),
        Utterance("assistant", "yes", 2.95, 3.2),
    )
    turns, outside = turn_positions(sequence_of(said, "turn_based"), tokens())
    assert len(turns) == 1 and outside[TRAILING] > 0
    assert turns[0].frames == [] or outside[UNOPENED] == 0


@pytest.fixture
def house(tmp_path):
    for scheme in SCHEMES:
        save_tiny(tmp_path / scheme, scheme=scheme, fps=2.0, talkative=True)
    tiny_video(tmp_path / "clip.mp4", seconds=8)
    timelines = [
        Timeline("a", "clip.mp4", 8.0, CALLS), Timeline("mute", "clip.mp4", 8.0, ()),
        Timeline("gone", "none.mp4", 8.0, CALLS),
    ]  # fmt: skip
    write_timelines(tmp_path / "t.jsonl", timelines)
    return tmp_path


def command(house, *more, models=SCHEMES):
    folders = [str(house / m) for m in models]
    words = ["--model", *folders, "--timelines", house / "t.jsonl", "--out", house / "s.json"]
    return main([*map(str, words), *more])


def test_both_schemes_are_measured_and_what_is_left_out_is_told(house, capsys):
    assert command(house) == 0
    report = json.loads((house / "s.json").read_text(), parse_constant=pytest.fail)
    assert [m["scheme"] for m in report["models"].values()] == list(SCHEMES)
    for found in report["models"].values():
        assert found["counts"]["turns"] == 2 and found["counts"]["timelines"] == 3
        assert sum(found["left_out"].values()) == 2
        assert found["micro"]["perplexity"]["value"] > 1
        assert list(found["per_video"]) == ["clip.mp4"]
    shown = capsys.readouterr()
    assert "turn_based micro" in shown.out and "without a turn" in shown.err


def test_features_from_a_store_give_the_same_measures(house):
    assert command(house) == 0
    plain = json.loads((house / "s.json").read_text())
    for _ in range(2):
        assert command(house, "--store", str(house / "store")) == 0
        stored = json.loads((house / "s.json").read_text())
        for folder, found in plain["models"].items():
            again = stored["models"][folder]["micro"]
            for name, mean in found["micro"].items():
                assert again[name]["value"] == pytest.approx(mean["value"], rel=1e-2, abs=1e-2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"models": ("nowhere",)}, "is no folder"),
        ({"models": ("tsi", "tsi")}, "twice"),
        ({"models": ("tsi",), "more": ("--threshold", "0.5")}, "turn_based"),
        ({"more": ("--threshold", "2")}, "threshold"),
        ({"more": ("--limit", "0")}, "--limit"),
        ({"more": ("--max-positions", "3")}, "no turn could be measured"),
    ],
)
def test_what_cannot_be_measured_is_one_line(house, capsys, change, told):
    assert command(house, *change.get("more", ()), models=change.get("models", SCHEMES)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error:") and told in error
    assert not (house / "s.json").exists()
