"""The TGLG protocol: what is context, where the window starts, and that time is one-way."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.streaming.scripted import ASSISTANT, BOS, EOS, FRAME, TOKENS, USER, ScriptedModel
from tests.tiny import decoder, tiny_features, tiny_model, tiny_tokenizer
from vlm_tsi.errors import UserError
from vlm_tsi.sequence.interleave import Scheme, interleave
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.streaming.events import Token
from vlm_tsi.streaming.policy import Tsi, TurnBased
from vlm_tsi.streaming.protocol import Decoding, context_of, evaluation_window, stream_timeline
from vlm_tsi.streaming.settings import StreamSettings, decoding_for
from vlm_tsi.timeline import Timeline, Utterance

TIMES = np.arange(20) / 2
SCORED = Utterance("assistant", "seven", 5.2, 6.5, eval=True)
CONTEXT = (
    Utterance("assistant", "six six six", 0.7, 2.4),
    Utterance("user", "eight nine ten", 2.0, 3.6),
    Utterance("assistant", "ten", 3.7, 4.0),
)
NUMBERS = {"six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}


def encode(text):
    return [NUMBERS[w] for w in text.split()]


def stream(timeline, answer=(EOS,), policy=None, features=None, on_event=None):
    model = ScriptedModel(answer)
    shown = torch.arange(20.0)[:, None, None] if features is None else features
    decoding = Decoding(policy or Tsi(TOKENS), tokens_per_second=2.0, frame_gap=0.5)
    recorder = stream_timeline(
        model, encode, lambda ids: " ".join(map(str, ids)), timeline, TIMES, shown, decoding,
        on_event,
    )  # fmt: skip
    return model, recorder


def eager(fed):
    """Opens at every frame, says one word."""
    return BOS if fed[-1] >= FRAME else 7 if fed[-1] == ASSISTANT else EOS


def endless(fed):
    """Opens at the first frame after silence, says words for ever."""
    talks = ASSISTANT in fed and USER not in fed[-fed[::-1].index(ASSISTANT) :]
    return 7 if talks else BOS


def datapoint(*turns, system="", **meta):
    return Timeline("v", "v.mp4", 10.0, tuple(sorted(turns, key=lambda u: u.start)), system, meta)


@pytest.mark.parametrize("scheme", ["tsi", "turn_based"])
def test_context_is_fed_as_training_interleaves_it(scheme):
    timeline = datapoint(*CONTEXT, SCORED, system="six seven")
    policy = Tsi(TOKENS) if scheme == "tsi" else TurnBased(TOKENS)
    model, _ = stream(timeline, policy=policy)
    row = interleave(
        timeline.utterances, TIMES, TOKENS, encode, Scheme(name=scheme), timeline.system
    )
    ids = np.where(row.frame_idx_L >= 0, row.frame_idx_L + FRAME, row.ids_L)
    until = list(row.frame_idx_L).index(10) + 1
    assert model.fed[:until] == ids[:until].tolist()
    assert model.fed[until:] == [FRAME + i for i in (11, 12, 13)]


def test_only_frames_of_the_window_may_open():
    _, recorder = stream(datapoint(*CONTEXT, SCORED), answer=eager)
    assert [g.trigger_frame_idx for g in recorder.finished] == [10, 11, 12, 13]
    assert recorder.finished[0].start == 5.0


@pytest.mark.parametrize(
    ("start", "first"), [(0.0, 0), (0.2, 0), (4.99, 9), (5.0, 10), (5.2, 10), (9.6, 19)]
)
def test_the_window_begins_with_the_last_frame_at_or_before_its_start(start, first):
    _, recorder = stream(datapoint(window=[start, 9.9]), answer=eager)
    assert recorder.finished[0].trigger_frame_idx == first


def test_windows():
    assert evaluation_window(datapoint(*CONTEXT, SCORED)) == (5.2, 6.5)
    assert evaluation_window(datapoint(*CONTEXT, window=[1, 2])) == (1.0, 2.0)
    assert evaluation_window(datapoint(*CONTEXT)) == (0.0, 10.0)
    for bad in ("x", [1], [3, 2], [-1, 2], [0, float("nan")], None, [0, float("inf")]):
        with pytest.raises(UserError, match="meta.window"):
            evaluation_window(datapoint(window=bad))


def test_our_own_turns_inside_the_window_are_not_told():
    inside = Utterance("assistant", "nine", 6.0, 6.4)
    from_user = Utterance("user", "nine", 6.0, 6.4)
    timeline = datapoint(*CONTEXT, inside, from_user, SCORED)
    assert context_of(timeline) == [*CONTEXT, from_user]
    assert context_of(datapoint(*CONTEXT)) == [CONTEXT[1]]


def test_a_user_mid_stream_is_heard_when_the_model_has_finished():
    mid = Utterance("user", "nine", 5.6, 5.9)
    model, recorder = stream(datapoint(SCORED, mid), answer=endless)
    assert 9 not in model.fed, "the model never yields the floor here"
    model, _ = stream(datapoint(SCORED, mid), answer=lambda fed: EOS)
    at = model.fed.index(9)
    assert model.fed[at - 2 : at + 2] == [FRAME + 11, USER, 9, FRAME + 12]


def test_a_user_turn_is_heard_even_if_it_is_marked_eval():
    mid = Utterance("user", "nine", 5.6, 5.9, eval=True)
    model, _ = stream(datapoint(SCORED, mid), answer=lambda fed: EOS)
    assert 9 in model.fed


def test_an_utterance_open_at_the_windows_end_is_closed_there():
    _, recorder = stream(datapoint(SCORED), answer=lambda fed: BOS if fed[-1] == FRAME + 12 else 7)
    assert [g.closed_by for g in recorder.finished] == ["stream_end"]


@pytest.mark.parametrize("policy", ["tsi", "turn_based"])
def test_nothing_later_than_a_frame_influences_it(policy):
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, talkative=True, seed=1)
    settings = StreamSettings(policy=policy, temperature=0.2, threshold=0.97, max_tokens=6)
    features = tiny_features(model, 20)
    timeline = datapoint(
        Utterance("user", "red lamp on", 0.2, 1.0), Utterance("user", "no left", 7.2, 7.7),
        system="the lamp", window=[1.0, 9.5],
    )  # fmt: skip

    def events(shown, what):
        got = []
        stream_timeline(
            model, encoder(tokenizer), decoder(tokenizer), what, TIMES, shown,
            decoding_for(settings, model, "v"), got.append,
        )  # fmt: skip
        return got

    whole = events(features, timeline)
    assert len([e for e in whole if isinstance(e, Token)]) > 8
    later = Utterance("user", "yes yes yes", 7.1, 9.0)
    for k in range(4, 14, 3):
        changed = torch.cat([features[:k], tiny_features(model, 20, seed=5)[k:]])
        other = events(changed, replace(timeline, utterances=(timeline.utterances[0], later)))
        early = [e for e in whole if getattr(e, "frame_idx", -1) in range(k)]
        assert early == [e for e in other if getattr(e, "frame_idx", -1) in range(k)]
