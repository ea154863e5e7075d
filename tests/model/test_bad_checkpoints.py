"""A damaged checkpoint is refused in one line that names the file, the key and the value."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.tiny import WORDS, save_tiny, tiny_tokenizer
from vlm_tsi.config import LoraSettings
from vlm_tsi.errors import UserError
from vlm_tsi.model.loading import (
    config_at,
    load_checkpoint,
    load_model,
    load_tokenizer,
    save_checkpoint,
)
from vlm_tsi.training.build import add_lora


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def change(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("text", ["[1]", "5", "null", "{", "", '{"model_type": "vlm_tsi"}'])
def test_a_config_that_is_none(text: str, copy: Path) -> None:
    (copy / "config.json").write_text(text)
    assert "config.json" in refused(copy)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("text_config", v) for v in (5, None, {}, [])),
        *(("vision_config", v) for v in ("x", {}, {"model_type": 3})),
        *(("stream_tokens", v) for v in ({}, None, [], {"bos_id": 1})),
        *(("tokens_per_second", v) for v in (0, -1, "x", None)),
        *(("fps", v) for v in (0, "x", [2])),
        *(("frame_size", v) for v in ("x", 0, 5, 1 << 30, 16.5)),
        *(("pool", v) for v in (-1, 9, "x")),
        ("merge", "no"),
        ("eager_close", "yes"),
        *(("pixel_mean", v) for v in ([1], "x", [1, 2, "x"])),
        *(("scheme", v) for v in ("other", None, 3)),
        *(("onset", v) for v in (2, "x")),
        *(("pixel_std", v) for v in ([0, 0, 0], [1], "x")),
        ("use_cls", "yes"),
        ("silence_threshold", 1.5),
        ("vision_config", {"model_type": "siglip_vision_model", "patch_size": 0}),
    ],
    ids=lambda v: str(v)[:24],
)
def test_a_bad_value_in_the_config(key: str, value: Any, copy: Path) -> None:
    change(copy, **{key: value})
    assert key in refused(copy)


@pytest.mark.parametrize(
    "values",
    [
        {"dtype": "float33"},
        {"text_config": {"model_type": "no such model"}},
        {"text_config": {"model_type": "llama", "num_attention_heads": 0}},
        {"vision_config": {"model_type": "siglip_vision_model", "hidden_size": "x"}},
    ],
    ids=lambda v: str(v)[:50],
)
def test_what_the_library_cannot_read_or_build(values: dict, copy: Path) -> None:
    change(copy, **values)
    assert "cannot be" in (told := refused(copy)) and "config.json" in told


def test_a_giant_is_refused_before_memory_is_taken_for_it(copy: Path) -> None:
    text = json.loads((copy / "config.json").read_text())["text_config"]
    large = {"hidden_size": 1 << 15, "intermediate_size": 1 << 17, "num_hidden_layers": 2}
    change(copy, text_config=text | large)  # 60 GB
    assert "the config says" in refused(copy)


def test_a_frame_without_tokens(copy: Path) -> None:
    change(copy, use_cls=False, pool=0)
    assert "a frame has no token" in refused(copy)


@pytest.fixture
def adapter(whole: Path, tmp_path: Path) -> Path:
    model = load_model(whole)
    trained = add_lora(model, LoraSettings(rank=2, alpha=4), str(whole))
    save_checkpoint(tmp_path / "lora", trained, load_tokenizer(whole), model.config, {})
    return tmp_path / "lora"


@pytest.mark.parametrize(
    ("key", "value"),
    [("frame_size", 64), ("pool", 2), ("pixel_mean", [9.0, 9.0, 9.0]), ("tokens_per_second", 9.0),
     ("text_config", {"model_type": "gpt2"}), ("stream_tokens", None), ("onset", 7)],
    ids=lambda v: str(v)[:24],
)  # fmt: skip
def test_an_adapters_config_is_of_its_bases_model(key: str, value: Any, adapter: Path) -> None:
    change(adapter, **{key: value})
    assert key in refused(adapter) or key == "pool"


def test_an_adapter_settles_how_it_streams(adapter: Path) -> None:
    change(adapter, fps=5.0, scheme="turn_based", onset=0.25)
    config = load_checkpoint(adapter).model.config
    assert (config.fps, config.scheme, config.onset) == (5.0, "turn_based", 0.25)


def test_words_that_the_model_has_no_row_for(copy: Path) -> None:
    tiny_tokenizer([*WORDS, "more words than the model has rows for"]).save_pretrained(copy)
    assert "tokenizer: has id" in refused(copy)


@pytest.mark.parametrize("changes", [{"bos_id": 10**6}, {"tokens_per_frame": 3}, {"eos_id": "x"}])
def test_bad_special_tokens(changes: dict, copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    change(copy, stream_tokens=config["stream_tokens"] | changes)
    assert "tokens" in refused(copy)


def test_weights_of_other_shapes_are_named_with_both(copy: Path) -> None:
    text = json.loads((copy / "config.json").read_text())["text_config"]
    change(copy, text_config=text | {"intermediate_size": 48})
    assert "mlp" in (told := refused(copy)) and "[32, 64], the config says [32, 48]" in told


@pytest.mark.parametrize("name", ["adapter_config.json", "training.json"])
@pytest.mark.parametrize("text", ["[]", "5", "{"])
def test_an_adapters_files_that_are_none(name: str, text: str, whole: Path, tmp_path: Path) -> None:
    adapter = Path(shutil.copytree(whole, tmp_path / "adapter"))
    save_file({"a": np.zeros(1)}, adapter / "adapter_model.safetensors")
    (adapter / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": str(whole)})
    )
    (adapter / name).write_text(text)
    assert name in refused(adapter)


def test_adapters_that_are_each_others_base(copy: Path, tmp_path: Path) -> None:
    for name, base in (("a", "b"), ("b", "a"), ("c", "c")):
        shutil.copytree(copy, tmp_path / name)
        save_file({"a": np.zeros(1)}, tmp_path / name / "adapter_model.safetensors")
        noted = {"base_model_name_or_path": str(tmp_path / base)}
        (tmp_path / name / "adapter_config.json").write_text(json.dumps(noted))
    for name in "abc":
        with pytest.raises(UserError, match="is its own base"):
            load_checkpoint(tmp_path / name)


def test_a_checkpoints_config_is_read_without_its_weights(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    assert config_at(copy).frame_size == 32
