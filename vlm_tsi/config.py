"""Training configuration: typed, read from YAML with dotted overrides.

Input: `--config FILE` and `key=value` words. Output: a `TrainConfig`.
Invariant: an unknown key, a wrong type or an impossible value stops here, in one line that
names the key, before anything is loaded.
"""

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, Literal

import jsonargparse
import yaml

from vlm_tsi.errors import UserError
from vlm_tsi.sequence.interleave import Scheme
from vlm_tsi.sequence.tokens import TokenSpec


@dataclass(frozen=True, kw_only=True)
class PartConfig:
    """A pretrained part (`path`: folder or hub name), or a random one (`config`).

    `gguf_file` names a GGUF file inside `path` (llama.cpp's format). `path` with
    `config: {model_type: efficientnet_lite}` is a folder with that network's bare weights.
    """

    path: str | None = None
    config: dict[str, Any] | None = None
    gguf_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """`base`, a finished checkpoint to go on from; or the parts of a new model; or a whole `vlm`.

    `vlm` is a vision-language model of transformers (Qwen2.5-VL, Qwen3-VL, SmolVLM2): frames
    are squares of `frame_size` pixels, and `use_cls`, `pool`, `merge` have no meaning.
    """

    base: str | None = None
    vlm: PartConfig | None = None
    vision: PartConfig = field(default_factory=PartConfig)
    text: PartConfig = field(default_factory=PartConfig)
    tokenizer: str | None = None
    tokens: TokenSpec = field(default_factory=TokenSpec)
    use_cls: bool = True
    pool: int = 0
    merge: bool = False
    frame_size: int = 64
    pixel_mean: list[float] = field(default_factory=lambda: [0.5, 0.5, 0.5])
    pixel_std: list[float] = field(default_factory=lambda: [0.5, 0.5, 0.5])
    tokens_per_second: float = 150 * 1.3 / 60
    train_vision: bool = False


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """LoRA on all linear layers of the language model; rank 0 trains all weights.

    The paper's values (Section 6.1): rank 128, alpha 256.
    """

    rank: int = 0
    alpha: int = 256
    dropout: float = 0.05


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What to train on: `timelines` (videos beside them), or `captions` of single frames.

    `store` is a frame-feature store (data_prep.encode_frames); without one, frames are
    decoded and encoded while training. `limit` takes the first so many records of a file.
    """

    timelines: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    store: str | None = None
    fps: float = 2.0
    limit: int | None = None
    max_positions: int = 8192


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """Optimisation; `batch_size` is a device's, a step sees batch_size x accumulate x devices."""

    epochs: float = 1.0
    max_steps: int = -1
    batch_size: int = 8
    accumulate: int = 1
    lr: float = 1e-4
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"] = "cosine"
    warmup: float = 0.05
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    bf16: bool = False
    gradient_checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Where results go, how often to save, what to report to, and the seed."""

    out: str = "runs/train"
    seed: int = 0
    save_steps: int = 500
    keep: int = 1
    log_steps: int = 10
    resume: bool = False
    report_to: Literal["none", "wandb"] = "none"
    workers: int = 0
    deepspeed: str | None = None


_POSITIVE = {
    "model": ("frame_size", "tokens_per_second"),
    "lora": ("alpha",),
    "data": ("fps", "max_positions"),
    "optim": ("batch_size", "accumulate", "lr"),
    "run": ("save_steps", "keep", "log_steps"),
}
_NOT_NEGATIVE = {
    "model": ("pool",),
    "lora": ("rank",),
    "optim": ("warmup", "weight_decay", "max_grad_norm"),
    "run": ("workers", "seed"),
}
_BASES_OWN = tuple(f.name for f in fields(ModelConfig) if f.name not in ("base", "train_vision"))
_MOST_SEEDS = 2**32


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All of one training run."""

    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraSettings = field(default_factory=LoraSettings)
    data: DataConfig = field(default_factory=DataConfig)
    scheme: Scheme = field(default_factory=Scheme)
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        if bool(self.data.timelines) == bool(self.data.captions):
            raise ValueError("data.timelines and data.captions: give exactly one of them")
        if self.optim.max_steps < 1 and self.optim.max_steps != -1:
            told = f"must be > 0, or -1 for whole epochs, not {self.optim.max_steps}"
            raise ValueError(f"optim.max_steps: {told}")
        if not self.run.out:
            raise ValueError("run.out: is empty; name a folder")
        if self.optim.epochs <= 0 and self.optim.max_steps <= 0:
            raise ValueError("optim.epochs: must be > 0 where optim.max_steps is not set")
        for room, keys in _POSITIVE.items():
            self._check(room, keys, lambda value: value > 0, "must be > 0")
        for room, keys in _NOT_NEGATIVE.items():
            self._check(room, keys, lambda value: value >= 0, "must be >= 0")
        if not 0 <= self.lora.dropout < 1:
            raise ValueError("lora.dropout: must be >= 0 and < 1")
        if self.data.limit is not None and self.data.limit < 1:
            raise ValueError(f"data.limit: must be > 0, not {self.data.limit}")
        if self.run.seed >= _MOST_SEEDS:
            raise ValueError(f"run.seed: must be below {_MOST_SEEDS}, not {self.run.seed}")
        self._check_base()

    def _check_base(self) -> None:
        """Nothing that a base settles may be set beside it: it would not be heard."""
        if self.model.base is None:
            return
        default = ModelConfig()
        for name in _BASES_OWN:
            if getattr(self.model, name) != getattr(default, name):
                raise ValueError(f"model.{name}: is settled by model.base; leave it out")

    def _check(
        self, room: str, keys: Sequence[str], is_good: Callable[[float], bool], rule: str
    ) -> None:
        for key in keys:
            value = getattr(getattr(self, room), key)
            if not math.isfinite(value) or not is_good(value):
                raise ValueError(f"{room}.{key}: {rule}, not {value}")


class _Parser(jsonargparse.ArgumentParser):
    """Its help has each class' first sentence over the class' keys."""

    def format_help(self, formatter: Any = None) -> str:
        """The help text, headings in words."""
        text = (
            super()
            .format_help(formatter)
            .replace("Path to a configuration file.", "a YAML file of it")
        )
        return re.sub(r"<class '([\w.]+)\.(\w+)'>", self._heading, text)

    @staticmethod
    def _heading(found: re.Match[str]) -> str:
        described = getattr(import_module(found[1]), found[2])
        return str(described.__doc__).split("\n")[0].rstrip(".")


def train_parser() -> jsonargparse.ArgumentParser:
    """The parser behind train.py."""
    parser = _Parser(
        prog="train.py",
        allow_abbrev=False,  # half a key is a wrong key
        usage="train.py --config FILE [key=value …]",
        description="Train a VLM-TSI or a turn-based baseline.",
        epilog="example: accelerate launch train.py --config configs/demo/tsi.yaml optim.lr=3e-4",
        exit_on_error=False,
    )
    parser.add_argument("--config", action="config", help="YAML file; may be given more than once")
    parser.add_class_arguments(TrainConfig)
    return parser


def _check_yaml(path: str) -> None:
    """Name the file that is no settings; jsonargparse does not."""
    try:
        with open(path, encoding="utf-8") as file:
            found = yaml.safe_load(file)
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise UserError(path, f"is no YAML ({err})", "mend it; see configs/") from err
    if not isinstance(found, dict):
        raise UserError(path, "holds no settings", "write them as in configs/")


def parse_train_config(argv: Sequence[str]) -> TrainConfig:
    """Read the config; `key=value` words stand for `--key=value`.

    Raises:
        UserError: unknown key, wrong type, missing file, impossible value.
    """
    words = [f"--{w}" if "=" in w and not w.startswith("-") else w for w in argv]
    for flag, value in zip(words, [*words[1:], ""], strict=True):
        path = value if flag == "--config" else flag.removeprefix("--config=")
        if flag.startswith("--config") and os.path.isfile(path):
            _check_yaml(path)
    parser = train_parser()
    try:
        found = parser.parse_args(words)
        values = {k: v for k, v in parser.instantiate_classes(found).items() if k != "config"}
        return TrainConfig(**values)
    except (jsonargparse.ArgumentError, ValueError, TypeError) as err:
        message = " ".join(str(err).split())
        raise UserError("train.py config", message, "see configs/ or train.py --help") from err
