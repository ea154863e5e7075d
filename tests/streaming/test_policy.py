"""Policies on bare logits: thresholds, sampling, who opens and closes."""

import pytest
import torch

from tests.streaming.scripted import BOS, EOS, TOKENS, VOCABULARY
from vlm_tsi.streaming.policy import Tsi, TurnBased, sampler


def with_silence(probability):
    """Logits whose softmax gives EOS `probability`, the rest evenly."""
    rest = (1 - probability) / (VOCABULARY - 1)
    p = torch.full((VOCABULARY,), rest)
    p[EOS] = probability
    return p.clamp(min=1e-12).log()


def one(token):
    return torch.eye(VOCABULARY)[token] * 10


@pytest.mark.parametrize(
    ("silence", "act"), [(0.7, "open"), (0.724, "open"), (0.726, "wait"), (1.0, "wait")]
)
def test_the_default_threshold_is_the_papers(silence, act):
    assert TurnBased(TOKENS).at_frame(with_silence(silence), False).act == act


@pytest.mark.parametrize("temperature", [1e-300, 1e-38, 1e-3])
def test_the_coldest_draw_is_the_likeliest_token(temperature):
    pick = sampler(temperature, seed=0)
    logits_V = torch.tensor([-300.0, 5.0, 80.0, 79.0])
    assert {pick(logits_V) for _ in range(20)} == {2}


def test_threshold_ends():
    never, almost_always = TurnBased(TOKENS, 0.0), TurnBased(TOKENS, 1.0)
    assert never.at_frame(with_silence(0.0), False).act == "wait"
    assert almost_always.at_frame(with_silence(0.99), False).act == "open"
    with pytest.raises(ValueError, match="1.5"):
        TurnBased(TOKENS, 1.5)


def test_turn_based_ends_at_eos_and_at_bos():
    policy = TurnBased(TOKENS)
    assert [policy.at_token(one(t)).act for t in (EOS, BOS, 7)] == ["close", "close", "token"]


@pytest.mark.parametrize(
    ("token", "speaking", "act"),
    [
        (BOS, False, "open"), (BOS, True, "open"), (EOS, False, "wait"), (EOS, True, "close"),
        (7, False, "wait"), (7, True, "token"),
    ],
)  # fmt: skip
def test_tsi_at_a_frame(token, speaking, act):
    assert Tsi(TOKENS).at_frame(one(token), speaking).act == act


def test_sampling_repeats_by_seed_and_follows_the_logits():
    logits = with_silence(0.5)
    draws = [[pick(logits) for _ in range(200)] for pick in (sampler(1, 3), sampler(1, 3))]
    assert draws[0] == draws[1] != [sampler(1, 4)(logits) for _ in range(200)]
    assert 60 < draws[0].count(EOS) < 140
    assert {sampler(0.01, 0)(one(7)) for _ in range(20)} == {7}
    with pytest.raises(ValueError, match="temperature"):
        sampler(0, 0)
