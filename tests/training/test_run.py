"""Training runs: what they write, what they refuse, and that they go on where they were."""

import errno
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import TrainerCallback

from tests.training.lessons import Lessons, furthest, weights
from vlm_tsi.config import ModelConfig, PartConfig
from vlm_tsi.errors import UserError
from vlm_tsi.files import claimed, read_jsonl
from vlm_tsi.model.loading import load_checkpoint
from vlm_tsi.timeline import Timeline, Utterance, write_timelines
from vlm_tsi.training import run as run_room
from vlm_tsi.training.checks import keep_settings, resume_point
from vlm_tsi.training.run import run_training

LORA = {"lora__rank": 4, "lora__alpha": 8, "lora__dropout": 0.1}


def losses(out: Path) -> list[float]:
    return [record["loss"] for _, record in read_jsonl(out / "log.jsonl")]


def at_step(monkeypatch, step: int, act) -> None:
    """Run `act` at the end of a step."""

    class Act(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == step:
                act()

    make = run_room.make_trainer

    def with_act(*args):
        trainer, interrupt = make(*args)
        trainer.callback_handler.callbacks.insert(0, Act())
        return trainer, interrupt

    monkeypatch.setattr(run_room, "make_trainer", with_act)


def test_a_run_writes_a_checkpoint_a_log_and_notes(lessons: Lessons, tmp_path: Path, capfd) -> None:
    assert run_training(lessons.config(tmp_path, optim__max_steps=20, optim__lr=3e-3)) == 0
    notes = json.loads((tmp_path / "model" / "training.json").read_text())
    assert (notes["steps"], notes["world_size"], notes["samples"]) == (20, 1, 10)
    curve = losses(tmp_path)
    assert len(curve) == 20 and curve[-1] < 0.7 * curve[0]
    loaded = load_checkpoint(tmp_path / "model").model
    assert loaded.config.scheme == "tsi" and loaded.config.fps == 2.0
    told = capfd.readouterr()
    assert "step 20/20  epoch" in told.err and "{'loss'" not in told.out + told.err
    assert "saved" in told.out and "after 20 steps" in told.out


def test_the_last_step_is_logged_however_short_the_run(lessons: Lessons, tmp_path: Path) -> None:
    assert run_training(lessons.config(tmp_path, optim__max_steps=3, run__log_steps=500)) == 0
    assert [r["step"] for _, r in read_jsonl(tmp_path / "log.jsonl")] == [3]


def test_the_frozen_encoder_is_not_changed(lessons: Lessons, tmp_path: Path) -> None:
    run_training(lessons.config(tmp_path))
    before, after = weights(lessons.base), weights(tmp_path / "model")
    for name in before:
        assert (before[name] == after[name]).all() == name.startswith("encoder."), name


def test_accumulation_gives_the_same_weights(lessons: Lessons, tmp_path: Path) -> None:
    run_training(lessons.config(tmp_path / "one", optim__batch_size=4))
    run_training(lessons.config(tmp_path / "two", optim__batch_size=2, optim__accumulate=2))
    assert losses(tmp_path / "one") == pytest.approx(losses(tmp_path / "two"), abs=1e-4)
    assert furthest(weights(tmp_path / "one/model"), weights(tmp_path / "two/model")) < 1e-4


def test_the_same_seed_gives_the_same_bytes(lessons: Lessons, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_training(lessons.config(tmp_path / name, optim__max_steps=2, **LORA))
    a, b = (tmp_path / n / "model" / "adapter_model.safetensors" for n in "ab")
    assert a.read_bytes() == b.read_bytes()


def test_ctrl_c_saves_and_resuming_gives_the_undisturbed_weights(
    lessons: Lessons, tmp_path: Path, monkeypatch, capsys
) -> None:
    """With dropout on, in the middle of an epoch, under LoRA."""
    run_training(lessons.config(tmp_path / "whole", **LORA))
    cut = tmp_path / "cut"
    with monkeypatch.context() as patch:
        at_step(patch, 4, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert run_training(lessons.config(cut, **LORA)) == 130
    assert (cut / "checkpoint-4").is_dir() and not (cut / "model").exists()
    assert "run.resume=true" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run_training(lessons.config(cut, run__resume="true", **LORA)) == 0
    assert furthest(weights(tmp_path / "whole/model"), weights(cut / "model")) < 1e-6
    assert losses(cut) == pytest.approx(losses(tmp_path / "whole"), abs=1e-5)


def test_a_signal_that_a_launcher_repeats_still_saves(
    lessons: Lessons, tmp_path: Path, monkeypatch
) -> None:
    def repeated() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)

    at_step(monkeypatch, 2, repeated)
    assert run_training(lessons.config(tmp_path)) == 130
    assert (tmp_path / "checkpoint-2" / "trainer_state.json").is_file()


def test_a_second_ctrl_c_stops_at_once(lessons: Lessons, tmp_path: Path, monkeypatch) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("vlm_tsi.stopping.REPEAT", -1.0)
    at_step(monkeypatch, 2, twice)
    with pytest.raises(KeyboardInterrupt):
        run_training(lessons.config(tmp_path))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_two_runs_in_one_folder_are_kept_apart(lessons: Lessons, tmp_path: Path) -> None:
    other = pytest.raises(UserError, match="another run is at work in it")
    with claimed(tmp_path / "out", wait=False), other:
        run_training(lessons.config(tmp_path / "out"))
    assert run_training(lessons.config(tmp_path / "out")) == 0


def test_words_that_the_tokenizer_lacks_are_counted(
    lessons: Lessons, tmp_path: Path, capfd
) -> None:
    words = Utterance("assistant", "zyzzyva lamp", 0.3, 1.0)
    write_timelines(tmp_path / "t.jsonl", [Timeline("v", "0.mp4", 3.0, (words,))])
    shutil.copy(lessons.folder / "0.mp4", tmp_path)
    files = f"[{tmp_path / 't.jsonl'}]"
    config = lessons.config(tmp_path / "out", data__timelines=files, optim__batch_size=1)
    assert run_training(config) == 0
    assert "positions are words that the tokenizer lacks" in capfd.readouterr().err


def test_an_earlier_runs_checkpoint_is_not_overrun(lessons: Lessons, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-3").mkdir()
    with pytest.raises(UserError, match="holds checkpoint-3 of an earlier run.*run.resume=true"):
        run_training(lessons.config(tmp_path))


def test_a_half_written_checkpoint_is_passed_over(lessons: Lessons, tmp_path: Path) -> None:
    for step, state in ((3, '{"global_step": 3}'), (12, None), (20, '{"global_st')):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if state:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    config = lessons.config(tmp_path, run__resume="true")
    assert resume_point(config, tmp_path) == str(tmp_path / "checkpoint-3")


def test_folders_that_only_look_like_checkpoints_are_passed_over(
    lessons: Lessons, tmp_path: Path
) -> None:
    for name in ("checkpoint-abc", "checkpoint-", "checkpoint-best"):
        (tmp_path / name).mkdir()
    assert resume_point(lessons.config(tmp_path), tmp_path) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lora__rank": 2}, "lora.rank: is 2, the run in .* began with 4"),
        ({"optim__lr": 1e-2}, "optim.lr: is 0.01"),
        ({"run__seed": 7}, "run.seed: is 7"),
        ({"optim__batch_size": 2}, "optim.batch_size: is 2"),
        ({"data__max_positions": 500}, "data.max_positions: is 500"),
    ],
)
def test_a_run_goes_on_only_with_its_own_settings(
    lessons: Lessons, tmp_path: Path, change: dict, told: str, monkeypatch, capfd
) -> None:
    settings = {"lora__rank": 4, "run__save_steps": 2, "optim__max_steps": 2}
    assert run_training(lessons.config(tmp_path, **settings)) == 0
    with pytest.raises(UserError, match=told):
        run_training(lessons.config(tmp_path, **{**settings, **change, "run__resume": "true"}))
    longer = {**settings, "optim__max_steps": 3, "run__resume": "true"}
    longer |= {"run__log_steps": 2, "run__keep": 2, "run__save_steps": 9}
    monkeypatch.chdir(lessons.folder)
    longer["data__timelines"] = "[train.jsonl]"  # the same file by another name
    assert run_training(lessons.config(tmp_path, **longer)) == 0
    assert "optim.max_steps is 3" in capfd.readouterr().err


def test_another_number_of_processes_or_a_changed_part_is_another_run(
    lessons: Lessons, tmp_path: Path, monkeypatch
) -> None:
    config = lessons.config(tmp_path, model__base=None, run__resume="true")
    one = replace(config, model=ModelConfig(text=PartConfig(config={"model_type": "llama"})))
    keep_settings(one, tmp_path)
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1/trainer_state.json").write_text('{"global_step": 1}')
    assert resume_point(one, tmp_path)
    part = PartConfig(config={"model_type": "llama", "attention_dropout": 0.5})
    with pytest.raises(UserError, match=r"model\.text"):
        resume_point(replace(one, model=ModelConfig(text=part)), tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="processes: is 2, .* began with 1"):
        resume_point(one, tmp_path)


@pytest.mark.parametrize("weight", [0, 0.5])
def test_data_without_anything_said_is_refused(
    lessons: Lessons, tmp_path: Path, weight: float
) -> None:
    silent = [Timeline("a", str(lessons.folder / "0.mp4"), 3.0)]
    write_timelines(tmp_path / "silent.jsonl", silent)
    config = lessons.config(
        tmp_path, data__timelines=f"[{tmp_path / 'silent.jsonl'}]", scheme__silence_weight=weight
    )
    with pytest.raises(UserError, match="says nothing in any of 1 samples"):
        run_training(config)


def test_a_rank_above_the_models_width_is_refused(lessons: Lessons, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="lora.rank: is 999999, the language model's width 32"):
        run_training(lessons.config(tmp_path, lora__rank=999999))


@pytest.mark.parametrize("text", [None, "[]", "{"])
def test_a_deepspeed_file_is_looked_at_first(lessons: Lessons, tmp_path: Path, text) -> None:
    path = tmp_path / "ds.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=r"ds\.json"):
        run_training(lessons.config(tmp_path, run__deepspeed=path, model__base="/no"))


def test_resuming_without_a_checkpoint_begins(lessons: Lessons, tmp_path: Path) -> None:
    assert resume_point(lessons.config(tmp_path, run__resume="true"), tmp_path) is None


def test_a_place_that_cannot_be_written_is_named_first(lessons: Lessons, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        run_training(lessons.config(tmp_path / "file" / "out"))


def test_a_full_disk_is_one_line(lessons: Lessons, tmp_path: Path, monkeypatch) -> None:
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_room.TsiTrainer, "_save_checkpoint", full)
    with pytest.raises(UserError, match="no space left for a checkpoint"):
        run_training(lessons.config(tmp_path, run__save_steps=1))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("key", ["data.timelines", "data.captions"])
def test_a_missing_file_is_named_before_a_model_is_loaded(
    lessons: Lessons, tmp_path: Path, key: str
) -> None:
    named = {"data__timelines": None, key.replace(".", "__"): "[no.jsonl]", "model__base": "/no"}
    with pytest.raises(UserError, match=rf"{key}: no\.jsonl: is not there"):
        run_training(lessons.config(tmp_path, **named))


def test_a_loss_that_is_no_number_ends_the_run(lessons: Lessons, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"loss: is (nan|inf) in step \d"):
        run_training(
            lessons.config(tmp_path, optim__lr=1e30, optim__max_grad_norm=1e30, optim__warmup=0)
        )


def test_nothing_to_train_on_is_said(lessons: Lessons, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no sample.*longer than 3 positions"):
        run_training(lessons.config(tmp_path, data__max_positions=3))


def test_captions_train_too(lessons: Lessons, tmp_path: Path) -> None:
    captions = f"[{lessons.folder / 'captions.jsonl'}]"
    config = lessons.config(
        tmp_path, data__timelines=None, data__captions=captions, optim__max_steps=2
    )
    assert run_training(config) == 0
    notes = json.loads((tmp_path / "model" / "training.json").read_text())
    assert notes["samples"] == 3
    assert notes["left_out"] == {"frame without a caption at its time": 3}


def test_lora_on_a_new_model_is_saved_whole(lessons: Lessons, tmp_path: Path) -> None:
    """There is no base folder that an adapter could name."""
    config = json.loads((lessons.base / "config.json").read_text())
    parts = {
        "model__base": None,
        "model__vision__config": json.dumps(config["vision_config"]),
        "model__text__config": json.dumps(config["text_config"]),
        "model__tokenizer": lessons.base,
        "model__frame_size": 32,
    }
    assert run_training(lessons.config(tmp_path, optim__max_steps=2, **parts, **LORA)) == 0
    model = load_checkpoint(tmp_path / "model").model
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert not (tmp_path / "model" / "adapter_config.json").exists()


def test_wandb_works_offline(lessons: Lessons, tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("wandb")
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_DIR": tmp_path,
        "WANDB_SILENT": "true",
    }.items():
        monkeypatch.setenv(name, str(value))
    config = lessons.config(tmp_path / "out", optim__max_steps=2, run__report_to="wandb")
    assert run_training(config) == 0
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
