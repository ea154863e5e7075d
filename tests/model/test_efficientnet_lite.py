"""EfficientNet-lite0: a small random twin here, the ImageNet weights where they are."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.tiny import tiny_frames
from vlm_tsi.errors import UserError
from vlm_tsi.model.backbones.efficientnet_lite import (
    EfficientNetLite,
    EfficientNetLiteConfig,
    SameConv,
    from_file,
)
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.vision import FrameEncoder

WEIGHTS = (
    Path(__file__).resolve().parents[2] / "weights" / "efficientnet-lite0" / "model.safetensors"
)
SMALL = EfficientNetLiteConfig(
    stem_size=4, hidden_size=8, stages=[[1, 3, 1, 1, 4], [2, 5, 2, 6, 6]]
)


@torch.no_grad()
def test_a_small_twin_saves_loads_and_gives_frame_tokens(tmp_path: Path) -> None:
    model = EfficientNetLite(SMALL).eval()
    model.save_pretrained(tmp_path)
    again = EfficientNetLite.from_pretrained(tmp_path).eval()
    pixels = torch.rand(2, 3, 32, 32)
    assert torch.equal(model(pixels).last_hidden_state, again(pixels).last_hidden_state)
    config = VlmTsiConfig(vision_config=SMALL.to_dict(), frame_size=32, pool=2)
    tokens = FrameEncoder(config, model)(torch.from_numpy(tiny_frames(2)))
    assert tokens.shape == (2, 5, 8)


@pytest.mark.parametrize(("size", "stride", "wanted"), [(7, 2, 4), (8, 2, 4), (8, 1, 8), (1, 2, 1)])
def test_padding_gives_the_ceiling(size: int, stride: int, wanted: int) -> None:
    conv = SameConv(1, 1, 5, stride)
    assert conv(torch.zeros(1, 1, size, size)).shape[2:] == (wanted, wanted)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    save_file({"_fc.weight": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="is not EfficientNet-lite0"):
        from_file(tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="gone"):
        from_file(tmp_path / "gone.safetensors")


@torch.no_grad()
def test_the_imagenet_weights_fit_key_by_key() -> None:
    if not WEIGHTS.is_file():
        pytest.skip(f"no {WEIGHTS.parent.name} weights: make weights")
    features = from_file(WEIGHTS)(torch.zeros(1, 3, 224, 224)).last_hidden_state
    assert features.shape == (1, 1280, 7, 7) and torch.isfinite(features).all()
