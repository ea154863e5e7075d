"""EfficientNet-lite0 as a transformers model (Tan and Le, 2019; the lite variants of 2020).

Input: pixels float [B, 3, H, W]. Output: `last_hidden_state` [B, 1280, H/32, W/32].
Invariant: module names are those of the common PyTorch port without their underscores, so
that its ImageNet weights load by one rule (`from_file`), every key accounted for. "Lite"
means ReLU6, no squeeze-and-excite, and a stem and head of fixed width. Strided convolutions
pad as TensorFlow does: the odd pixel goes to the right and below.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithNoAttention

from vlm_tsi.errors import UserError, os_error

STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Of each stage: blocks, kernel, stride, expansion, width."""


class EfficientNetLiteConfig(PretrainedConfig):
    """Widths of lite0; `hidden_size` is the number of features."""

    model_type = "efficientnet_lite"
    stem_size: int = 32
    hidden_size: int = 1280
    stages: list[list[int]] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Default to lite0's stages."""
        self.stages = self.stages or [list(stage) for stage in STAGES]
        super().__post_init__(**kwargs)


class SameConv(nn.Conv2d):
    """Convolution without bias, padded to ceil(size / stride) as TensorFlow pads."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1):
        super().__init__(inner, outer, kernel, stride, groups=groups, bias=False)

    def forward(self, map_BDhw: torch.Tensor) -> torch.Tensor:
        """[B, D, h, w] -> [B, D', ceil(h/stride), ceil(w/stride)]."""
        pads = []
        for size in (map_BDhw.shape[3], map_BDhw.shape[2]):
            kernel, stride = self.kernel_size[0], self.stride[0]
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(functional.pad(map_BDhw, pads))


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)


class Block(nn.Module):
    """Expand, filter each channel, project; the input is added where shapes allow."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inner * expansion
        self.is_residual = stride == 1 and inner == outer
        if expansion > 1:
            self.expand_conv, self.bn0 = SameConv(inner, wide, 1), _norm(wide)
        self.depthwise_conv = SameConv(wide, wide, kernel, stride, groups=wide)
        self.bn1 = _norm(wide)
        self.project_conv, self.bn2 = SameConv(wide, outer, 1), _norm(outer)

    def forward(self, map_BDhw: torch.Tensor) -> torch.Tensor:
        """[B, D, h, w] -> [B, D', h', w']."""
        x = map_BDhw
        if hasattr(self, "expand_conv"):
            x = functional.relu6(self.bn0(self.expand_conv(x)))
        x = functional.relu6(self.bn1(self.depthwise_conv(x)))
        x = self.bn2(self.project_conv(x))
        return x + map_BDhw if self.is_residual else x


class EfficientNetLite(PreTrainedModel):
    """Features of EfficientNet-lite0, without its classifier."""

    config_class = EfficientNetLiteConfig
    base_model_prefix = ""
    main_input_name = "pixel_values"

    def __init__(self, config: EfficientNetLiteConfig) -> None:
        super().__init__(config)
        self.conv_stem = SameConv(3, config.stem_size, 3, stride=2)
        self.bn0 = _norm(config.stem_size)
        self.blocks = nn.ModuleList()
        inner = config.stem_size
        for count, kernel, stride, expansion, outer in config.stages or []:
            for i in range(count):
                self.blocks.append(Block(inner, outer, kernel, stride if i == 0 else 1, expansion))
                inner = outer
        self.conv_head = SameConv(inner, config.hidden_size, 1)
        self.bn1 = _norm(config.hidden_size)
        self.post_init()

    def forward(self, pixel_values: torch.Tensor, **kwargs: Any) -> BaseModelOutputWithNoAttention:
        """Pixels float [B, 3, H, W] -> features [B, 1280, H/32, W/32]."""
        x = functional.relu6(self.bn0(self.conv_stem(pixel_values)))
        for block in self.blocks:
            x = block(x)
        x = functional.relu6(self.bn1(self.conv_head(x)))
        return BaseModelOutputWithNoAttention(last_hidden_state=x)


def renamed(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The port's names to ours: no leading underscores, no classifier."""
    return {
        re.sub(r"(^|\.)_", r"\1", name): tensor
        for name, tensor in weights.items()
        if not name.startswith("_fc.")
    }


def from_file(path: str | Path) -> EfficientNetLite:
    """ImageNet weights of the port, as safetensors; every key must fit.

    Raises:
        UserError: the file cannot be read, or holds another network.
    """
    model = EfficientNetLite(EfficientNetLiteConfig())
    try:
        model.load_state_dict(renamed(load_file(path)), strict=True)
    except OSError as err:
        raise os_error(path, err) from err
    except (RuntimeError, SafetensorError) as err:
        raise UserError(path, f"is not EfficientNet-lite0 ({err})", "fetch it again") from err
    return model.eval()


AutoConfig.register(EfficientNetLiteConfig.model_type, EfficientNetLiteConfig)
AutoModel.register(EfficientNetLiteConfig, EfficientNetLite)
