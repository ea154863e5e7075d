"""The model on one sequence: loss on labels alone, chunks give the whole, LoRA everywhere."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.tiny import tiny_features, tiny_model, tiny_tokenizer
from vlm_tsi.config import LoraSettings, ModelConfig, PartConfig, parse_train_config
from vlm_tsi.errors import UserError
from vlm_tsi.model.loss import labelled_loss
from vlm_tsi.streaming.cache import stream_cache
from vlm_tsi.training.build import add_lora, lora_targets, new_model

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = tiny_tokenizer()


@pytest.fixture(scope="module")
def model():
    return tiny_model(TOKENIZER, 2)


def batch(model) -> dict:
    """Two rows of 7, each with one frame of two slots; five labels."""
    torch.manual_seed(3)
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[0, 1:3] = mask[1, 3:5] = True
    labels = torch.full((2, 7), -100)
    labels[0, 2:5], labels[1, 4:6] = torch.tensor([2, 8, 3]), torch.tensor([9, 3])
    return {
        "input_ids": torch.randint(5, 20, (2, 7)),
        "frame_mask": mask,
        "frame_features": tiny_features(model, 2),
        "labels": labels,
    }


@pytest.mark.parametrize("weighted", [False, True])
@torch.no_grad()
def test_loss_is_the_cross_entropy_of_labelled_positions(model, weighted: bool) -> None:
    rows = batch(model)
    weights = torch.rand(2, 7) if weighted else torch.ones(2, 7)
    loss = model(**rows, label_weights=weights if weighted else None).loss
    logits = model(**{k: v for k, v in rows.items() if k != "labels"}).logits
    each = functional.cross_entropy(logits.transpose(1, 2), rows["labels"], reduction="none")
    weights = weights * (rows["labels"] != -100)
    torch.testing.assert_close(loss, (each * weights).sum() / weights.sum())


@torch.no_grad()
def test_the_divisor_may_be_the_whole_batchs(model) -> None:
    rows = batch(model)
    half = model(**rows, num_items_in_batch=torch.tensor(10.0)).loss
    torch.testing.assert_close(half * 2, model(**rows).loss)


def test_no_label_is_no_loss() -> None:
    hidden = torch.randn(1, 3, 4, requires_grad=True)
    loss = labelled_loss(hidden, nn.Linear(4, 5), torch.full((1, 3), -100))
    loss.backward()
    assert loss.item() == 0 and torch.isfinite(hidden.grad).all()


@torch.no_grad()
def test_padding_on_the_right_changes_nothing(model) -> None:
    rows = {k: v for k, v in batch(model).items() if k != "labels"}
    longer = dict(rows)
    longer["input_ids"] = functional.pad(rows["input_ids"], (0, 3))
    longer["frame_mask"] = functional.pad(rows["frame_mask"], (0, 3))
    torch.testing.assert_close(model(**longer).logits[:, :7], model(**rows).logits)


@pytest.mark.parametrize("chunks", [[7], [1] * 7, [2, 4, 1]])
@torch.no_grad()
def test_advance_in_chunks_gives_the_forward(model, chunks: list[int]) -> None:
    rows = batch(model)
    whole = model(**{k: v for k, v in rows.items() if k != "labels"}).logits[0]
    embeds = model.embed(rows["input_ids"], rows["frame_mask"], rows["frame_features"])[0]
    cache = stream_cache(model, room=2)
    parts = [model.advance(e, cache, every=True) for e in embeds.split(chunks)]
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-4, rtol=1e-4)


def test_lora_stands_on_every_linear_layer_of_the_language_model() -> None:
    model = tiny_model(TOKENIZER)
    linear = {n for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    targets = set(lora_targets(model))
    assert targets == {n for n in linear if n.startswith("language_model.")}
    wrapped = add_lora(model, LoraSettings(rank=4, alpha=8), None)
    trained = {n for n, p in wrapped.named_parameters() if p.requires_grad}
    assert all("lora_" in n or "connector.modules_to_save" in n for n in trained)
    assert len([n for n in trained if "lora_A" in n]) == len(targets)
    assert any("lm_head" in n for n in targets)


def test_a_frozen_encoder_stays_in_eval_mode() -> None:
    """Its batch statistics and dropout are those of streaming."""
    model = tiny_model(TOKENIZER)
    assert model.train().encoder.training
    model.encoder.requires_grad_(False)
    assert not model.train().encoder.training and model.language_model.training


def test_gradient_checkpointing_gives_the_same_gradient() -> None:
    grads = []
    for is_on in (False, True):
        model = tiny_model(TOKENIZER, 2)
        model.encoder.requires_grad_(False)
        if is_on:
            model.gradient_checkpointing_enable()
        model.train()(**batch(model)).loss.backward()
        grads.append(model.connector[0].weight.grad)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs" / "paper").glob("*.yaml")), ids=lambda p: p.stem
)
def test_the_papers_configs_are_the_papers(path: Path) -> None:
    """Section 6.1: 2 frames/s, LoRA 128/256; Section 5.2: no loss on silent frames."""
    config = parse_train_config(["--config", str(path)])
    assert (config.lora.rank, config.lora.alpha, config.data.fps) == (128, 256, 2.0)
    assert (config.optim.lr, config.optim.schedule, config.optim.warmup) == (1e-4, "cosine", 0.05)
    assert config.optim.bf16
    assert config.optim.epochs == (2 if "goalstep" in path.stem else 5)
    assert path.stem.endswith(config.scheme.name)
    assert config.scheme.silence_weight == (0 if config.scheme.name == "tsi" else 1)


def test_the_papers_three_configs_are_there() -> None:
    names = {p.stem for p in (ROOT / "configs" / "paper").glob("*.yaml")}
    assert {"soccernet_tsi", "soccernet_turn_based", "goalstep_tsi"} <= names


def test_a_frame_size_that_the_encoder_cannot_take_is_named(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    vision = {
        "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    text = {
        "model_type": "llama", "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2,
    }  # fmt: skip
    config = ModelConfig(
        vision=PartConfig(config=vision), text=PartConfig(config=text),
        tokenizer=str(tmp_path), frame_size=48,
    )  # fmt: skip
    with pytest.raises(UserError, match=r"model\.frame_size: 48 px"):
        new_model(config)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (PartConfig(), "neither path nor config"),
        (PartConfig(config={"model_type": "no_such"}), "model_type"),
        (PartConfig(path="/no/such/folder"), "cannot be loaded"),
    ],
)
def test_a_part_that_cannot_be_made_is_named(tmp_path: Path, part: PartConfig, told: str) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=rf"model\.vision.*{told}"):
        new_model(ModelConfig(vision=part, tokenizer=str(tmp_path)))
