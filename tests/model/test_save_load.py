"""Checkpoints: what is saved is what is loaded, or one line says what is wrong."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, LlamaConfig

from tests.tiny import save_tiny, tiny_features, tiny_model, tiny_tokenizer
from vlm_tsi.config import LoraSettings
from vlm_tsi.errors import UserError
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.fingerprint import encoder_key
from vlm_tsi.model.loading import load_checkpoint, save_checkpoint
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.training.build import add_lora

TOKENIZER = tiny_tokenizer()


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("base") / "model", 5)


def row(model) -> dict:
    """Text, one frame, text."""
    slots = model.config.tokens_per_frame
    ids = torch.tensor([[6, 9, *[4] * slots, 10, 11]])
    mask = torch.tensor([[False] * 2 + [True] * slots + [False] * 2])
    return {"input_ids": ids, "frame_mask": mask, "frame_features": tiny_features(model, 1)}


@torch.no_grad()
def logits(model) -> torch.Tensor:
    return model.eval()(**row(model)).logits


def adapter(base: Path, folder: Path, named: Path | None = None) -> torch.Tensor:
    """Save a LoRA with random weights; returns its logits before saving."""
    model = load_checkpoint(base).model
    wrapped = add_lora(model, LoraSettings(rank=4, alpha=8), str(named or base))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in wrapped.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    wrapped.eval()
    with torch.no_grad():
        answer = wrapped(**row(model)).logits
    save_checkpoint(folder, wrapped, TOKENIZER, model.config, {})
    return answer


@pytest.mark.parametrize("loader", [VlmTsiModel, AutoModel, AutoModelForCausalLM])
def test_a_saved_model_gives_the_same_logits(base: Path, loader) -> None:
    loaded = loader.from_pretrained(base)
    assert isinstance(loaded, VlmTsiModel)
    assert torch.equal(logits(loaded), logits(tiny_model(TOKENIZER, 5)))


def test_the_config_survives(base: Path) -> None:
    config = AutoConfig.from_pretrained(base)
    before = tiny_model(TOKENIZER, 5).config
    assert isinstance(config, VlmTsiConfig)
    assert config.tokens == before.tokens and config.tokens_per_frame == 5
    assert (config.fps, config.pixel_mean) == (before.fps, before.pixel_mean)


def test_load_checkpoint_brings_the_tokenizer(base: Path) -> None:
    loaded = load_checkpoint(base)
    assert loaded.tokenizer.get_vocab() == TOKENIZER.get_vocab()
    assert not loaded.model.training


def test_an_adapter_merges_to_the_same_logits(base: Path, tmp_path: Path) -> None:
    answer = adapter(base, tmp_path / "lora")
    merged = load_checkpoint(tmp_path / "lora").model
    assert isinstance(merged, VlmTsiModel)
    torch.testing.assert_close(logits(merged), answer, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(logits(load_checkpoint(base).model), answer, atol=1e-2)


def test_the_connector_is_saved_with_the_adapter(base: Path, tmp_path: Path) -> None:
    adapter(base, tmp_path / "lora")
    before = load_checkpoint(base).model.connector[0].weight
    after = load_checkpoint(tmp_path / "lora").model.connector[0].weight
    assert not torch.allclose(before, after)


def test_an_adapter_on_an_adapter_loads(base: Path, tmp_path: Path) -> None:
    adapter(base, tmp_path / "one")
    answer = adapter(tmp_path / "one", tmp_path / "two")
    merged = load_checkpoint(tmp_path / "two").model
    torch.testing.assert_close(logits(merged), answer, atol=1e-4, rtol=1e-4)


def test_a_moved_base_can_be_named(base: Path, tmp_path: Path) -> None:
    answer = adapter(base, tmp_path / "lora", named=tmp_path / "gone")
    with pytest.raises(UserError, match="base model .*gone.* is no folder.*--base"):
        load_checkpoint(tmp_path / "lora")
    moved = load_checkpoint(tmp_path / "lora", base=base).model
    torch.testing.assert_close(logits(moved), answer, atol=1e-4, rtol=1e-4)


def test_saving_replaces_a_checkpoint_whole(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(base, folder)
    (folder / "old.txt").write_text("old")
    save_checkpoint(
        folder, tiny_model(TOKENIZER), TOKENIZER, tiny_model(TOKENIZER).config, {"n": 1}
    )
    assert json.loads((folder / "training.json").read_text()) == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["model"] and not (folder / "old.txt").exists()


def refused(folder: Path, match: str) -> None:
    with pytest.raises(UserError, match=match) as err:
        load_checkpoint(folder)
    assert "\n" not in str(err.value)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_missing_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none", "none: is no folder")


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    refused(tmp_path, "is not a checkpoint")


def test_a_checkpoint_of_another_architecture(tmp_path: Path) -> None:
    LlamaConfig().save_pretrained(tmp_path)
    refused(tmp_path, "holds a 'llama' model, not 'vlm_tsi'")


def test_a_folder_without_weights(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    refused(tmp_path / "m", "holds no .safetensors file")


def test_truncated_weights(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "m")
    cut(tmp_path / "m" / "model.safetensors")
    refused(tmp_path / "m", "model.safetensors: is damaged")


def test_a_checkpoint_without_a_tokenizer(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "m")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "m" / name).unlink()
    refused(tmp_path / "m", "holds no tokenizer")


def test_a_damaged_adapter(base: Path, tmp_path: Path) -> None:
    adapter(base, tmp_path / "lora")
    cut(tmp_path / "lora" / "adapter_model.safetensors")
    refused(tmp_path / "lora", "adapter_model.safetensors: is damaged")
    (tmp_path / "lora" / "adapter_model.safetensors").unlink()
    refused(tmp_path / "lora", "holds no adapter_model.safetensors")


@pytest.mark.parametrize("name", ["adapter_config.json", "config.json"])
def test_an_adapter_without_one_of_its_files(base: Path, tmp_path: Path, name: str) -> None:
    adapter(base, tmp_path / "lora")
    (tmp_path / "lora" / name).unlink()
    refused(tmp_path / "lora", name)


def test_a_whole_model_has_no_base(base: Path) -> None:
    with pytest.raises(UserError, match="--base.* is a whole model"):
        load_checkpoint(base, base=base)


def test_an_adapter_of_another_base(base: Path, tmp_path: Path) -> None:
    adapter(base, tmp_path / "lora")
    other = save_tiny(tmp_path / "other", 5, fps=1.0)
    config = json.loads((other / "config.json").read_text())
    config["text_config"]["intermediate_size"] = 48
    VlmTsiModel(VlmTsiConfig(**config)).save_pretrained(other)
    with pytest.raises(UserError, match="was trained on other weights"):
        load_checkpoint(tmp_path / "lora", base=other)
    (tmp_path / "lora" / "training.json").unlink()  # an adapter from elsewhere has no such note
    with pytest.raises(UserError, match="does not fit its base"):
        load_checkpoint(tmp_path / "lora", base=other)


def test_an_adapter_refuses_a_base_whose_weights_have_changed(base: Path, tmp_path: Path) -> None:
    """Same shapes, other weights: it would load, and say something else."""
    shutil.copytree(base, tmp_path / "base")
    adapter(tmp_path / "base", tmp_path / "lora")
    load_checkpoint(tmp_path / "lora")
    changed = load_checkpoint(tmp_path / "base").model
    with torch.no_grad():
        next(changed.parameters()).add_(0.1)
    changed.save_pretrained(tmp_path / "base")
    with pytest.raises(UserError, match="was trained on other weights than those in .*base"):
        load_checkpoint(tmp_path / "lora")
    notes = tmp_path / "lora" / "training.json"
    notes.write_text("{}")
    load_checkpoint(tmp_path / "lora")


def test_an_encoders_key_names_weights_and_settings(base: Path) -> None:
    model = load_checkpoint(base).model
    key = encoder_key(model, 2.0)
    assert key == encoder_key(load_checkpoint(base).model, 2.0) != encoder_key(model, 1.0)
    with torch.no_grad():
        next(model.connector.parameters()).add_(1.0)
    assert key == encoder_key(model, 2.0)
    with torch.no_grad():
        next(model.encoder.parameters()).add_(1.0)
    assert key != encoder_key(model, 2.0)


def test_lora_on_a_tied_head_streams_the_model_that_was_trained(tmp_path):
    """Merged into a tied head, LoRA would change the input embeddings as well."""
    import torch
    from transformers import LlamaConfig

    from tests.tiny import tiny_model, tiny_tokenizer
    from vlm_tsi.config import LoraSettings
    from vlm_tsi.model.config import VlmTsiConfig
    from vlm_tsi.model.vlm import VlmTsiModel
    from vlm_tsi.training.build import add_lora

    config = tiny_model(tiny_tokenizer(["a", "b"]), tokens_per_frame=1).config.to_dict()
    config["text_config"] = {**config["text_config"], "tie_word_embeddings": True}
    torch.manual_seed(0)
    model = VlmTsiModel(VlmTsiConfig(**config)).eval()
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert isinstance(model.language_model.config, LlamaConfig)
    model.untie()
    trained = add_lora(model, LoraSettings(rank=4, alpha=8), None).eval()
    for name, parameter in trained.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    ids, mask = torch.arange(1, 6)[None], torch.zeros(1, 5, dtype=torch.bool)
    mask[0, 0] = True
    pixels = torch.zeros(1, model.config.frame_size, model.config.frame_size, 3, dtype=torch.uint8)
    with torch.no_grad():
        before = trained(input_ids=ids, frame_mask=mask, pixels=pixels).logits
        after = trained.merge_and_unload()(input_ids=ids, frame_mask=mask, pixels=pixels).logits
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)
