"""Whole vision-language models of transformers, taken apart into what a VLM-TSI is made of.

Input: a model of a family in `FAMILIES` (from a folder, the hub or a config). Output: a frame
encoder, whose features are embeddings already, a language model, and `Positions`: which
position each token stands at. Invariant: text and single images go through as in the family's
own model: same patches, same rotary positions, same DeepStack features (tests hold logits to
1e-5). A frame is one square image of a fixed number of tokens, without marks around it.

Shapes: B frames or rows, T tokens a frame, D text width, K DeepStack levels, L positions,
P patches. An embedding is [D * (1 + K)] wide: what is added to the states after the first K
layers stands behind it, zero for text.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForImageTextToText

from vlm_tsi.errors import UserError
from vlm_tsi.model.vision import letterbox

QWEN = ("qwen2_5_vl", "qwen3_vl")
FAMILIES = (*QWEN, "smolvlm")


def family_config(values: dict[str, Any]) -> Any:
    """The transformers config of a VLM.

    Raises:
        UserError: a family that is not known here, or values that make none.
    """
    kind = values.get("model_type")
    if kind not in FAMILIES:
        raise UserError("model.vlm", f"is a {kind!r} model", f"use one of {', '.join(FAMILIES)}")
    try:
        return AutoConfig.for_model(**values)
    except (ValueError, KeyError, TypeError) as err:
        raise UserError("model.vlm", f"has no config that loads ({err})", "copy it again") from err


def grid_side(config: Any, frame_size: int) -> int:
    """Side of a frame's square of tokens.

    Raises:
        UserError: the frame's side is no whole number of merged patches.
    """
    vision = config.vision_config
    merge = vision.spatial_merge_size if config.model_type in QWEN else config.scale_factor
    unit = vision.patch_size * merge
    if frame_size % unit or frame_size < unit:
        mend = f"use a multiple of {unit}, such as {max(1, round(frame_size / unit)) * unit}"
        raise UserError("model.frame_size", f"is {frame_size}", mend)
    return int(frame_size // unit)


class TextModel(nn.Module):
    """Text layers and an output head of their own, as a causal language model has them."""

    def __init__(self, layers: nn.Module, head: nn.Linear, table: nn.Embedding) -> None:
        super().__init__()
        self.model = layers
        if head.weight is table.weight:  # LoRA on the head must not change the table
            head.weight = nn.Parameter(table.weight.detach().clone())
        self.lm_head = head

    @property
    def config(self) -> Any:
        """The text config."""
        return self.model.config

    def get_decoder(self) -> nn.Module:
        """Layers below the head."""
        return self.model

    def get_input_embeddings(self) -> nn.Module:
        """The text embedding table."""
        layers: Any = self.model
        table: nn.Module = layers.get_input_embeddings()
        return table

    def get_output_embeddings(self) -> nn.Module:
        """The head."""
        return self.lm_head


def take_apart(vlm: Any, config: Any) -> tuple[nn.Module, TextModel]:
    """(frame encoder, language model) of a transformers VLM; `config` is a `VlmTsiConfig`."""
    table = vlm.get_input_embeddings()
    if vlm.config.model_type in QWEN:
        return QwenFrames(vlm.model.visual, config), TextModel(
            vlm.model.language_model, vlm.lm_head, table
        )
    parts = vlm.model
    encoder = SmolFrames(parts.vision_model, parts.connector, config)
    return encoder, TextModel(parts.text_model, vlm.lm_head, table)


def new_parts(config: Any) -> tuple[nn.Module, TextModel]:
    """Random parts by `config.vlm_config`."""
    return take_apart(
        AutoModelForImageTextToText.from_config(family_config(config.vlm_config)), config
    )


class _Frames(nn.Module):
    """Letterbox and normalise; the families differ in what follows."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.size, self.grid = config.frame_size, config.grid
        self.pixel_mean, self.pixel_std = config.pixel_mean, config.pixel_std

    def preprocess(self, frames_BHWC: torch.Tensor) -> torch.Tensor:
        """Frames uint8 -> float [B, 3, S, S]."""
        pixels = frames_BHWC.permute(0, 3, 1, 2).float() / 255
        if pixels.shape[2:] != (self.size, self.size):
            pixels = letterbox(pixels, self.size)
        mean, std = (pixels.new_tensor(v)[:, None, None] for v in (self.pixel_mean, self.pixel_std))
        return ((pixels - mean) / std).to(next(self.parameters()).dtype)


class QwenFrames(_Frames):
    """Frames -> merged tokens; DeepStack features stand behind them."""

    def __init__(self, visual: nn.Module, config: Any) -> None:
        super().__init__(config)
        self.vision = visual

    def forward(self, frames_BHWC: torch.Tensor) -> torch.Tensor:
        """Frames uint8 [B, H, W, 3] -> [B, T, D * (1 + K)]."""
        settings: Any = self.vision.config
        side = self.size // settings.patch_size
        patches_PX = patches(
            self.preprocess(frames_BHWC), settings.patch_size, settings.spatial_merge_size,
            settings.temporal_patch_size,
        )  # fmt: skip
        grid_B3 = torch.tensor([[1, side, side]], device=patches_PX.device).repeat(
            len(frames_BHWC), 1
        )
        output = self.vision(patches_PX, grid_thw=grid_B3, return_dict=True)
        levels = [output.pooler_output, *(getattr(output, "deepstack_features", None) or [])]
        return torch.cat(levels, -1).unflatten(0, (len(frames_BHWC), -1))


def patches(pixels_BCSS: torch.Tensor, patch: int, merge: int, repeats: int) -> torch.Tensor:
    """Patches [P, C * repeats * patch * patch] of all frames, merge squares together.

    A single image is a video of `repeats` equal frames (Qwen's temporal patch).
    """
    batch, channels, size, _ = pixels_BCSS.shape
    squares = size // (patch * merge)
    x = pixels_BCSS.reshape(batch, channels, squares, merge, patch, squares, merge, patch)
    x = x.permute(0, 2, 5, 3, 6, 1, 4, 7)  # frame, square, place in it, channel, pixel
    x = x.unsqueeze(6).expand(*x.shape[:6], repeats, patch, patch)
    return x.reshape(-1, channels * repeats * patch * patch)


class SmolFrames(_Frames):
    """Frames -> tokens after SmolVLM's pixel shuffle and projection."""

    def __init__(self, vision: nn.Module, projection: nn.Module, config: Any) -> None:
        super().__init__(config)
        self.vision, self.projection = vision, projection

    def forward(self, frames_BHWC: torch.Tensor) -> torch.Tensor:
        """Frames uint8 [B, H, W, 3] -> [B, T, D]."""
        pixels = self.preprocess(frames_BHWC)
        settings: Any = self.vision.config
        side = self.size // settings.patch_size
        whole = torch.ones(len(pixels), side, side, dtype=torch.bool, device=pixels.device)
        hidden = self.vision(
            pixel_values=pixels, patch_attention_mask=whole, return_dict=True
        ).last_hidden_state
        tokens_BTD: torch.Tensor = self.projection(hidden)
        return tokens_BTD


class Positions:
    """Where tokens stand: one after the other (SmolVLM, and models made of parts)."""

    def __init__(self, tokens_per_frame: int) -> None:
        self.slots = self.span = tokens_per_frame

    def of_units(self, bases: Sequence[int], is_frame: Sequence[bool]) -> torch.Tensor | None:
        """Positions of what is fed to a cache (None: those that follow by themselves).

        Args:
            bases: first position of each unit (a frame, or a token of text).
            is_frame: of each token fed.
        """
        return None

    def of_rows(self, frame_mask_BL: torch.Tensor) -> torch.Tensor | None:
        """Positions of whole rows (None: from 0 on)."""
        return None

    def run(self, body: nn.Module, embeds: torch.Tensor, positions: Any, **rest: Any) -> Any:
        """The language model's body on embeddings [B, L, D]; `rest` is its own."""
        rest.pop("is_frame_BL", None)
        places = {} if positions is None else {"position_ids": positions}
        return body(inputs_embeds=embeds, **places, **rest)


class GridPositions(Positions):
    """M-RoPE: a frame's tokens share a time, rows and columns count from there.

    The next token stands one after the largest of them, so that a frame of g x g tokens takes
    g positions. DeepStack features, where an embedding has them, are added at frames.
    """

    def __init__(self, grid: int, width: int) -> None:
        super().__init__(grid * grid)
        self.span, self.width = grid, width
        side = torch.arange(grid, device="cpu")  # also where a library builds on "meta"
        row_T = side.repeat_interleave(grid)
        self.frame_3T = torch.stack([torch.zeros_like(row_T), row_T, side.repeat(grid)])

    def of_units(self, bases: Sequence[int], is_frame: Sequence[bool]) -> torch.Tensor:
        """[3, 1, L]: time, row and column."""
        parts, at = [], 0
        for base in bases:
            if is_frame[at]:
                parts.append(base + self.frame_3T)
                at += self.slots
            else:
                parts.append(torch.full((3, 1), base))
                at += 1
        return torch.cat(parts, 1)[:, None]

    def of_rows(self, frame_mask_BL: torch.Tensor) -> torch.Tensor:
        """[3, B, L]."""
        return torch.cat([self._row(row) for row in frame_mask_BL.cpu()], 1)

    def _row(self, frame_mask_L: torch.Tensor) -> torch.Tensor:
        slots_L = frame_mask_L.long()
        place_L = (slots_L.cumsum(0) - 1) % self.slots  # of a frame's token within its frame
        is_first_L = frame_mask_L & (place_L == 0)
        step_L = torch.where(frame_mask_L, is_first_L * self.span, torch.ones_like(slots_L))
        base_L = step_L.cumsum(0) - torch.where(frame_mask_L, self.span, 1)
        within_3L = torch.where(frame_mask_L, self.frame_3T[:, place_L], 0)
        return (base_L + within_3L)[:, None]

    def run(self, body: nn.Module, embeds: torch.Tensor, positions: Any, **rest: Any) -> Any:
        """See `Positions.run`; `is_frame_BL` says where DeepStack features stand."""
        is_frame_BL = rest.pop("is_frame_BL", None)
        if positions is not None:
            rest["position_ids"] = positions.to(embeds.device)
        levels = embeds.split(self.width, -1)
        if len(levels) > 1 and is_frame_BL is not None and bool(is_frame_BL.any()):
            mask_BL = is_frame_BL.to(embeds.device)
            rest["visual_pos_masks"] = mask_BL
            rest["deepstack_visual_embeds"] = [level[mask_BL] for level in levels[1:]]
        return body(inputs_embeds=levels[0], **rest)


def positions_of(config: Any) -> Positions:
    """How a model of this `VlmTsiConfig` counts positions."""
    if config.vlm_config is None or config.vlm_config["model_type"] not in QWEN:
        return Positions(config.tokens_per_frame)
    text = family_config(config.vlm_config).text_config
    return GridPositions(config.grid, text.hidden_size)


def widened(embeds: torch.Tensor, config: Any) -> torch.Tensor:
    """Text embeddings [..., D] -> [..., D * (1 + K)], with zeros for DeepStack."""
    levels = deepstack_levels(config)
    return functional.pad(embeds, (0, levels * embeds.shape[-1])) if levels else embeds


def deepstack_levels(config: Any) -> int:
    """K of a `VlmTsiConfig`."""
    vision = (config.vlm_config or {}).get("vision_config") or {}
    return len(vision.get("deepstack_visual_indexes") or [])
