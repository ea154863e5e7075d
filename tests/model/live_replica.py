"""A small VideoLLM-Online: its architecture and names, random weights, its own forward.

Input: a folder, sizes. Output: the three folders as they are published, and `logits`, computed
the published way without this project's model. Invariant: peft itself writes the adapter, so
that its names are peft's.
"""

import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipModel,
)

WORDS = [
    "Assistant",
    "User",
    "look",
    "a",
    "ball",
    "goes",
    "in",
    "what",
    "is",
    "it",
    "no",
    "yes",
    "left",
    "right",
    ":",
    ".",
]
SIDE, PATCH, WIDTH, TEXT = 96, 4, 16, 32
"""24 x 24 patches, as SigLIP-L/16-384 has."""


class LiveLlama(LlamaForCausalLM):
    """Llama with the connector beside its layers, as the released class has it."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.connector = nn.Sequential(nn.Linear(WIDTH, TEXT), nn.GELU(), nn.Linear(TEXT, TEXT))


def tokenizer() -> PreTrainedTokenizerFast:
    """A line break, words with and without a space before them, and Llama-3's end of turn."""
    table = ["<unk>", "\n", "<|eot_id|>", *WORDS, *(f" {w}" for w in WORDS)]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(table)}, unk_token="<unk>"))
    pattern = Regex(r"<\|eot_id\|>|\n| ?\w+| ?[^\w\s]")
    made.pre_tokenizer = pre_tokenizers.Split(pattern, "isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="<|eot_id|>")


class Replica:
    """The published folders below `folder`: `llama`, `siglip`, `adapter`."""

    def __init__(self, folder: Path, variant: str = "live1+", rank: int = 4, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.folder, self.variant = folder, variant
        self.tokenizer = tokenizer()
        self.siglip = SiglipModel(_siglip_config()).eval()
        self.config = _llama_config(len(self.tokenizer))
        plain = LiveLlama(self.config)
        self._write_parts(plain)
        self.live = self._adapted(plain, rank)
        self.live.save_pretrained(folder / "adapter")
        (folder / "adapter/config.json").write_text(json.dumps(self._released_fields()))

    def _write_parts(self, plain: LiveLlama) -> None:
        llama = LlamaForCausalLM(self.config)
        llama.load_state_dict(plain.state_dict(), strict=False)
        llama.save_pretrained(self.folder / "llama", max_shard_size="20KB")
        self.tokenizer.save_pretrained(self.folder / "llama")
        self.siglip.save_pretrained(self.folder / "siglip")

    def _adapted(self, plain: LiveLlama, rank: int) -> Any:
        """Peft as released; both LoRA matrices and the connector away from their beginnings."""
        layers = "q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj"
        settings = LoraConfig(
            r=rank, lora_alpha=2 * rank, lora_dropout=0.05, modules_to_save=["connector"],
            target_modules=rf"model.*({layers})|lm_head$", base_model_name_or_path="Llama-3",
        )  # fmt: skip
        live = get_peft_model(plain, settings).eval()
        with torch.no_grad():
            for name, weight in live.named_parameters():
                if "lora_" in name or "connector.modules_to_save" in name:
                    weight.normal_(std=0.2)
        return live

    def _released_fields(self) -> dict[str, Any]:
        plus = self.variant == "live1+"
        return self.config.to_dict() | {
            "frame_token_cls": True, "frame_token_pooled": [3, 3] if plus else None,
            "frame_num_tokens": 10 if plus else 1, "frame_resolution": SIDE,
            "v_placeholder": "<v>", "v_placeholder_id": len(self.tokenizer),
        }  # fmt: skip

    @torch.no_grad()
    def frame_tokens(self, pixels_HWC: torch.Tensor) -> torch.Tensor:
        """[T, WIDTH] of one frame of the encoder's size: CLS, then 3 x 3 means, row by row."""
        scaled = (pixels_HWC.permute(2, 0, 1)[None].float() * (1 / 255) - 0.5) / 0.5
        seen = self.siglip.vision_model(pixel_values=scaled)
        tokens = [seen.pooler_output[0]]
        if self.variant == "live1+":
            grid = seen.last_hidden_state[0].reshape(3, 8, 3, 8, WIDTH)
            tokens += [grid[row, :, col].mean((0, 1)) for row in range(3) for col in range(3)]
        return torch.stack(tokens)

    @torch.no_grad()
    def logits(self, parts: list[Any]) -> torch.Tensor:
        """Logits [L, V] of texts and frames [H, W, 3] in order."""
        live = self.live.base_model.model
        rows = [
            live.model.embed_tokens(torch.tensor(self.tokenizer(p)["input_ids"]))
            if isinstance(p, str)
            else live.connector(self.frame_tokens(p))
            for p in parts
        ]
        return self.live(inputs_embeds=torch.cat(rows)[None]).logits[0]


def _siglip_config() -> SiglipConfig:
    vision = {
        "hidden_size": WIDTH, "intermediate_size": 24, "num_hidden_layers": 1,
        "num_attention_heads": 2, "image_size": SIDE, "patch_size": PATCH,
    }  # fmt: skip
    text = {
        "hidden_size": WIDTH, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 12,
        "num_attention_heads": 2, "bos_token_id": 1, "eos_token_id": 2, "projection_size": WIDTH,
    }  # fmt: skip
    return SiglipConfig(vision_config=vision, text_config=text)


def _llama_config(words: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=words, hidden_size=TEXT, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, rope_theta=500_000.0, bos_token_id=0,
        eos_token_id=2, max_position_embeddings=8192, tie_word_embeddings=False,
    )  # fmt: skip
