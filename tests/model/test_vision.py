"""Frame encoders of several families: T tokens a frame, the summary first."""

from functools import cache

import pytest
import torch
from transformers import (
    AutoModel,
    CLIPVisionConfig,
    ConvNextConfig,
    Dinov2Config,
    ResNetConfig,
    SiglipVisionConfig,
    ViTConfig,
)

from tests.tiny import tiny_frames
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.vision import FrameEncoder, letterbox
from vlm_tsi.model.vlm import vision_width

SMALL = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
CONFIGS = {
    "siglip": SiglipVisionConfig(**SMALL),
    "vit": ViTConfig(**SMALL),
    "clip": CLIPVisionConfig(**SMALL, projection_dim=8),
    "dinov2": Dinov2Config(**SMALL),
    "resnet": ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    "convnext": ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, patch_size=2),
}


@cache
def vision(name: str):
    torch.manual_seed(0)
    return AutoModel.from_config(CONFIGS[name]).eval()


def frame_encoder(name: str, **settings) -> FrameEncoder:
    config = VlmTsiConfig(vision_config=CONFIGS[name].to_dict(), frame_size=32, **settings)
    return FrameEncoder(config, vision(name))


def frames(count: int) -> torch.Tensor:
    return torch.from_numpy(tiny_frames(count))


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_every_family_gives_its_tokens(name: str) -> None:
    width = vision_width(CONFIGS[name])
    whole = frame_encoder(name, use_cls=True, pool=2)(frames(3))
    assert whole.shape == (3, 5, width)
    summary = frame_encoder(name, use_cls=True, pool=0)(frames(3))
    grid = frame_encoder(name, use_cls=False, pool=2)(frames(3))
    torch.testing.assert_close(whole, torch.cat([summary, grid], dim=1))
    merged = frame_encoder(name, use_cls=True, pool=2, merge=True)(frames(3))
    torch.testing.assert_close(merged, whole.flatten(1)[:, None])


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_a_frame_does_not_depend_on_its_batch(name: str) -> None:
    encode, pixels = frame_encoder(name, pool=2), frames(4)
    alone = torch.cat([encode(pixels[i : i + 1]) for i in range(4)])
    torch.testing.assert_close(encode(pixels), alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_class_token_is_the_summary_and_no_patch() -> None:
    encode = frame_encoder("clip", use_cls=True, pool=4)
    output = vision("clip")(pixel_values=encode.preprocess(frames(1)))
    tokens = encode(frames(1))
    torch.testing.assert_close(tokens[:, 0], output.pooler_output)
    torch.testing.assert_close(tokens[:, 1:], output.last_hidden_state[:, 1:])


@torch.no_grad()
def test_the_grid_is_row_by_row() -> None:
    """A SigLIP of 4 x 4 patches pooled to 4 is its patches in order."""
    encode = frame_encoder("siglip", use_cls=False, pool=4)
    output = vision("siglip")(pixel_values=encode.preprocess(frames(1)))
    torch.testing.assert_close(encode(frames(1)), output.last_hidden_state)


def test_a_wide_frame_is_centred_on_black() -> None:
    boxed = letterbox(torch.ones(1, 3, 8, 16), 16)
    assert boxed.shape == (1, 3, 16, 16)
    assert (boxed[:, :, 4:12] == 1).all() and (boxed[:, :, :4] == 0).all()


def test_a_tall_or_tiny_frame_fits() -> None:
    assert letterbox(torch.ones(1, 3, 31, 7), 16).shape == (1, 3, 16, 16)
    assert (letterbox(torch.ones(1, 3, 1, 1), 16) == 1).all()


def test_pixels_are_normalised() -> None:
    encode = frame_encoder("siglip", pixel_mean=[0.0, 0.5, 1.0], pixel_std=[1.0, 0.5, 0.5])
    white = encode.preprocess(torch.full((1, 32, 32, 3), 255, dtype=torch.uint8))
    assert white[0, :, 0, 0].tolist() == [1.0, 1.0, 0.0]
