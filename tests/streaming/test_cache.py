"""The cache against transformers' own, in place, and kept to a window."""

import itertools

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.cache_utils import Cache, DynamicLayer

from tests.tiny import tiny_features, tiny_model, tiny_tokenizer
from vlm_tsi.errors import UserError
from vlm_tsi.streaming.cache import (
    StreamCache,
    StreamLayer,
    angles,
    is_relative,
    stream_cache,
    turned,
)
from vlm_tsi.streaming.window import Ledger, Window


def chunks(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 1, 2, n, 4, generator=generator) for n in sizes]


def test_equals_transformers_cache():
    ours, theirs = StreamCache(1, room=4), Cache(layers=[DynamicLayer()])
    for keys, values in chunks([3, 1, 1, 7, 1, 20, 1]):
        got, expected = ours.update(keys, values, 0), theirs.update(keys, values, 0)
        assert all(torch.equal(g, e) for g, e in zip(got, expected, strict=True))
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.layers[0].get_mask_sizes(5) == theirs.layers[0].get_mask_sizes(5)


def test_a_step_writes_in_place_and_room_doubles_when_full():
    layer = StreamLayer(room=8)
    places, rooms = [], []
    for keys, values in chunks([1] * 33):
        layer.update(keys, values)
        places.append(layer.keys.data_ptr())
        rooms.append(layer.room)
    assert rooms == [8] * 8 + [16] * 8 + [32] * 16 + [64]
    assert len(set(places[:8])) == len(set(places[8:16])) == len(set(places[16:32])) == 1


def test_reset_forgets():
    layer = StreamLayer(room=4)
    (first,), (second,) = chunks([3]), chunks([2], seed=1)
    layer.update(*first)
    layer.reset()
    assert torch.equal(layer.update(*second)[0], second[0])
    assert layer.get_max_length() == -1


WORDS = list(range(8, 20))


def stream(model, units, window=None, seed=0):
    """(cache, logits after each unit) of text (0) and frames (1) in random order."""
    cache = stream_cache(model, window, room=4)
    features_FTV = tiny_features(model, sum(units), seed)
    frames, words = iter(features_FTV), itertools.cycle(WORDS)
    slots, logits = model.tokens.tokens_per_frame, []
    for is_frame in units:
        if is_frame:
            embeds_LD = model.embed_frames(next(frames)[None])
        else:
            embeds_LD = model.embed_ids(torch.tensor([next(words)]))
        logits.append(
            model.advance(embeds_LD, cache, [bool(is_frame)] * (slots if is_frame else 1))
        )
    return cache, torch.stack(logits)


UNITS = [0, 0, 0, *([1, 1, 0, 1, 0, 0] * 12)]


@pytest.fixture(scope="module", params=[1, 5])
def model(request):
    return tiny_model(tiny_tokenizer(), request.param)


@torch.inference_mode()
def test_nothing_differs_until_something_has_left(model):
    slots = model.tokens.tokens_per_frame
    window = Window(frames=10, text=8, sink=3, tokens_per_frame=slots, slack=4 * slots)
    (cache, ours), (_, plain) = stream(model, UNITS, window), stream(model, UNITS)
    whole = next(n for n in range(1, len(UNITS)) if _slots(UNITS[: n + 1], slots) > window.capacity)
    assert torch.equal(ours[:whole], plain[:whole])
    assert cache.evicted["frames"] > 10 and cache.evicted["text"] > 10
    assert not torch.allclose(ours[-1], plain[-1], atol=1e-3)


def _slots(units, slots):
    return sum(slots if u else 1 for u in units)


@torch.inference_mode()
def test_turned_keys_are_those_of_the_kept_positions(model):
    """Of one layer (whose keys know nothing of others): as if fed at the new positions."""
    slots = model.tokens.tokens_per_frame
    window = Window(frames=6, text=5, sink=3, tokens_per_frame=slots, slack=3 * slots)
    cache, _ = stream(model, UNITS, window)
    assert cache.ledger.evictions >= 5
    fresh, kept = stream_cache(model), _kept_embeddings(model, UNITS, window)
    model.run_text(kept, fresh)
    ours, theirs = (c.layers[0] for c in (cache, fresh))
    n = ours.length
    assert n == theirs.length <= window.capacity
    torch.testing.assert_close(ours.keys[:, :, :n], theirs.keys[:, :, :n], atol=1e-4, rtol=0)
    torch.testing.assert_close(ours.values[:, :, :n], theirs.values[:, :, :n], atol=1e-5, rtol=0)


def _kept_embeddings(model, units, window):
    ledger, kept = Ledger(window, model.frame_span), []
    frames, words = iter(tiny_features(model, sum(units))), itertools.cycle(WORDS)
    for is_frame in units:
        slots = window.tokens_per_frame if is_frame else 1
        if not ledger.fits(slots):
            kept = [kept[k] for k in ledger.evict().kept_K]
        if is_frame:
            ledger.add_frame()
            kept += list(model.embed_frames(next(frames)[None]))
        else:
            ledger.add_text(1)
            kept += list(model.embed_ids(torch.tensor([next(words)])))
    return torch.stack(kept)


@torch.inference_mode()
def test_memory_is_the_closed_form_and_stays_where_it_is(model):
    slots = model.tokens.tokens_per_frame
    window = Window(frames=4, text=4, sink=4, tokens_per_frame=slots, slack=2 * slots)
    cache, _ = stream(model, UNITS, window)
    config = model.text_config
    width = config.hidden_size // config.num_attention_heads
    row = 2 * config.num_hidden_layers * config.num_key_value_heads * width * 4
    assert cache.bytes() == row * window.capacity
    place = cache.layers[0].keys.data_ptr()
    model.advance(model.embed_ids(torch.tensor(WORDS[:2])), cache)
    assert cache.layers[0].keys.data_ptr() == place


@pytest.mark.parametrize("dtype, most", [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
def test_a_hundred_turns_lose_little(dtype, most):
    torch.manual_seed(0)
    inv_freq_R = 10_000.0 ** -(torch.arange(0, 16, 2) / 16)
    keys = torch.randn(1, 2, 5, 16, dtype=dtype)
    moved = keys
    for _ in range(100):
        moved = turned(moved, *angles(np.full(5, -300), inv_freq_R))
    back = turned(moved, *angles(np.full(5, 30_000), inv_freq_R))
    assert (back.float() - keys.float()).abs().max() < most


def test_models_whose_keys_do_not_turn_so_are_refused_by_a_window():
    config = GPT2Config(
        n_layer=1, n_embd=16, n_head=2, vocab_size=40, bos_token_id=1, eos_token_id=2
    )
    model = tiny_model(tiny_tokenizer())
    model.language_model = GPT2LMHeadModel(config).eval()
    assert not is_relative(model)
    with pytest.raises(UserError, match="stream it with --window none"):
        stream_cache(model, Window(frames=2, slack=4))


def test_a_window_beyond_the_trained_range_is_refused():
    model = tiny_model(tiny_tokenizer())
    with pytest.raises(UserError, match="the language model knows 16384"):
        stream_cache(model, Window(frames=20_000))


def test_no_memory_for_the_window_says_what_to_change():
    layer = StreamLayer(room=2**50)
    with pytest.raises(UserError, match="keep less"):
        layer.update(*chunks([1])[0])
