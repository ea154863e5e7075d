"""A video's frames as vision features, encoded or from a store.

Input: a model, a video, the sampling rate. Output: frame times float64 [F] (s) and features
[F,T,D_vision]. Invariant: the same video gives the same features, whoever asks; with a
store they are those of the store, also the first time.
"""

from itertools import islice
from pathlib import Path

import numpy as np
import torch

from vlm_tsi.errors import UserError
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.video.features import FeatureStore, content_key
from vlm_tsi.video.reader import Frame, Warn, iter_frames

BATCH = 32
Frames = tuple[np.ndarray, torch.Tensor]


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
        store.put(key, *encode_video(model, video, fps, warn=warn))
    return store.get(key)
