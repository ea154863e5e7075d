"""Config -> model and tokenizer to train.

Input: `ModelConfig`, `LoraSettings`. Output: `Built`: a `VlmTsiModel`, or the same wrapped
by peft. Invariant: what is trained is what the config says: LoRA and connector, or all
weights but the vision encoder's (unless `train_vision`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText

from vlm_tsi.config import LoraSettings, ModelConfig, PartConfig, TrainConfig
from vlm_tsi.errors import UserError
from vlm_tsi.model.backbones.efficientnet_lite import EfficientNetLiteConfig, from_file
from vlm_tsi.model.backbones.hf_vlm import family_config, grid_side
from vlm_tsi.model.checks import check_frames
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.loading import load_checkpoint, load_tokenizer
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.sequence.tokens import TokenSpec, stream_tokens


@dataclass(frozen=True)
class Built:
    """`trained` is what the optimiser sees: `model`, or peft around it."""

    model: VlmTsiModel
    trained: Any
    tokenizer: Any


def build(config: TrainConfig) -> Built:
    """Make or load the model, then choose what is trained."""
    torch.manual_seed(config.run.seed)
    if config.model.base:
        loaded = load_checkpoint(config.model.base)
        model, tokenizer = loaded.model, loaded.tokenizer
    else:
        model, tokenizer = new_model(config.model)
    model.config.scheme, model.config.fps = config.scheme.name, config.data.fps
    model.config.eager_close = config.scheme.name == "tsi" and not config.scheme.silence_weight
    model.requires_grad_(True)
    model.encoder.requires_grad_(config.model.train_vision)
    if config.lora.rank:
        model.untie()
    trained = add_lora(model, config.lora, config.model.base) if config.lora.rank else model
    return Built(model, trained, tokenizer)


def new_model(config: ModelConfig) -> tuple[VlmTsiModel, Any]:
    """A new model from parts or of a whole VLM, pretrained or random."""
    if config.vlm is not None:
        return model_of_vlm(config, config.vlm)
    where = config.tokenizer or config.text.path
    if where is None:
        raise UserError("model.tokenizer", "is not set", "name a folder with a tokenizer")
    tokenizer = load_tokenizer(where, None if config.tokenizer else config.text.gguf_file)
    pooled = int(config.use_cls) + config.pool**2
    if pooled < 1:
        raise UserError("model.pool", "a frame has no token", "set use_cls or pool >= 1")
    tokens = stream_tokens(tokenizer, config.tokens, 1 if config.merge else pooled)
    vision_config, vision = _part("model.vision", config.vision, AutoModel, {})
    text_config, text = _part(
        "model.text", config.text, AutoModelForCausalLM, {"vocab_size": len(tokenizer)}
    )
    whole = VlmTsiConfig(
        vision_config=vision_config.to_dict(),
        text_config=text_config.to_dict(),
        use_cls=config.use_cls,
        pool=config.pool,
        merge=config.merge,
        frame_size=config.frame_size,
        pixel_mean=config.pixel_mean,
        pixel_std=config.pixel_std,
        tokens_per_second=config.tokens_per_second,
        stream_tokens=tokens.to_dict(),
    )
    model = VlmTsiModel.from_parts(whole, vision, text)
    check_frames(model, "model.frame_size")
    return model, tokenizer


def model_of_vlm(config: ModelConfig, part: PartConfig) -> tuple[VlmTsiModel, Any]:
    """A VLM of transformers as a VLM-TSI; marks that it lacks take unused rows of its table."""
    where = config.tokenizer or part.path
    if where is None:
        raise UserError("model.tokenizer", "is not set", "name a folder with a tokenizer")
    tokenizer = load_tokenizer(where)
    vlm_config, vlm = _part("model.vlm", part, AutoModelForImageTextToText, {})
    found = family_config(vlm_config.to_dict())
    grid = grid_side(found, config.frame_size)
    add_marks(tokenizer, config.tokens, found.text_config.vocab_size)
    whole = VlmTsiConfig(
        vlm_config=found.to_dict(),
        grid=grid,
        frame_size=config.frame_size,
        pixel_mean=config.pixel_mean,
        pixel_std=config.pixel_std,
        tokens_per_second=config.tokens_per_second,
        stream_tokens=stream_tokens(tokenizer, config.tokens, grid**2).to_dict(),
    )
    model = VlmTsiModel(whole) if vlm is None else VlmTsiModel.from_vlm(whole, vlm)
    check_frames(model, "model.frame_size")
    return model, tokenizer


def add_marks(tokenizer: Any, spec: TokenSpec, rows: int) -> None:
    """Add the marks that a tokenizer lacks; tables keep their size, so adapters fit everywhere.

    Args:
        tokenizer: gets tokens of its own for them.
        spec: which strings are marks; a mark is a string in angle brackets.
        rows: of the model's embedding table.

    Raises:
        UserError: the table has no unused row left.
    """
    words = (spec.bos, spec.eos, spec.frame, spec.system_prefix, spec.user_prefix,
             spec.assistant_prefix)  # fmt: skip
    known = tokenizer.get_vocab()
    marks = [w for w in words if w.startswith("<") and w.endswith(">") and w not in known]
    if len(tokenizer) + len(marks) > rows:
        problem = f"{marks[-1]!r} needs a row, the table's {rows} are all in use"
        raise UserError("model.tokens", problem, "name tokens that the tokenizer has")
    tokenizer.add_tokens(marks, special_tokens=True)


def _part(name: str, part: PartConfig, auto: Any, extra: dict) -> tuple[Any, nn.Module | None]:
    """(config, pretrained module or None)."""
    if part.path is None:
        if not part.config:
            raise UserError(name, "has neither path nor config", "set one of them")
        try:
            return AutoConfig.for_model(**{**extra, **part.config}), None
        except (ValueError, KeyError, TypeError) as err:
            raise UserError(f"{name}.config", str(err), "name a known model_type") from err
    if (part.config or {}).get("model_type") == EfficientNetLiteConfig.model_type:
        features = from_file(Path(part.path) / "model.safetensors")
        return features.config, features
    local = Path(part.path).is_dir()
    options = {"gguf_file": part.gguf_file} if part.gguf_file else {}
    try:
        module = auto.from_pretrained(part.path, local_files_only=local, **options)
    except (OSError, ValueError) as err:
        mend = "name a folder with config.json and safetensors, or a hub name"
        raise UserError(f"{name}.path {part.path}", f"cannot be loaded ({err})", mend) from err
    module = _plain(module, auto) if part.gguf_file else module
    vision = getattr(module, "vision_model", None)
    if auto is AutoModel and vision is not None and hasattr(module, "text_model"):
        module = vision
    return module.config, module


def _plain(quantized: Any, auto: Any) -> nn.Module:
    """The same weights in fp32, in a model that does not call itself quantized."""
    values = quantized.config.to_dict()
    values.pop("quantization_config", None)
    module: nn.Module = auto.from_config(type(quantized.config)(**values))
    module.load_state_dict(quantized.state_dict())
    return module.float()


def lora_targets(model: VlmTsiModel) -> list[str]:
    """Every linear layer of the language model, its head included (paper Section 6.1)."""
    return [
        f"language_model.{name}"
        for name, module in model.language_model.named_modules()
        if isinstance(module, nn.Linear)
    ]


def add_lora(model: VlmTsiModel, settings: LoraSettings, base: str | None) -> Any:
    """Wrap with LoRA; the connector is trained whole and saved with the adapter."""
    from peft import LoraConfig, get_peft_model

    width = model.language_model.config.hidden_size
    if settings.rank > width:
        problem = f"is {settings.rank}, the language model's width {width}"
        raise UserError("lora.rank", problem, "use a smaller one; more could say no more")
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=lora_targets(model),
        modules_to_save=["connector"] if list(model.connector.parameters()) else None,
    )
    model.name_or_path = base or ""  # what peft notes as the adapter's base
    return get_peft_model(model, config)
