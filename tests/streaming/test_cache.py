"""The growing cache against transformers' own, and that it grows in place."""

import torch
from transformers.cache_utils import Cache, DynamicLayer

from vlm_tsi.streaming.cache import GrowingLayer, stream_cache


def chunks(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 1, 2, n, 4, generator=generator) for n in sizes]


def test_equals_transformers_cache():
    ours, theirs = stream_cache(1, room=4), Cache(layers=[DynamicLayer()])
    for keys, values in chunks([3, 1, 1, 7, 1, 20, 1]):
        got, expected = ours.update(keys, values, 0), theirs.update(keys, values, 0)
        assert all(torch.equal(g, e) for g, e in zip(got, expected, strict=True))
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.layers[0].get_mask_sizes(5) == theirs.layers[0].get_mask_sizes(5)


def test_a_step_writes_in_place_and_room_doubles_when_full():
    layer = GrowingLayer(room=8)
    places, rooms = [], []
    for keys, values in chunks([1] * 33):
        layer.update(keys, values)
        places.append(layer.keys.data_ptr())
        rooms.append(layer.room)
    assert rooms == [8] * 8 + [16] * 8 + [32] * 16 + [64]
    assert len(set(places[:8])) == len(set(places[8:16])) == len(set(places[16:32])) == 1


def test_reset_forgets():
    layer = GrowingLayer(room=4)
    (first,), (second,) = chunks([3]), chunks([2], seed=1)
    layer.update(*first)
    layer.reset()
    assert torch.equal(layer.update(*second)[0], second[0])
    assert layer.get_max_length() == -1
