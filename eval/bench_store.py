"""Reading stored features, beside encoding the video.

Input: a made video and an encoder of the demo's size, the cheapest there is here.
Output: rows in frames a second, for a minute and for an hour.
Invariant: what is read is what was encoded, to the last bit of its bfloat16.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from transformers import LlamaConfig, SiglipVisionConfig

from data_prep.tokenizer import word_tokenizer
from eval.bench_decode import FPS, KINDS, make_video
from eval.bench_timing import Bench, Row, Sides, rate_row, time_sides
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.frames import encode_video
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.sequence.tokens import TokenSpec, stream_tokens
from vlm_tsi.video.features import FeatureStore, content_key


def rows(bench: Bench) -> list[Row]:
    """All rows of the section."""
    torch.set_num_threads(1)
    model, kind = small_model(), replace(KINDS[0], seconds=3 if bench.smoke else 60)
    video = make_video(bench.folder / "v.mp4", kind)
    store, key = FeatureStore(bench.folder / "store", "bench"), content_key(video)
    times_F, features_FTD = encode_video(model, video, FPS)
    store.put(key, times_F, features_FTD)
    read = store.get(key)
    assert torch.equal(read[1], features_FTD.bfloat16()) and np.array_equal(read[0], times_F)
    frames, hour = len(times_F), 60 * len(times_F)
    store.put("hour", np.arange(hour) / FPS, features_FTD.repeat(60, 1, 1))
    sides: Sides = {
        "minute": partial(read_all, store, key),
        "hour": partial(read_all, store, "hour"),
        "encode": partial(encode_video, model, video, FPS),
    }
    timed = time_sides(sides, bench.rounds)
    return [
        rate_row(f"stored {name} / encoding", "frames/s",
                 {"ours": timed[name], "encode": timed["encode"]}, "encode", count, 50.0, frames)
        for name, count in (("minute", frames), ("hour", hour))
    ]  # fmt: skip


def read_all(store: FeatureStore, key: str) -> float:
    """Open an entry and touch every feature of it."""
    return float(store.get(key)[1].float().sum())


def small_model() -> VlmTsiModel:
    """Random weights in the sizes of the demo's encoder."""
    tokenizer = word_tokenizer(["yes"], TokenSpec())
    vision = SiglipVisionConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        image_size=64, patch_size=8,
    )  # fmt: skip
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=4,
    )  # fmt: skip
    torch.manual_seed(0)
    config = VlmTsiConfig(
        vision_config=vision.to_dict(), text_config=text.to_dict(), use_cls=False, pool=3,
        frame_size=64, stream_tokens=stream_tokens(tokenizer, TokenSpec(), 9).to_dict(),
    )  # fmt: skip
    return VlmTsiModel(config).eval()
