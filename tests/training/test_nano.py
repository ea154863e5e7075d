"""The nano model: pretrained parts, three LoRA steps, a real clip streamed."""

import shutil
from pathlib import Path

import pytest

from vlm_tsi.config import parse_train_config
from vlm_tsi.files import read_json
from vlm_tsi.streaming.cli import run
from vlm_tsi.timeline import Timeline, Utterance, write_timelines
from vlm_tsi.training.run import run_training

ROOT = Path(__file__).resolve().parents[2]
CLIP = "mpy_chaplin.mp4"


@pytest.mark.slow
def test_nano_trains_three_steps_and_streams_a_real_clip(
    shared_data: Path, tmp_path: Path, monkeypatch
) -> None:
    for name in ("SmolLM2-135M-Instruct", "efficientnet-lite0"):
        if not (ROOT / "weights" / name).is_dir():
            pytest.skip(f"no weights/{name}: make weights")
    pytest.importorskip("gguf")
    clip = shared_data / "clips" / CLIP
    if not clip.is_file():
        pytest.skip(f"no {CLIP} in shared data")
    monkeypatch.chdir(ROOT)
    shutil.copy(clip, tmp_path / CLIP)
    said = (Utterance("assistant", "A man walks in.", 0.6, 1.8),)
    write_timelines(
        tmp_path / "t.jsonl", [Timeline("chaplin", CLIP, 3.0, said, "Say what you see.")]
    )
    config = parse_train_config(
        ["--config", "configs/nano/tsi.yaml", f"data.timelines=[{tmp_path / 't.jsonl'}]",
         "optim.max_steps=3", "optim.accumulate=1", f"run.out={tmp_path / 'out'}"]
    )  # fmt: skip
    assert run_training(config) == 0
    notes = read_json(tmp_path / "out" / "model" / "training.json")
    assert notes["steps"] == 3 and notes["trained_parameters"] < notes["parameters"] / 10
    words = [str(clip), "--model", str(tmp_path / "out" / "model"), "--out", str(tmp_path / "said")]
    assert run(words) == 0
    assert (tmp_path / "said" / "utterances.jsonl").is_file()
