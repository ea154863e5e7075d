"""VideoLLM-Online's released form (LIVE) <-> this project's checkpoint layout.

Input: three folders as they are published: the LoRA adapter, Llama, SigLIP. Output: a
checkpoint folder: an adapter, and below it its base. And back: an adapter of ours in the
released layout. Invariant: weights are renamed, never computed with: an adapter that is
imported and exported is the same, tensor by tensor, but for the copies of frozen layers that
peft lays beside an adapted head: they belong to the base and go there. Files are read and
written shard by shard, so that no model is ever held in memory. Safetensors only.

The names on both sides (FORMATS: released layer names are those of a Llama class that holds
the connector itself; ours keeps the language model in `language_model`).
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from vlm_tsi.errors import UserError
from vlm_tsi.files import read_object, write_json
from vlm_tsi.model.checks import stored_shapes
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.loading import ADAPTER, ADAPTER_CONFIG, NOTES, check_architecture, load_tokenizer
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.sequence.tokens import TokenSpec, stream_tokens

LINEAR = "q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj"
RELEASED_TARGETS = rf"model.*({LINEAR})|lm_head$"
OUR_TARGETS = rf"language_model\.(model\..*({LINEAR})|lm_head)"
VARIANTS = {"live1": (True, 0), "live1+": (True, 3)}
"""Name -> (CLS token, side of the pooled grid)."""
SPEC = TokenSpec(
    bos="\n", eos="<|eot_id|>", frame="", system_prefix="", user_prefix="\nUser:",
    assistant_prefix="\nAssistant:",
)  # fmt: skip
"""As the paper's authors do: the line break that opens "\\nAssistant:" is BOS."""
_PREFIX = "base_model.model."
_INFIX = re.compile(r"\.(modules_to_save\.)?default(?=\.)")


@dataclass(frozen=True)
class Imported:
    """What an import found: tensors taken of each source, and what was left out."""

    taken: dict[str, int]
    left_out: dict[str, int]


def import_live(
    adapter: Path, llama: Path, siglip: Path, out: Path, variant: str | None = None
) -> Imported:
    """Write `out` (an adapter) and `out/base` (its base), whole or not at all.

    Args:
        adapter: adapter_config.json and adapter_model.safetensors, as released.
        llama: a Llama folder with its tokenizer.
        siglip: a SigLIP folder, whole or its vision part.
        out: a folder that is not there yet.
        variant: `live1` or `live1+` (None: what the adapter's config.json says, else live1+).

    Raises:
        UserError: a folder of another kind, weights that do not fit together, a full disk.
    """
    _check_new(out)
    settings = _released_adapter(adapter)
    tokenizer = load_tokenizer(llama)
    config = _config(adapter, llama, siglip, tokenizer, variant)
    wanted = _wanted(config)
    connector, copies, lora = _split(load_file(adapter / ADAPTER), wanted)
    _check_lora(adapter, connector, lora, wanted, int(settings["r"]))
    aside = out.with_name(f".{out.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        found = _write_base(aside / "base", llama, siglip, connector | copies, wanted)
        for folder in (aside, aside / "base"):
            config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        _write_adapter(aside, settings, connector, lora)
        aside.rename(out)
    except OSError as err:
        raise UserError(out, f"cannot be written ({err})", "free space on the disk") from err
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return found


def export_live(model: Path, out: Path, llama: str | None = None) -> None:
    """Write an adapter of ours in the released layout.

    Args:
        model: a folder with our adapter.
        out: a folder that is not there yet.
        llama: what its config is to name as the base.

    Raises:
        UserError: no adapter of a Llama with SigLIP, or one that adapts other layers.
    """
    _check_new(out)
    check_architecture(model)
    config = VlmTsiConfig.from_pretrained(model)
    kinds = tuple(
        getattr(c, "model_type", None) for c in (config.vision_config, config.text_config)
    )
    if kinds != ("siglip_vision_model", "llama"):
        problem = f"is made of {kinds[0]} and {kinds[1]}, the released form of SigLIP and Llama"
        raise UserError(model, problem, "keep it in this project's layout")
    settings = read_object(model / ADAPTER_CONFIG) if (model / ADAPTER_CONFIG).is_file() else None
    if settings is None:
        raise UserError(model, f"holds no {ADAPTER_CONFIG}", "only adapters have a released form")
    stored_shapes(model / ADAPTER)
    connector, _, lora = _split(load_file(model / ADAPTER), _wanted(config))
    tensors = {_released_name(k): v.contiguous() for k, v in (connector | lora).items()}
    settings |= {
        "base_model_name_or_path": llama or "meta-llama/Meta-Llama-3-8B-Instruct",
        "target_modules": RELEASED_TARGETS,
        "modules_to_save": ["connector"],
    }
    aside = out.with_name(f".{out.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    save_file(tensors, aside / ADAPTER, {"format": "pt"})
    write_json(aside / ADAPTER_CONFIG, settings)
    write_json(aside / "config.json", _released_config(config))
    aside.rename(out)


def _check_new(out: Path) -> None:
    if out.exists():
        raise UserError(out, "is there already", "name a folder that is not")


def _released_adapter(folder: Path) -> dict[str, Any]:
    """Its adapter_config.json, checked."""
    where = folder / ADAPTER_CONFIG
    if not where.is_file():
        raise UserError(folder, f"holds no {ADAPTER_CONFIG}", "name the released adapter's folder")
    if not (folder / ADAPTER).is_file():
        mend = f"convert it to {ADAPTER} (torch.load(…, weights_only=True), then save_file)"
        raise UserError(folder, "holds pickled weights or none", mend)
    settings = read_object(where)
    rank = settings.get("r")
    if settings.get("peft_type") != "LORA" or not isinstance(rank, int) or rank < 1:
        raise UserError(where, "is not of a LoRA adapter", "name the released adapter's folder")
    stored_shapes(folder / ADAPTER)
    return settings


def _config(
    adapter: Path, llama: Path, siglip: Path, tokenizer: Any, variant: str | None
) -> VlmTsiConfig:
    text = _part(llama, "llama", lambda c: c)
    vision = _part(siglip, "siglip_vision_model", lambda c: getattr(c, "vision_config", c))
    use_cls, pool = _variant(adapter, variant)
    tokens = stream_tokens(tokenizer, SPEC, int(use_cls) + pool**2)
    return VlmTsiConfig(
        vision_config=vision.to_dict(),
        text_config=text.to_dict(),
        use_cls=use_cls,
        pool=pool,
        frame_size=vision.image_size,
        stream_tokens=tokens.to_dict(),
        dtype=str(getattr(text, "dtype", None) or "float32").removeprefix("torch."),
    )


def _variant(adapter: Path, named: str | None) -> tuple[bool, int]:
    """(CLS token, side of the pooled grid), as named or as the released config says."""
    if named is not None:
        if named not in VARIANTS:
            raise UserError("variant", f"is {named!r}", f"use one of {', '.join(VARIANTS)}")
        return VARIANTS[named]
    where = adapter / "config.json"
    released = read_object(where) if where.is_file() else {}
    if "frame_token_cls" not in released:
        return VARIANTS["live1+"]
    grid = released.get("frame_token_pooled") or [0, 0]
    if not isinstance(grid, list) or len(set(grid)) != 1 or not isinstance(grid[0], int):
        raise UserError(
            where, f"frame_token_pooled is {grid!r:.40}", "name --variant live1 or live1+"
        )
    return bool(released["frame_token_cls"]), grid[0]


def _part(folder: Path, kind: str, choose: Callable[[Any], Any]) -> Any:
    """The config of a part of the wanted family."""
    if not (folder / "config.json").is_file():
        raise UserError(folder, "is no model folder (no config.json)", f"name a {kind} folder")
    try:
        found = choose(AutoConfig.from_pretrained(folder, local_files_only=True))
    except (OSError, ValueError, KeyError) as err:
        raise UserError(folder, f"has no config that loads ({err})", "copy it again") from err
    if found.model_type != kind:
        raise UserError(folder, f"holds a {found.model_type!r} model", f"name a {kind!r} one")
    return found


def _wanted(config: VlmTsiConfig) -> dict[str, list[int]]:
    """Names and shapes of the whole model's weights."""
    with torch.device("meta"):
        return {k: list(v.shape) for k, v in VlmTsiModel(config).state_dict().items()}


Tensors = dict[str, torch.Tensor]


def _split(released: Tensors, wanted: dict[str, list[int]]) -> tuple[Tensors, Tensors, Tensors]:
    """(connector, copies of the base's layers, LoRA), under our names without peft's infixes."""
    connector, copies, lora = {}, {}, {}
    for name, tensor in released.items():
        plain = _INFIX.sub("", name).removeprefix(_PREFIX)
        ours = f"language_model.{plain.removeprefix('language_model.')}"
        ours = ours.replace(".base_layer.", ".")
        if plain.startswith("connector."):
            connector[plain] = tensor
        elif ours in wanted:
            copies[ours] = tensor
        else:
            lora[ours] = tensor
    return connector, copies, lora


def _released_name(ours: str) -> str:
    return _PREFIX + ours.removeprefix("language_model.")


def _check_lora(
    folder: Path, connector: Tensors, lora: Tensors, wanted: dict[str, list[int]], rank: int
) -> None:
    """Refuse an adapter of another model, rank or set of layers, naming the first misfit."""
    adapted = [n for n in wanted if re.fullmatch(OUR_TARGETS, n.removesuffix(".weight"))]
    shapes = {n: wanted[n] for n in wanted if n.startswith("connector.")}
    for name in adapted:
        rows, columns = wanted[name]
        layer = name.removesuffix(".weight")
        shapes |= {
            f"{layer}.lora_A.weight": [rank, columns],
            f"{layer}.lora_B.weight": [rows, rank],
        }
    found = {k: list(v.shape) for k, v in (connector | lora).items()}
    for name, shape in shapes.items():
        if found.get(name) != shape:
            told = f"{name} is {found[name]}" if name in found else f"{name} is missing"
            raise UserError(folder, f"{told}, {shape} is needed", "name the adapter of these parts")
    if extra := sorted(found.keys() - shapes.keys()):
        problem = f"{len(extra)} of its weights have no place, {extra[0]} first"
        raise UserError(folder, problem, "name an adapter of the released form")


def _write_base(
    folder: Path, llama: Path, siglip: Path, own: Tensors, wanted: dict[str, list[int]]
) -> Imported:
    """Shards under our names; what the adapter brings (`own`) stands before Llama's."""
    folder.mkdir(parents=True)
    taken: dict[str, int] = {}
    left_out: dict[str, int] = {}
    where: dict[str, str] = {}
    missing = wanted.keys() - own.keys()
    sources = (("llama", llama, _from_llama), ("siglip", siglip, _from_siglip))
    for kind, source, rename in sources:
        taken[kind] = left_out[kind] = 0
        for number, shard in enumerate(_shards(source)):
            kept = {rename(k): v for k, v in shard.items() if rename(k) in missing}
            left_out[kind] += sum(rename(k) not in wanted for k in shard)
            taken[kind] += len(kept)
            _check_fit(source, kept, wanted)
            where |= _save(folder / f"model-{kind}-{number:05}.safetensors", kept)
    _check_fit(folder, own, wanted)
    where |= _save(folder / "model-connector.safetensors", own)
    taken["adapter"] = len(own)
    absent = sorted(wanted.keys() - where.keys() - {"language_model.lm_head.weight"})
    if absent:
        problem = f"{len(absent)} weights are in none of the folders, {absent[0]} first"
        raise UserError(llama, problem, "copy both folders again")
    if "language_model.lm_head.weight" not in where:
        raise UserError(llama, "ties its head to its embeddings", "name a Llama that does not")
    index = {"metadata": {}, "weight_map": where}
    write_json(folder / "model.safetensors.index.json", index)
    return Imported(taken, left_out)


def _save(file: Path, tensors: Tensors) -> dict[str, str]:
    if not tensors:
        return {}
    save_file({k: v.contiguous() for k, v in tensors.items()}, file, {"format": "pt"})
    return dict.fromkeys(tensors, file.name)


def _shards(folder: Path) -> Iterator[Tensors]:
    """The weights of each safetensors file of a folder, one file at a time."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UserError(folder, "holds no .safetensors file", "name a folder with weights")
    for file in files:
        stored_shapes(file)
        with safe_open(file, "pt") as weights:
            yield {k: weights.get_tensor(k) for k in weights.keys()}  # noqa: SIM118


def _from_llama(name: str) -> str:
    return f"language_model.{name}"


def _from_siglip(name: str) -> str:
    return f"encoder.vision.{name.removeprefix('vision_model.')}"


def _check_fit(source: Path, kept: Tensors, wanted: dict[str, list[int]]) -> None:
    for name, tensor in kept.items():
        if list(tensor.shape) != wanted[name]:
            problem = f"{name} is {list(tensor.shape)}, its config says {wanted[name]}"
            raise UserError(source, problem, "copy config.json and weights again")


def _write_adapter(folder: Path, settings: dict, connector: Tensors, lora: Tensors) -> None:
    tensors = {_PREFIX + k: v.contiguous() for k, v in (connector | lora).items()}
    save_file(tensors, folder / ADAPTER, {"format": "pt"})
    ours = {"base_model_name_or_path": "base", "target_modules": OUR_TARGETS,
            "modules_to_save": ["connector"]}  # fmt: skip
    write_json(folder / ADAPTER_CONFIG, settings | ours)
    (folder / NOTES).write_text(json.dumps({"imported": "VideoLLM-Online adapter"}) + "\n")


def _released_config(config: Any) -> dict[str, Any]:
    """The fields that LIVE keeps beside Llama's."""
    rows = config.text_config.vocab_size
    plus = bool(config.pool)
    return config.text_config.to_dict() | {
        "frame_resolution": config.frame_size,
        "frame_token_cls": config.use_cls,
        "frame_token_pooled": [config.pool, config.pool] if plus else None,
        "frame_num_tokens": config.tokens_per_frame,
        "v_placeholder": "<v>",
        "v_placeholder_id": rows,
        "frame_token_interval": "," if plus else "",
        "vision_hidden_size": config.vision_config.hidden_size,
    }
