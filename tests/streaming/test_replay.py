"""Streaming gives the training forward's logits, teacher-forced and free."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.tiny import decoder, tiny_features, tiny_model, tiny_tokenizer
from vlm_tsi.sequence.interleave import Scheme, interleave, merge, place_turns
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.streaming.engine import StreamFrame
from vlm_tsi.streaming.protocol import new_engine, stream_timeline
from vlm_tsi.streaming.settings import StreamSettings, decoding_for
from vlm_tsi.timeline import Timeline, Utterance

FRAMES = 24
TOKENIZER = tiny_tokenizer()
WORDS = [w for w in TOKENIZER.get_vocab() if not w.startswith("<")]


@pytest.fixture(scope="module", params=[1, 5])
def model(request):
    return tiny_model(TOKENIZER, request.param)


def random_timeline(seed: int) -> Timeline:
    """Turns of both roles that overlap, are short, long, early and late."""
    rng = random.Random(seed)
    turns = []
    for _ in range(rng.randint(0, 7)):
        start = round(rng.uniform(0, 11), 2)
        text = " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))
        role = rng.choice(["assistant", "assistant", "user"])
        turns.append(Utterance(role, text, start, start + round(rng.uniform(0, 4), 2)))
    turns.sort(key=lambda u: u.start)
    system = rng.choice(["", "take the red part"])
    return Timeline(f"v{seed}", "v.mp4", 12.0, tuple(turns), system)


def frame_times(seed: int) -> np.ndarray:
    """Variable rate."""
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.uniform(0.3, 0.7, FRAMES)) - 0.3


def training_logits(model, ids: Sequence[int], is_frame: Sequence[bool], features) -> torch.Tensor:
    """[L, V] of one forward, as in training."""
    with torch.no_grad():
        return model(
            input_ids=torch.tensor([list(ids)]),
            frame_mask=torch.tensor([list(is_frame)]),
            frame_features=features,
        ).logits[0]


@pytest.mark.parametrize("scheme", ["tsi", "turn_based"])
@pytest.mark.parametrize("seed", range(5))
def test_teacher_forced_replay_gives_the_training_logits(model, scheme, seed):
    timeline, times = random_timeline(seed), frame_times(seed)
    encode, features = encoder(TOKENIZER), tiny_features(model, FRAMES, seed)
    row = interleave(
        timeline.utterances, times, model.tokens, encode, Scheme(name=scheme), timeline.system
    )
    expected = training_logits(model, row.ids_L, row.frame_idx_L >= 0, features)
    engine = new_engine(model, decoding_for(StreamSettings(policy=scheme), model, "v"))
    if timeline.system:
        engine.feed_ids([*model.tokens.prefixes["system"], *encode(" " + timeline.system)])
    turns = place_turns(timeline.utterances, times, encode, Scheme(name=scheme))
    for step in merge(turns, times):
        if step.frame_idx >= 0:
            engine.watch(StreamFrame(step.time, step.frame_idx, features[step.frame_idx]))
        else:
            role, opens = turns[step.turn_idx].role, step.token_idx == 0
            engine.hear(role, [step.id], opens=opens)
        torch.testing.assert_close(engine._run(), expected[engine.positions - 1], atol=1e-4, rtol=0)
    assert engine.positions == len(row)


class Listening:
    """A model that remembers what it was fed and the logits it gave."""

    def __init__(self, model) -> None:
        self.inner, self.tokens = model, model.tokens
        self.text_config, self.frame_span = model.text_config, model.frame_span
        self.ids: list[int] = []
        self.is_frame: list[bool] = []
        self.given: list[tuple[int, torch.Tensor]] = []
        self.length = 0

    def embed_ids(self, ids):
        self.ids += ids.tolist()
        self.is_frame += [False] * len(ids)
        return self.inner.embed_ids(ids)

    def embed_frames(self, features):
        embeds = self.inner.embed_frames(features)
        self.ids += [self.tokens.frame_id] * len(embeds)
        self.is_frame += [True] * len(embeds)
        return embeds

    def advance(self, embeds, cache, is_frame):
        logits = self.inner.advance(embeds, cache, is_frame)
        self.length += len(embeds)
        self.given.append((self.length, logits))
        return logits


@pytest.mark.parametrize("policy", ["tsi", "turn_based"])
def test_free_streaming_decides_on_the_training_logits(model, policy):
    listening, features = Listening(model), tiny_features(model, FRAMES, 7)
    settings = StreamSettings(policy=policy, temperature=2.0, threshold=0.95, max_tokens=8)
    recorder = stream_timeline(
        listening, encoder(TOKENIZER), decoder(TOKENIZER),
        Timeline("v", "v.mp4", 12.0, (), "the lamp"), frame_times(7), features,
        replace(decoding_for(settings, model, "v"), window=None),
    )  # fmt: skip
    assert recorder.finished
    shown = features[: sum(listening.is_frame) // model.tokens.tokens_per_frame]
    expected = training_logits(model, listening.ids, listening.is_frame, shown)
    for length, logits in listening.given:
        torch.testing.assert_close(logits, expected[length - 1], atol=1e-4, rtol=0)
