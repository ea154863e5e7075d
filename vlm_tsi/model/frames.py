"""A video's frames as vision features, encoded or from a store.

Input: a model, a video, the sampling rate. Output: frame times float64 [F] (s) and features
[F,T,D_vision]. Invariant: the same video gives the same features, whoever asks; with a
store they (and a warning on the video) are those of the store, also the first time, and
processes that share it encode a video once.
"""

from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from vlm_tsi.errors import UserError
from vlm_tsi.files import claimed
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.video.features import FeatureStore, content_key
from vlm_tsi.video.reader import Frame, Warn, iter_frames, to_stderr

BATCH = 32
Frames = tuple[np.ndarray, torch.Tensor]
State = Literal["encoded", "stored", "busy"]


@torch.inference_mode()
def encode_video(
    model: VlmTsiModel, video: Path, fps: float, end: float | None = None, warn: Warn | None = None
) -> Frames:
    """Decode and encode the frames with time < `end` (s; None: all)."""
    times: list[float] = []
    features: list[torch.Tensor] = []
    size = model.config.frame_size
    frames = iter_frames(video, fps=fps, size=size, end=end, on_warning=warn)
    while batch := list(islice(frames, BATCH)):
        times += [f.time for f in batch]
        features.append(encode_frames(model, batch))
    if not times:
        raise UserError(video, "holds no frame in the time asked for", "check the timeline")
    return np.array(times), torch.cat(features)


def encode_frames(model: VlmTsiModel, frames: list[Frame]) -> torch.Tensor:
    """Frames of one size -> features [F,T,D_vision]."""
    return model.encode_pixels(torch.from_numpy(np.stack([f.rgb_HWC for f in frames])))


def stored_frames(
    model: VlmTsiModel, video: Path, fps: float, store: FeatureStore, warn: Warn | None = None
) -> Frames:
    """Features of the whole video from the store, put there if they are not in it yet."""
    key = content_key(video)
    if not store.has(key):
        store_frames(model, video, fps, store, key)
    frames = store.get(key)
    if line := store.warning(key):
        (warn or to_stderr)(f"{video}: {line}")
    return frames


def store_frames(
    model: VlmTsiModel, video: Path, fps: float, store: FeatureStore, key: str, wait: bool = True
) -> State:
    """Encode a whole video into the store, unless a whole entry is there.

    Args:
        model: whose encoder the store belongs to.
        video: what to encode.
        fps: frames a second.
        store: where to.
        key: the video's `content_key`.
        wait: for another process that is encoding it; else return "busy".

    Raises:
        UserError: the video cannot be read, or the store not written.
    """
    with claimed(store.path(key), wait=wait) as ours:
        if not ours:
            return "busy"
        if store.is_whole(key):
            return "stored"
        lines: list[str] = []
        frames = encode_video(model, video, fps, warn=lines.append)
        store.put(key, *frames, warning="; ".join(lines).removeprefix(f"{video}: "))
        return "encoded"
