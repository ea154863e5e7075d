"""Checkpoints in and out.

Input: a folder: a whole model, or a LoRA adapter with its connector and the base's folder
named in it. Output: a `VlmTsiModel` and its tokenizer. Invariant: weights come from
safetensors only, no code comes from a checkpoint, and a folder of another kind is refused
by name before a weight is read.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedModel

from vlm_tsi.errors import UserError, is_disk_full
from vlm_tsi.files import read_object
from vlm_tsi.model.checks import (
    check_config,
    check_frames,
    check_parts,
    check_parts_build,
    check_shapes,
    check_vocabulary,
    stored_shapes,
    take_streaming,
)
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.video.features import content_key

ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
NOTES, BASE_WEIGHTS = "training.json", "base_weights"


@dataclass(frozen=True)
class Loaded:
    """A model ready to stream, and its tokenizer."""

    model: VlmTsiModel
    tokenizer: Any


def load_checkpoint(folder: str | Path, base: str | Path | None = None) -> Loaded:
    """Load a checkpoint; an adapter is merged into its base.

    Args:
        folder: what training wrote.
        base: the base model's folder, where the adapter's own note of it is out of date.

    Raises:
        UserError: no checkpoint there, or one of another architecture.
    """
    path = Path(folder)
    if base is not None and not (path / ADAPTER_CONFIG).is_file():
        raise UserError("--base", f"{path} is a whole model", "leave it out; adapters have a base")
    loaded = Loaded(load_model(path, base).eval(), load_tokenizer(path))
    check_vocabulary(loaded.model, loaded.tokenizer, path)
    return loaded


def load_model(
    path: Path, base: str | Path | None = None, above: tuple[Path, ...] = ()
) -> VlmTsiModel:
    """A whole model, or an adapter merged into its base (which may itself be an adapter).

    Args:
        path: its folder.
        base: the base's folder, where the adapter's own note of it is out of date.
        above: the adapters whose base this is.
    """
    if (path / ADAPTER_CONFIG).is_file():
        merged: VlmTsiModel = _load_adapter(path, base, above).merge_and_unload()
        return merged
    return load_whole(path)


def load_whole(path: Path) -> VlmTsiModel:
    """Load a whole model's folder."""
    config = config_at(path)
    if (path / ADAPTER).is_file():
        raise UserError(path, f"holds no {ADAPTER_CONFIG}", "copy it from where it was trained")
    if not list(path.glob("*.safetensors")):
        raise UserError(path, "holds no .safetensors file", "name a finished checkpoint")
    check_parts_build(config, path / "config.json")
    check_shapes(config, path)
    try:
        loaded: Any = VlmTsiModel.from_pretrained(
            path, config=config, local_files_only=True, output_loading_info=True
        )
    except (OSError, ValueError, SafetensorError) as err:
        raise UserError(path, f"cannot be loaded ({err})", "name a whole checkpoint") from err
    model: VlmTsiModel = loaded[0]
    if absent := sorted(loaded[1]["missing_keys"]):
        problem = f"{len(absent)} weights are missing, {absent[0]} first"
        raise UserError(path, problem, "train it anew or copy it again")
    check_frames(model, path / "config.json")
    return model


def config_at(path: Path) -> VlmTsiConfig:
    """The config in a checkpoint's folder, checked.

    Raises:
        UserError: none there, of another architecture, or one that no stream can run with.
    """
    check_architecture(path)
    where = path / "config.json"
    check_parts(read_object(where), where)
    try:
        config: VlmTsiConfig = VlmTsiConfig.from_pretrained(path, local_files_only=True)
    except Exception as err:  # several libraries build it from the file's words
        line = (str(err).splitlines() or [type(err).__name__])[0]
        raise UserError(where, f"cannot be used ({line})", "copy it again") from err
    check_config(config, where)
    return config


def check_architecture(path: Path) -> None:
    """Refuse a folder that is not a VLM-TSI checkpoint."""
    config = path / "config.json"
    if not config.is_file():
        problem = "is not a checkpoint (no config.json)" if path.is_dir() else "is no folder"
        raise UserError(
            path, problem, "name the folder that training wrote, e.g. runs/demo/tsi/model"
        )
    kind = read_object(config).get("model_type")
    if kind != VlmTsiConfig.model_type:
        problem = f"holds a {kind!r} model, not {VlmTsiConfig.model_type!r}"
        raise UserError(path, problem, "name a VLM-TSI checkpoint, or train one on this backbone")


def _base_of(adapter: Path, base: str | Path | None) -> Path:
    named = base or read_object(adapter / ADAPTER_CONFIG).get("base_model_name_or_path")
    return find_base(adapter, named)


def _load_adapter(path: Path, base: str | Path | None, above: tuple[Path, ...]) -> Any:
    from peft import PeftModel

    stored_shapes(path / ADAPTER)  # whole, or refused
    config = config_at(path)
    base_path = _base_of(path, base)
    if base_path.resolve() in (path.resolve(), *above):
        raise UserError(path, "is its own base", "name the model it was trained on with --base")
    check_base(path, base_path)
    model = load_model(base_path, above=(*above, path.resolve()))
    model.untie()  # as it was when the adapter was made
    take_streaming(model.config, config, path / "config.json")
    try:
        return PeftModel.from_pretrained(model, str(path))
    except Exception as err:  # peft builds it from the words of adapter_config.json
        problem = f"does not fit its base {base_path} ({err})"
        mend = f"name the base it was trained on with --base, or copy {ADAPTER_CONFIG} again"
        raise UserError(path, problem, mend) from err


def find_base(path: Path, named: Any) -> Path:
    """The base's folder: as written, or from the adapter's folder or one above it."""
    for folder in (Path(), path, *path.resolve().parents):
        if named and (folder / str(named) / "config.json").is_file():
            return folder / str(named)
    problem = f"its base model {named!r} is no folder with a config.json"
    raise UserError(path, problem, "name its folder with --base")


def check_base(adapter: Path, base: Path) -> None:
    """Refuse a base whose weights are not those that the adapter was trained on."""
    notes = adapter / NOTES
    noted = read_object(notes).get(BASE_WEIGHTS) if notes.is_file() else None
    if noted and noted != weights_digest(base):
        mend = f"restore it, name the right one with --base, or take {BASE_WEIGHTS} out of {notes}"
        raise UserError(adapter, f"was trained on other weights than those in {base}", mend)


def weights_digest(folder: Path) -> str:
    """Digest of a folder's safetensors files, by `content_key`: a second or so at any size."""
    files = sorted(folder.glob("*.safetensors"))
    text = "".join(f"{f.name} {content_key(f)}\n" for f in files)
    return hashlib.sha256(text.encode()).hexdigest()


def load_tokenizer(path: str | Path, gguf_file: str | None = None) -> Any:
    """Load a tokenizer from a folder, from a GGUF file in it, or by its name on the hub."""
    options = {"gguf_file": gguf_file} if gguf_file else {}
    try:
        return AutoTokenizer.from_pretrained(str(path), **options)
    except (OSError, ValueError, KeyError, TypeError) as err:
        mend = "copy tokenizer.json and tokenizer_config.json there again"
        raise UserError(path, "holds no tokenizer that loads", mend) from err


def save_checkpoint(
    folder: Path, model: PreTrainedModel, tokenizer: Any, config: VlmTsiConfig, notes: dict
) -> None:
    """Write a model (whole or adapter), its config, tokenizer and notes, whole or not at all.

    An existing folder of that name is replaced only once the new one is complete.

    Raises:
        UserError: the folder cannot be written (a full disk, no permission).
    """
    aside = folder.with_name(f".{folder.name}.new")
    _remove(aside)
    try:
        model.save_pretrained(aside)
        config.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        notes = notes | _base_note(model)
        (aside / NOTES).write_text(json.dumps(notes, indent=2) + "\n")
    except Exception as err:
        _remove(aside)
        if not isinstance(err, OSError | SafetensorError) and not is_disk_full(err):
            raise
        mend = "free space or choose another run.out, then go on with run.resume=true"
        raise UserError(folder, f"cannot be written ({err})", mend) from err
    old = folder.with_name(f".{folder.name}.old")
    _remove(old)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    _remove(old)


def _base_note(model: Any) -> dict[str, str]:
    """What an adapter remembers of its base, if that is a folder."""
    adapters = getattr(model, "peft_config", {})
    bases = [
        Path(a.base_model_name_or_path) for a in adapters.values() if a.base_model_name_or_path
    ]
    return {BASE_WEIGHTS: weights_digest(bases[0])} if bases and bases[0].is_dir() else {}


def _remove(path: Path) -> None:
    import shutil

    if path.exists():
        shutil.rmtree(path)
