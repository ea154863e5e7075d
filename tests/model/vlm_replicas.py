"""Small random Qwen2.5-VL, Qwen3-VL and SmolVLM2: the real classes, small sizes.

Input: a family's name. Output: its transformers model, a tokenizer, a VLM-TSI made of it through
the training config. Invariant: the same name and seed give the same weights.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from tests.tiny import tiny_tokenizer
from vlm_tsi.config import ModelConfig, PartConfig
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.training.build import new_model

SIZE, ROWS = 32, 64
"""Pixels of a frame's side; rows of the embedding table, more than the tokenizer has words."""
TEXT = {
    "vocab_size": ROWS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
VISION = {
    "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "patch_size": 4,
    "spatial_merge_size": 2, "out_hidden_size": 32,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {
        "text_config": TEXT | ROPE,
        "vision_config": VISION | {"window_size": 16, "fullatt_block_indexes": [1]},
    },
    "qwen3_vl": {
        "text_config": TEXT | ROPE | {"head_dim": 8},
        "vision_config": VISION
        | {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64},
    },
    "smolvlm": {
        "text_config": TEXT | {"model_type": "llama"},
        "vision_config": {
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
            "num_attention_heads": 2, "image_size": SIZE, "patch_size": 4,
        },
        "scale_factor": 2,
    },
}  # fmt: skip
FAMILIES = list(CONFIGS)
IMAGE = 50
"""The family's own id of a frame's slot."""


def replica(family: str, seed: int = 0) -> Any:
    """A transformers model; its logits are spread, so that differences show."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        family, **CONFIGS[family], image_token_id=IMAGE, tie_word_embeddings=False
    )
    vlm = AutoModelForImageTextToText.from_config(config).eval()
    with torch.no_grad():
        for weight in vlm.parameters():
            if weight.dim() > 1:
                weight.mul_(3)
    return vlm


def saved(family: str, folder: Path) -> Path:
    """The replica as its publishers save it: weights, config, tokenizer."""
    replica(family).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def made_of(folder: Path, **settings: Any) -> tuple[VlmTsiModel, Any]:
    """A VLM-TSI that names the folder in its config."""
    part = PartConfig(path=str(folder))
    model, tokenizer = new_model(ModelConfig(vlm=part, frame_size=SIZE, **settings))
    return model.eval(), tokenizer
