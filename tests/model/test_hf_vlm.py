"""Qwen2.5-VL, Qwen3-VL and SmolVLM2 as VLM-TSI: the family's own logits, streamed and trained."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.model.vlm_replicas import FAMILIES, IMAGE, ROWS, SIZE, made_of, replica, saved
from tests.tiny import tiny_frames, tiny_tokenizer
from vlm_tsi.config import LoraSettings, ModelConfig, PartConfig, TrainConfig, parse_train_config
from vlm_tsi.errors import UserError
from vlm_tsi.model.backbones.hf_vlm import GridPositions, patches
from vlm_tsi.model.loading import load_checkpoint, load_model, save_checkpoint
from vlm_tsi.sequence.interleave import Scheme, interleave
from vlm_tsi.sequence.tokens import TokenSpec, encoder
from vlm_tsi.streaming.engine import StreamFrame
from vlm_tsi.streaming.protocol import new_engine
from vlm_tsi.streaming.settings import StreamSettings, decoding_for
from vlm_tsi.streaming.window import Window
from vlm_tsi.timeline import Utterance
from vlm_tsi.training.build import add_lora, add_marks, new_model

FRAMES = torch.from_numpy(tiny_frames(6, size=SIZE))
TIMES = np.arange(6) * 0.5
SAID = [
    Utterance("user", "the lamp", 0.2, 0.6),
    Utterance("assistant", "red lamp comes on", 1.1, 2.4),
]


@pytest.fixture(scope="module", params=FAMILIES)
def house(request, tmp_path_factory):
    folder = saved(request.param, tmp_path_factory.mktemp(request.param) / "vlm")
    model, tokenizer = made_of(folder)
    return request.param, folder, model, tokenizer


def row_of(model, tokenizer):
    return interleave(
        SAID, TIMES, model.tokens, encoder(tokenizer), Scheme(name="tsi"), "take part"
    )


def trained_logits(model, row):
    with torch.no_grad():
        return model(
            input_ids=torch.tensor([row.ids_L.tolist()]),
            frame_mask=torch.tensor([(row.frame_idx_L >= 0).tolist()]),
            frame_features=model.encode_pixels(FRAMES),
        ).logits[0]


def own_logits(family, row):
    """[L, V] of the family's own model and inputs: its image tokens, processor and positions."""
    vlm = replica(family)
    is_frame = torch.tensor([(row.frame_idx_L >= 0).tolist()])
    ids = torch.where(is_frame, IMAGE, torch.tensor([row.ids_L.tolist()]))
    with torch.no_grad():
        if family == "smolvlm":
            pixels = (FRAMES.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
            return vlm(input_ids=ids, pixel_values=pixels[None]).logits[0]
        pixels, grid = processed()
        return vlm(
            input_ids=ids,
            pixel_values=pixels,
            image_grid_thw=grid,
            mm_token_type_ids=is_frame.int(),
        ).logits[0]


def processed():
    """The family's own processor on the frames, as they are."""
    processor = Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, temporal_patch_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3,
        do_resize=False,
    )  # fmt: skip
    found = processor(images=[Image.fromarray(f.numpy()) for f in FRAMES], return_tensors="pt")
    return found["pixel_values"], found["image_grid_thw"]


def parted_row(model):
    """Six frames with text before, between and after them: the family takes neighbours for one."""
    ids, frame_idx = [8, 9], [-1, -1]
    for k in range(len(FRAMES)):
        ids += [model.tokens.frame_id] * model.tokens.tokens_per_frame
        frame_idx += [k] * model.tokens.tokens_per_frame
        ids += [10 + k] * (1 + k % 3)
        frame_idx += [-1] * (1 + k % 3)
    return SimpleNamespace(ids_L=np.array(ids), frame_idx_L=np.array(frame_idx))


def test_logits_are_those_of_the_familys_own_model(house):
    family, _, model, _ = house
    row = parted_row(model)
    ours, theirs = trained_logits(model, row), own_logits(family, row)
    torch.testing.assert_close(ours, theirs, atol=2e-5 * float(theirs.abs().max()), rtol=0)


@pytest.mark.parametrize("units", [[0, 1, 1, 0, 0, 1], [1, 1, 1], [0, 0], [1, 0, 1]])
@pytest.mark.parametrize("grid", [1, 3])
def test_a_frames_tokens_share_a_time_and_count_rows_and_columns(units, grid):
    """Against the rule written out; neighbouring frames follow each other in time."""
    expected, is_frame, bases, at = [], [], [], 0
    for unit in units:
        bases.append(at)
        cells = [(at, at + r, at + c) for r in range(grid) for c in range(grid)]
        expected += cells if unit else [(at,) * 3]
        is_frame += [bool(unit)] * (grid * grid if unit else 1)
        at += grid if unit else 1
    positions = GridPositions(grid, 8)
    wanted = torch.tensor(expected).T[:, None]
    assert torch.equal(positions.of_rows(torch.tensor([is_frame])), wanted)
    assert torch.equal(positions.of_units(bases, is_frame), wanted)


def test_patches_are_those_of_the_familys_processor():
    pixels = (FRAMES.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
    torch.testing.assert_close(patches(pixels, 4, 2, 2), processed()[0], atol=1e-6, rtol=0)


@torch.inference_mode()
def test_streaming_gives_the_training_logits(house):
    _, _, model, tokenizer = house
    row, features = row_of(model, tokenizer), model.encode_pixels(FRAMES)
    expected = trained_logits(model, row)
    engine = new_engine(model, replace(decoding_for(StreamSettings(), model, "v"), window=None))
    at = 0
    while at < len(row):
        k = int(row.frame_idx_L[at])
        if k >= 0:
            engine.watch(StreamFrame(TIMES[k], k, features[k]))
        else:
            engine.feed_ids([int(row.ids_L[at])])
        at = engine.positions
        most = 1e-4 * float(expected.abs().max())
        torch.testing.assert_close(engine._run(), expected[at - 1], atol=most, rtol=0)
    assert at == len(row) and engine.cache.get_seq_length() == len(row)


@torch.inference_mode()
def test_a_window_moves_over_the_familys_positions(house):
    """First layer's keys after evictions: those of a stream of what is kept alone."""
    _, _, model, _ = house
    slots = model.tokens.tokens_per_frame
    window = Window(frames=2, text=2, sink=2, tokens_per_frame=slots, slack=slots + 2)
    decoding = replace(decoding_for(StreamSettings(), model, "v"), window=window)
    engine = new_engine(model, decoding)
    features = model.encode_pixels(FRAMES)
    engine.feed_ids([8, 9])
    for k, features_TV in enumerate(features):
        engine.watch(StreamFrame(TIMES[k], k, features_TV))
        engine.feed_ids([10 + k])
        engine.settle()
    ledger, layer = engine.cache.ledger, engine.cache.stored[0]
    assert ledger.evicted_frames >= 2 and ledger.next_position <= window.capacity
    kept = [u.is_frame for u in ledger._units]
    first = len(features) - sum(kept)
    words = [8, 9, *range(10 + len(features) - (len(kept) - sum(kept) - 2), 10 + len(features))]
    fresh = new_engine(model, replace(decoding, window=None))
    shown, said = iter(features[first:]), iter(words)
    for k, is_frame in enumerate(kept):
        if is_frame:
            fresh.watch(StreamFrame(k, k, next(shown)))
        else:
            fresh.feed_ids([next(said)])
    fresh.settle()
    theirs, n = fresh.cache.stored[0], layer.length
    assert n == theirs.length
    torch.testing.assert_close(layer.keys[:, :, :n], theirs.keys[:, :, :n], atol=1e-3, rtol=0)


def test_a_checkpoint_loads_as_it_was_saved(house, tmp_path):
    _, _, model, tokenizer = house
    save_checkpoint(tmp_path / "model", model, tokenizer, model.config, {})
    again = load_checkpoint(tmp_path / "model")
    row = row_of(model, tokenizer)
    torch.testing.assert_close(trained_logits(again.model, row), trained_logits(model, row))


def test_lora_merges_and_reloads_to_the_same_logits(house, tmp_path):
    _, folder, _, _ = house
    model, tokenizer = made_of(folder)
    save_checkpoint(tmp_path / "base", model, tokenizer, model.config, {})
    wrapped = add_lora(load_model(tmp_path / "base"), LoraSettings(rank=4), str(tmp_path / "base"))
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_" in name:
                weight.normal_(std=0.1)
    row = row_of(model, tokenizer)
    expected = _forward(wrapped.eval(), model, row)
    save_checkpoint(tmp_path / "adapter", wrapped, tokenizer, model.config, {})
    loaded = load_checkpoint(tmp_path / "adapter").model
    most = 1e-4 * float(expected.abs().max())
    torch.testing.assert_close(trained_logits(loaded, row), expected, atol=most, rtol=0)


def _forward(wrapped, model, row):
    with torch.no_grad():
        return wrapped(
            input_ids=torch.tensor([row.ids_L.tolist()]),
            frame_mask=torch.tensor([(row.frame_idx_L >= 0).tolist()]),
            frame_features=model.encode_pixels(FRAMES),
        ).logits[0]


def test_marks_take_unused_rows_and_tables_keep_their_size(house):
    _, folder, _, _ = house
    spec = TokenSpec(bos="<speak>", eos="<hush>")
    model, tokenizer = made_of(folder, tokens=spec)
    assert len(model.get_input_embeddings().weight) == ROWS
    assert sorted((model.tokens.bos_id, model.tokens.eos_id)) == [
        len(tokenizer) - 2,
        len(tokenizer) - 1,
    ]
    assert tokenizer("red <speak> lamp")["input_ids"][1] == model.tokens.bos_id


def test_a_full_table_says_which_tokens_to_name():
    tokenizer = tiny_tokenizer()
    with pytest.raises(UserError, match=r"'<hush>' needs a row, the table's \d+ are all in use"):
        add_marks(tokenizer, TokenSpec(eos="<hush>"), len(tokenizer))


BAD = {
    "an odd frame": ({"frame_size": 30}, "use a multiple of 8, such as 32"),
    "another family": ({"vlm": PartConfig(config={"model_type": "llava"})}, "'llava' model"),
    "no place": ({"vlm": PartConfig(path="/none/there")}, "/none/there"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_one_line(case, house, tmp_path):
    settings, named = BAD[case]
    _, folder, _, _ = house
    values = {"vlm": PartConfig(path=str(folder)), "tokenizer": str(folder), "frame_size": SIZE}
    with pytest.raises(UserError, match=named):
        new_model(ModelConfig(**values | settings))


def test_a_config_names_one_and_a_base_goes_beside_none():
    words = ["data.timelines=[t.jsonl]", "model.vlm.path=qwen3", "model.frame_size=224"]
    config = parse_train_config(words)
    assert isinstance(config, TrainConfig) and config.model.vlm.path == "qwen3"
    with pytest.raises(UserError, match=r"model\.vlm"):
        parse_train_config([*words, "model.base=x"])
