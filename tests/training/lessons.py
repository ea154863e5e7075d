"""A tiny training set and a tiny base to train from, in one folder.

Output: `Lessons`: `base/model` (a checkpoint), `train.jsonl`, two clips of 3 s, `captions.jsonl`.
Invariant: made from seeds; nothing is fetched; a step takes milliseconds.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from tests.tiny import save_tiny, tiny_video
from vlm_tsi.config import TrainConfig, parse_train_config
from vlm_tsi.files import write_jsonl
from vlm_tsi.timeline import Timeline, Utterance, write_timelines

SAID = ("red lamp on", "the blue lamp goes off at right", "no", "take the green part")


@dataclass(frozen=True)
class Lessons:
    folder: Path

    @property
    def base(self) -> Path:
        return self.folder / "base" / "model"

    def words(self, out: Path, **settings: Any) -> list[str]:
        """Command-line words; `optim__lr=1` is `optim.lr=1`."""
        given = {
            "model.base": self.base,
            "data.timelines": f"[{self.folder / 'train.jsonl'}]",
            "scheme.silence_weight": 0.5,
            "optim.max_steps": 6,
            "optim.batch_size": 4,
            "optim.lr": 1e-3,
            "run.log_steps": 1,
            "run.out": out,
        } | {k.replace("__", "."): v for k, v in settings.items()}
        return [f"{k}={v}" for k, v in given.items() if v is not None]

    def config(self, out: Path, **settings: Any) -> TrainConfig:
        return parse_train_config(self.words(out, **settings))


def make_lessons(folder: Path) -> Lessons:
    save_tiny(folder / "base" / "model")
    for seed in range(2):
        tiny_video(folder / f"{seed}.mp4", seconds=3.0, seed=seed)
    timelines = [_timeline(i) for i in range(10)]
    write_timelines(folder / "train.jsonl", timelines)
    times = [0.0, 0.5, 1.0]
    line = {"video_path": "0.mp4", "times": times, "captions": ["red lamp", "no", "blue lamp"]}
    write_jsonl(folder / "captions.jsonl", [line])
    return Lessons(folder)


def _timeline(i: int) -> Timeline:
    """Of different lengths, so that the weights of the labels differ from row to row."""
    turns = [
        Utterance("assistant", SAID[(i + k) % 4], 0.3 * i / 4 + k, 0.3 * i / 4 + k + 0.7)
        for k in range(1 + i % 3)
    ]
    return Timeline(f"v{i}", f"{i % 2}.mp4", 3.0, tuple(turns))


def weights(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of a checkpoint's safetensors files."""
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    assert found
    return found


def furthest(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """The largest difference of two checkpoints of the same names."""
    assert a.keys() == b.keys()
    return max(float(np.abs(a[k] - b[k]).max()) for k in a)
