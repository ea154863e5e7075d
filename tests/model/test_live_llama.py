"""VideoLLM-Online's released layout in and out, against a small replica of it."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from data_prep.import_live import main
from tests.model.live_replica import Replica
from tests.tiny import tiny_frames
from vlm_tsi.errors import UserError
from vlm_tsi.model.backbones.live_llama import export_live, import_live
from vlm_tsi.model.loading import load_checkpoint
from vlm_tsi.sequence.interleave import Scheme, interleave
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.streaming.engine import StreamFrame
from vlm_tsi.streaming.protocol import new_engine
from vlm_tsi.streaming.settings import StreamSettings, decoding_for
from vlm_tsi.timeline import Utterance

FRAMES = torch.from_numpy(tiny_frames(3, size=96))


@pytest.fixture(scope="module", params=["live1", "live1+"])
def replica(request, tmp_path_factory):
    made = Replica(tmp_path_factory.mktemp("live"), request.param)
    folders = [made.folder / n for n in ("adapter", "llama", "siglip")]
    made.found = import_live(*folders, made.folder / "ours")
    made.ours = load_checkpoint(made.folder / "ours")
    return made


def row_of(model, parts, tokenizer):
    """(ids, frame mask, features) of texts and frames in order."""
    slots, ids, mask = model.tokens.tokens_per_frame, [], []
    for part in parts:
        told = tokenizer(part)["input_ids"] if isinstance(part, str) else None
        ids += told if told is not None else [model.tokens.frame_id] * slots
        mask += [told is None] * (len(told) if told is not None else slots)
    pixels = torch.stack([p for p in parts if not isinstance(p, str)])
    return torch.tensor([ids]), torch.tensor([mask]), model.encode_pixels(pixels)


@torch.no_grad()
def test_an_imported_checkpoint_gives_the_released_models_logits(replica):
    parts = ["look what is it", FRAMES[0], FRAMES[1], "\nAssistant: a ball", FRAMES[2], " goes in"]
    model = replica.ours.model
    ids, mask, features = row_of(model, parts, replica.tokenizer)
    assert model.tokens.tokens_per_frame == (10 if replica.variant == "live1+" else 1)
    ours = model(input_ids=ids, frame_mask=mask, frame_features=features).logits[0]
    torch.testing.assert_close(ours, replica.logits(parts), atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_frame_is_the_cls_token_and_then_nine_means_row_by_row(replica):
    ours = replica.ours.model.encode_pixels(FRAMES)
    for features_TV, pixels_HWC in zip(ours, FRAMES, strict=True):
        torch.testing.assert_close(features_TV, replica.frame_tokens(pixels_HWC), atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_wide_frame_is_fitted_and_padded_black(replica):
    encoder_ = replica.ours.model.encoder
    white_HWC = torch.full((54, 96, 3), 255, dtype=torch.uint8)
    seen = encoder_.preprocess(white_HWC[None])[0]
    assert seen.shape == (3, 96, 96)
    assert torch.equal(seen[:, :21], torch.full_like(seen[:, :21], -1.0))
    assert torch.equal(seen[:, 21:75], torch.ones_like(seen[:, 21:75]))
    assert torch.equal(seen[:, 75:], torch.full_like(seen[:, 75:], -1.0))


@torch.inference_mode()
def test_streaming_gives_the_training_logits(replica):
    """BOS is the line break that also opens what is fed; the frame's id lies past the table."""
    model, encode = replica.ours.model, encoder(replica.tokenizer)
    tokens = model.tokens
    assert replica.tokenizer.decode([tokens.bos_id]) == "\n"
    assert replica.tokenizer.decode([tokens.eos_id]) == "<|eot_id|>"
    assert tokens.frame_id == len(replica.tokenizer)
    said = [Utterance("assistant", "a ball goes in", 0.6, 1.4)]
    times = np.array([0.0, 0.5, 1.0])
    row = interleave(said, times, tokens, encode, Scheme(name="tsi"), "look")
    features = model.encode_pixels(FRAMES)
    expected = model(
        input_ids=torch.tensor([row.ids_L.tolist()]),
        frame_mask=torch.tensor([(row.frame_idx_L >= 0).tolist()]), frame_features=features,
    ).logits[0]  # fmt: skip
    decoding = replace(decoding_for(StreamSettings(), model, "v"), window=None)
    engine = new_engine(model, decoding)
    at = 0
    while at < len(row):
        k = int(row.frame_idx_L[at])
        if k >= 0:
            engine.watch(StreamFrame(times[k], k, features[k]))
        else:
            engine.feed_ids([int(row.ids_L[at])])
        at = engine.positions
        torch.testing.assert_close(engine._run(), expected[at - 1], atol=1e-4, rtol=0)
    assert at == len(row)


def test_export_gives_back_what_was_imported(replica, tmp_path):
    export_live(replica.folder / "ours", tmp_path / "again", "Llama-3")
    before, after = (
        f / "adapter_model.safetensors" for f in (replica.folder / "adapter", tmp_path / "again")
    )
    ours, theirs = load_file(after), load_file(before)
    copies = {k for k in theirs if "lora" not in k and "connector" not in k}
    assert {k.split(".")[-3] for k in copies} <= {"lm_head", "model"}
    theirs = {k: v for k, v in theirs.items() if k not in copies}
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[k], theirs[k]) for k in ours)
    settings = json.loads((tmp_path / "again/adapter_config.json").read_text())
    released = json.loads((replica.folder / "adapter/adapter_config.json").read_text())
    for key in ("r", "lora_alpha", "lora_dropout", "target_modules", "modules_to_save"):
        assert settings[key] == released[key]
    folders = [replica.folder / n for n in ("llama", "siglip")]
    import_live(tmp_path / "again", *folders, tmp_path / "twice")
    twice = load_file(tmp_path / "twice/adapter_model.safetensors")
    once = load_file(replica.folder / "ours/adapter_model.safetensors")
    assert twice.keys() == once.keys() and all(torch.equal(once[k], twice[k]) for k in once)


def test_siglips_text_tower_is_left_out_and_counted(replica):
    assert replica.found.left_out["siglip"] > 0 and replica.found.left_out["llama"] == 0
    assert sum(replica.found.taken.values()) > 30


def broken(replica, folder, change):
    """A copy of the published folders with something changed."""
    for name in ("adapter", "llama", "siglip"):
        shutil.copytree(replica.folder / name, folder / name)
    change(folder)
    return ["--adapter", folder / "adapter", "--llama", folder / "llama", "--siglip",
            folder / "siglip", "--out", folder / "out"]  # fmt: skip


def edit_json(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def edit_weights(path, change):
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


HEAD = "base_model.model.lm_head.base_layer.weight"
LORA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
ADAPTER = "adapter/adapter_model.safetensors"
BROKEN = {
    "a Qwen for Llama": (lambda f: edit_json(f / "llama/config.json", model_type="qwen2"), "'qwen2'"),
    "a Llama for SigLIP": (lambda f: shutil.copy(f / "llama/config.json", f / "siglip"), "'llama'"),
    "pickled weights": (
        lambda f: (f / ADAPTER).rename(f / "adapter/adapter_model.bin"), "pickled weights"),
    "no adapter config": (lambda f: (f / "adapter/adapter_config.json").unlink(), "holds no adapter_config"),
    "another method": (lambda f: edit_json(f / "adapter/adapter_config.json", peft_type="IA3"), "not of a LoRA"),
    "another rank": (lambda f: edit_json(f / "adapter/adapter_config.json", r=8), "[8, 32] is needed"),
    "a missing layer": (lambda f: edit_weights(f / ADAPTER, lambda t: t.pop(LORA)), "q_proj.lora_A.weight is missing"),
    "a layer too many": (
        lambda f: edit_weights(f / ADAPTER, lambda t: t.update(x=torch.zeros(1))), "1 of its weights have no place"),
    "another width": (
        lambda f: edit_weights(f / ADAPTER, lambda t: t.update({LORA: torch.zeros(4, 9)})), "is [4, 9]"),
    "half a file": (lambda f: (f / ADAPTER).write_bytes(b"12345678"), "is damaged"),
    "no end of turn": (lambda f: [
        edit_text(p, "<|eot_id|>", "<|other|>") for p in (f / "llama").glob("token*.json")], "eos"),
    "no weights": (lambda f: [p.unlink() for p in (f / "siglip").glob("*.safetensors")], "no .safetensors"),
    "a tied head": (
        lambda f: (drop(f / "llama", "lm_head.weight"), drop(f / "adapter", HEAD)), "ties its head"),
    "a lost shard": (lambda f: sorted((f / "llama").glob("*.safetensors"))[0].unlink(), "in none of the folders"),
    "an odd grid": (lambda f: edit_json(f / "adapter/config.json", frame_token_pooled=[3, 2]), "[3, 2]"),
    "a full place": (lambda f: (f / "out").mkdir(), "is there already"),
}  # fmt: skip


def edit_text(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def drop(folder, name):
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        if tensors.pop(name, None) is not None:
            save_file(tensors, file)


@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_fit_is_named_in_one_line(case, replica, tmp_path, capsys):
    change, named = BROKEN[case]
    words = broken(replica, tmp_path, change)
    assert main([str(w) for w in words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and named in lines[0]
    assert [p.name for p in tmp_path.glob(".out*")] == []
    assert case == "a full place" or not (tmp_path / "out").exists()


def test_the_command_tells_what_it_took(replica, tmp_path, capsys):
    assert main([str(w) for w in broken(replica, tmp_path, lambda f: None)]) == 0
    shown = capsys.readouterr().out
    assert "weights of llama" in shown and "left out" in shown
    assert main(["--export", str(tmp_path / "out"), "--out", str(tmp_path / "back")]) == 0
    assert (tmp_path / "back/adapter_model.safetensors").is_file()


def test_what_has_no_released_form_is_refused(replica, tmp_path):
    with pytest.raises(UserError, match="only adapters have a released form"):
        export_live(replica.folder / "ours/base", tmp_path / "x")
