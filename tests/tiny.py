"""A tiny random model and its word tokenizer, for tests of every room.

Input: the words that are to be known, a frame's number of tokens, a seed.
Output: a tokenizer, a `VlmTsiModel` (SigLIP 32 px of one layer, Llama of two), and both as a
checkpoint folder. Invariant: the same arguments give the same weights; nothing is fetched.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from transformers import LlamaConfig, SiglipVisionConfig

from data_prep.tokenizer import word_tokenizer
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.loading import save_checkpoint
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.sequence.tokens import TokenSpec, stream_tokens
from vlm_tsi.video.writer import write_mp4

WORDS = ["the red green blue lamp comes on goes off at left right top take part no yes"]
WIDTH = 32
"""D_vision and D_text alike."""


def tiny_tokenizer(words: Iterable[str] = WORDS) -> Any:
    """One id a word, with the special tokens of `TokenSpec`."""
    return word_tokenizer(words, TokenSpec())


def tiny_config(tokenizer: Any, tokens_per_frame: int = 1, **settings: Any) -> VlmTsiConfig:
    """`tokens_per_frame` is p*p (pooled patches) or 1 + p*p (summary first), p from 0 to 4."""
    pools = {use_cls + pool**2: (bool(use_cls), pool) for pool in range(5) for use_cls in (0, 1)}
    use_cls, pool = pools[tokens_per_frame]
    vision = SiglipVisionConfig(
        hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        image_size=32, patch_size=8,
    )  # fmt: skip
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16384,
    )  # fmt: skip
    return VlmTsiConfig(
        vision_config=vision.to_dict(),
        text_config=text.to_dict(),
        use_cls=use_cls,
        pool=pool,
        frame_size=32,
        stream_tokens=stream_tokens(tokenizer, TokenSpec(), tokens_per_frame).to_dict(),
        **settings,
    )


def tiny_model(
    tokenizer: Any,
    tokens_per_frame: int = 1,
    seed: int = 0,
    talkative: bool = False,
    **settings: Any,
) -> VlmTsiModel:
    """A random model in eval mode; a talkative one often begins to speak after a frame.

    `settings` go to `VlmTsiConfig` (fps, scheme, tokens_per_second, silence_threshold).
    """
    torch.manual_seed(seed)
    model = VlmTsiModel(tiny_config(tokenizer, tokens_per_frame, **settings)).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(5)
    if talkative:
        _make_talkative(model)
    return model


@torch.no_grad()
def _make_talkative(model: VlmTsiModel) -> None:
    """Turn the head's BOS towards what follows a frame, EOS towards what follows a word."""
    frames_FD = model.embed_frames(tiny_features(model, 30, seed=99))
    ids = torch.randint(8, model.get_input_embeddings().weight.shape[0], (len(frames_FD),))
    embeds_LD = torch.stack([frames_FD, model.embed_ids(ids)], dim=1).flatten(0, 1)
    hidden_LD = model.language_model.get_decoder()(inputs_embeds=embeds_LD[None])[0][0]
    towards_D = hidden_LD[0::2].mean(0) - hidden_LD[1::2].mean(0)
    towards_D = 2 * towards_D / towards_D.square().sum()
    head = model.get_output_embeddings().weight
    head[model.tokens.bos_id] += towards_D
    head[model.tokens.eos_id] -= towards_D / 2


def save_tiny(folder: Path, tokens_per_frame: int = 1, **settings: Any) -> Path:
    """A tiny checkpoint as training writes it."""
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, tokens_per_frame, **settings)
    save_checkpoint(folder, model, tokenizer, model.config, {"steps": 0})
    return folder


def tiny_frames(count: int, seed: int = 0, size: int = 32) -> np.ndarray:
    """Frames uint8 [F, size, size, 3], each of one random colour with a random square."""
    rng = np.random.default_rng(seed)
    frames = np.empty((count, size, size, 3), np.uint8)
    for frame_HWC in frames:
        frame_HWC[:] = rng.integers(0, 256, 3)
        top, left = rng.integers(0, size // 2, 2)
        frame_HWC[top : top + size // 2, left : left + size // 2] = rng.integers(0, 256, 3)
    return frames


def tiny_video(path: Path, seconds: float = 4.0, fps: float = 4.0, seed: int = 0) -> Path:
    """A small clip of random pictures."""
    write_mp4(path, tiny_frames(round(seconds * fps), seed), fps)
    return path


def tiny_features(model: VlmTsiModel, count: int, seed: int = 0) -> torch.Tensor:
    """Vision features [F, T, D_vision] of `count` random frames."""
    with torch.no_grad():
        return model.encode_pixels(torch.from_numpy(tiny_frames(count, seed)))


def decoder(tokenizer: Any) -> Any:
    """Token ids -> text without special tokens."""

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=True))

    return decode


def tiny_sound(path: Path) -> Path:
    """A file with sound (silence) and no video."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 16_000
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path
