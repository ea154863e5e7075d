"""Is a checkpoint fit to stream with?

Input: its config, its folder, the model made of it. Output: nothing, or a UserError that names
the first value that is not as it must be. Invariant: what passes can be computed with: rates
are positive and finite, weights have the config's shapes, frames go through the encoder, the
stream's special ids are in the vocabulary.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText

from vlm_tsi.errors import UserError
from vlm_tsi.model.backbones.hf_vlm import family_config
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.sequence.interleave import SchemeName
from vlm_tsi.sequence.tokens import StreamTokens

Check = Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and math.isfinite(value)


def _is_whole(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_rate(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_colour(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(_is_number(v) for v in value)


def _are_tokens(value: Any) -> bool:
    """Whether the value is `StreamTokens.to_dict()` of some tokens."""
    if not isinstance(value, dict) or set(value) != set(StreamTokens.__dataclass_fields__):
        return False
    prefixes = value["prefixes"]
    ids = [v for k, v in value.items() if k != "prefixes"]
    return (
        isinstance(prefixes, dict)
        and set(prefixes) == {"system", "user", "assistant"}
        and all(isinstance(p, list) and all(map(_is_whole, p)) for p in prefixes.values())
        and all(map(_is_whole, ids))
    )


def _is_dtype(value: Any) -> bool:
    name = str(value).removeprefix("torch.")
    return value is None or isinstance(getattr(torch, name, None), torch.dtype)


_RULES: dict[str, tuple[Check, str]] = {
    "dtype": (_is_dtype, "a type of torch's, such as float32"),
    "use_cls": (_is_bool, "true or false"),
    "merge": (_is_bool, "true or false"),
    "eager_close": (_is_bool, "true or false"),
    "pool": (_is_whole, "a whole number >= 0"),
    "grid": (_is_whole, "a whole number >= 0"),
    "frame_size": (lambda v: _is_whole(v, 1) and v <= 4096, "1 to 4096 pixels"),
    "pixel_mean": (_is_colour, "three numbers"),
    "pixel_std": (lambda v: _is_colour(v) and min(v) > 0, "three numbers > 0"),
    "fps": (_is_rate, "a number > 0"),
    "tokens_per_second": (_is_rate, "a number > 0"),
    "silence_threshold": (_is_share, "a probability from 0 to 1"),
    "onset": (_is_share, "a share from 0 to 1"),
    "scheme": (lambda v: v in get_args(SchemeName), f"one of {', '.join(get_args(SchemeName))}"),
    "stream_tokens": (_are_tokens, "the ids that training wrote"),
}


def check_config(config: VlmTsiConfig, where: object) -> None:
    """Refuse a config that no stream can be run with.

    Raises:
        UserError: names the key, its value and what it must be.
    """
    for name, (is_good, wanted) in _RULES.items():
        value = getattr(config, name)
        if not is_good(value):
            raise UserError(where, f"{name} is {value!r:.80}", f"it must be {wanted}")
    if config.pooled_tokens < 1:
        raise UserError(where, "a frame has no token", "set use_cls, or pool >= 1")
    if config.tokens.tokens_per_frame != config.tokens_per_frame:
        told = f"{config.tokens_per_frame} tokens a frame, stream_tokens otherwise"
        problem = f"use_cls, pool and merge say {told}"
        raise UserError(where, problem, "copy config.json again")


def check_parts(values: dict[str, Any], where: object) -> None:
    """Refuse a config file that leaves a part out, for which a library would fill in its own.

    Raises:
        UserError: names the part.
    """
    if values.get("vlm_config") is not None:
        if not isinstance(values["vlm_config"], dict):
            raise UserError(where, "vlm_config is no config", "copy config.json again")
        family_config(values["vlm_config"])
        return
    for name in ("vision_config", "text_config"):
        part = values.get(name)
        if not isinstance(part, dict) or not isinstance(part.get("model_type"), str):
            raise UserError(where, f"{name} names no model_type", "copy config.json again")


STREAMING = ("scheme", "fps", "eager_close", "onset", "silence_threshold")
"""What an adapter settles anew; all else is its base's."""
_BASES = ("grid", "use_cls", "pool", "merge", "frame_size", "pixel_mean", "pixel_std",
          "tokens_per_second", "stream_tokens")  # fmt: skip


def take_streaming(config: VlmTsiConfig, adapters: VlmTsiConfig, where: object) -> None:
    """Set in a base's config what an adapter settles anew.

    Raises:
        UserError: the adapter's config is of another model than the base's.
    """
    pairs = {n: (getattr(config, n), getattr(adapters, n)) for n in _BASES}
    for part in ("vision_config", "text_config"):
        own, bases = (getattr(getattr(c, part), "model_type", None) for c in (adapters, config))
        pairs[part] = (bases, own)
    families = ((c.vlm_config or {}).get("model_type") for c in (config, adapters))
    pairs["vlm_config"] = (next(families), next(families))
    for name, (bases, own) in pairs.items():
        if bases != own:
            problem = f"{name} is {own!r:.80}, its base's is {bases!r:.80}"
            raise UserError(where, problem, "copy config.json again")
    for name in STREAMING:
        setattr(config, name, getattr(adapters, name))


def check_parts_build(config: VlmTsiConfig, where: object) -> None:
    """Refuse parts that their libraries cannot build, before memory is taken for them.

    Raises:
        UserError: names the part.
    """
    parts: dict[str, Any] = {"vision_config": AutoModel, "text_config": AutoModelForCausalLM}
    if config.vlm_config is not None:
        parts = {"vlm_config": AutoModelForImageTextToText}
    for name, auto in parts.items():
        part = getattr(config, name)
        try:
            with torch.device("meta"):
                auto.from_config(family_config(part) if name == "vlm_config" else part)
        except Exception as err:  # whatever a library makes of values it does not expect
            problem = f"{name} cannot be built ({type(err).__name__}: {err})"
            raise UserError(where, problem, "copy config.json again") from err


def check_shapes(config: VlmTsiConfig, folder: Path) -> None:
    """Refuse weights of other shapes than the config's, before memory is taken for them.

    Raises:
        UserError: names the first weight and both shapes.
    """
    with torch.device("meta"):
        wanted = {k: list(v.shape) for k, v in VlmTsiModel(config).state_dict().items()}
    files = sorted(folder.glob("*.safetensors"))
    for name, stored in (pair for file in files for pair in stored_shapes(file)):
        if name in wanted and wanted[name] != stored:
            problem = f"{name} is {stored}, the config says {wanted[name]}"
            raise UserError(folder, problem, "copy config.json and weights again")


def stored_shapes(file: Path) -> list[tuple[str, list[int]]]:
    """Name and shape of each tensor in a safetensors file, by its header.

    Raises:
        UserError: the file is missing or damaged.
    """
    if not file.is_file():
        raise UserError(file.parent, f"holds no {file.name}", "name a finished checkpoint")
    try:
        with safe_open(file, "pt") as weights:
            return [(k, weights.get_slice(k).get_shape()) for k in weights.keys()]  # noqa: SIM118
    except (OSError, SafetensorError) as err:
        raise UserError(file, f"is damaged ({err})", "copy it again") from err


@torch.no_grad()
def check_frames(model: VlmTsiModel, where: object) -> None:
    """Send one black frame through encoder and connector, before any data is read.

    The model is left in evaluation mode.

    Raises:
        UserError: the encoder does not take frames of this size.
    """
    size = model.config.frame_size
    black_FHWC = torch.zeros(1, size, size, 3, dtype=torch.uint8)
    try:
        model.eval().embed_frames(model.encode_pixels(black_FHWC))
    except (RuntimeError, ValueError) as err:
        problem = f"{size} px frames do not go through the encoder ({err})"
        raise UserError(where, problem, "set frame_size to the encoder's image_size") from err


def check_vocabulary(model: VlmTsiModel, tokenizer: Any, folder: Path) -> None:
    """Refuse tokens that the embedding table has no row for; the frame's needs none.

    Raises:
        UserError: names the file that does not fit.
    """
    tokens, rows = model.tokens, len(model.get_input_embeddings().get_parameter("weight"))
    special = [tokens.bos_id, tokens.eos_id, *(i for p in tokens.prefixes.values() for i in p)]
    words = [i for i in tokenizer.get_vocab().values() if i != tokens.frame_id]
    for name, ids in (("config.json: stream_tokens", special), ("tokenizer", words)):
        if (highest := max(ids, default=0)) >= rows:
            problem = f"has id {highest}, the model's vocabulary {rows} tokens"
            raise UserError(f"{folder}: {name}", problem, "copy the file again")
