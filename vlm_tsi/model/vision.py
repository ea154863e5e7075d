"""Any Hugging Face vision encoder -> T tokens a frame.

Input: frames uint8 [B, H, W, 3]. Output: frame tokens [B, T, D_vision].
Invariant: T = (1 if use_cls) + pool*pool; the summary token comes first, then the pooled
grid row by row (VideoLLM-Online's order). With `merge` these are concatenated: T = 1 and
D_vision is T times as wide. The same pixels give the same tokens whatever
else is in the batch.

Shapes: B frames, H x W pixels, P patches, D_vision features.
"""

import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig

from vlm_tsi.errors import UserError


class FrameEncoder(nn.Module):
    """Normalise, encode, and pool frames to a fixed number of tokens."""

    def __init__(self, config: PretrainedConfig, vision: nn.Module) -> None:
        super().__init__()
        self.use_cls, self.pool, self.size = config.use_cls, config.pool, config.frame_size
        self.merge = config.merge
        self.pixel_mean, self.pixel_std = config.pixel_mean, config.pixel_std
        self.vision = vision

    def forward(self, frames_BHWC: torch.Tensor) -> torch.Tensor:
        """Frames uint8 [B, H, W, 3] -> tokens [B, T, D_vision]."""
        output = self.vision(pixel_values=self.preprocess(frames_BHWC))
        hidden = output.last_hidden_state
        if hidden.dim() == 4:  # convolutional encoders give [B, D, h, w]
            return self._from_map(hidden, hidden.mean((2, 3)))
        grid = _patch_grid(hidden)
        summary = getattr(output, "pooler_output", None)
        if summary is None:
            summary = hidden[:, 0] if grid.shape[2] ** 2 < hidden.shape[1] else hidden.mean(1)
        return self._from_map(grid, summary)

    def preprocess(self, frames_BHWC: torch.Tensor) -> torch.Tensor:
        """Letterbox to the encoder's size if needed and normalise to float [B, 3, S, S]."""
        dtype = next(self.vision.parameters()).dtype
        pixels = frames_BHWC.permute(0, 3, 1, 2).float() / 255
        height, width = pixels.shape[2:]
        if (height, width) != (self.size, self.size):
            pixels = letterbox(pixels, self.size)
        mean, std = (pixels.new_tensor(v)[:, None, None] for v in (self.pixel_mean, self.pixel_std))
        return ((pixels - mean) / std).to(dtype)

    def _from_map(self, map_BDhw: torch.Tensor, summary_BD: torch.Tensor) -> torch.Tensor:
        parts = [summary_BD[:, None]] if self.use_cls else []
        if self.pool:
            pooled = functional.adaptive_avg_pool2d(map_BDhw, self.pool)
            parts.append(pooled.flatten(2).transpose(1, 2))
        tokens_BTD = torch.cat(parts, dim=1)
        return tokens_BTD.flatten(1)[:, None] if self.merge else tokens_BTD


def _patch_grid(hidden_BPD: torch.Tensor) -> torch.Tensor:
    """Patch tokens as a square map [B, D, h, w]; leading class tokens are left out."""
    count = hidden_BPD.shape[1]
    side = int(count**0.5)
    if count - side * side > 8:
        raise UserError("vision encoder", f"{count} tokens are not a square grid", "use another")
    patches = hidden_BPD[:, count - side * side :]
    return patches.transpose(1, 2).unflatten(2, (side, side))


def letterbox(pixels_BCHW: torch.Tensor, size: int) -> torch.Tensor:
    """Scale the longer side to `size` and pad black to a square, centred."""
    height, width = pixels_BCHW.shape[2:]
    scale = size / max(height, width)
    inner = (max(1, round(height * scale)), max(1, round(width * scale)))
    scaled = functional.interpolate(
        pixels_BCHW, inner, mode="bilinear", antialias=True, align_corners=False
    )
    top, left = (size - inner[0]) // 2, (size - inner[1]) // 2
    right, bottom = size - inner[1] - left, size - inner[0] - top
    return functional.pad(scaled, (left, right, top, bottom))
