"""One training run on transformers' Trainer.

Input: a `TrainConfig`. Output: `<run.out>/model` (checkpoint), `<run.out>/log.jsonl`.
Invariant: the loss is the weighted mean over all labelled positions of the global batch,
so one process, several processes and accumulation give the same gradient; a run killed and
resumed ends with the weights of an undisturbed one.
"""

import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from vlm_tsi.config import TrainConfig
from vlm_tsi.errors import UserError
from vlm_tsi.files import make_folder, write_jsonl
from vlm_tsi.model.loading import save_checkpoint
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.sequence.collate import collate
from vlm_tsi.sequence.interleave import IGNORE
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.training.build import Built, build
from vlm_tsi.training.data import CaptionDataset, StoreFrames, StreamDataset, VideoFrames
from vlm_tsi.video.features import FeatureStore


class TsiTrainer(Trainer):
    """Trainer whose divisor is the weight of the labels, not their number."""

    def _get_num_items_in_batch(self, batch_samples: list, device: torch.device) -> Any:
        if not batch_samples:
            return None
        total = sum((b["label_weights"] * (b["labels"] != IGNORE)).sum() for b in batch_samples)
        total = torch.as_tensor(total, device=device)
        return self.accelerator.gather(total).sum() if self.args.world_size > 1 else total


class SaveOnInterrupt(TrainerCallback):
    """The first Ctrl-C saves after the running step and stops; the second stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self.before = signal.getsignal(signal.SIGINT)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Catch SIGINT from here on."""
        signal.signal(signal.SIGINT, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self.before)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save and stop if asked."""
        if self.asked:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Give SIGINT back."""
        signal.signal(signal.SIGINT, self.before)


def make_dataset(config: TrainConfig, model: VlmTsiModel, tokenizer: Any) -> Any:
    """The dataset the config names, for this model's tokens and frame size."""
    data, encode, tokens = config.data, encoder(tokenizer), model.tokens
    if data.captions:
        size = model.config.frame_size
        return CaptionDataset(data.captions, data.fps, size, tokens, encode, data.limit)
    source = (
        StoreFrames(FeatureStore(data.store, encoder_key(model, data.fps)))
        if data.store
        else VideoFrames(data.fps, model.config.frame_size)
    )
    return StreamDataset(
        data.timelines, source, tokens, encode, config.scheme, data.limit, data.max_positions
    )


def encoder_key(model: VlmTsiModel, fps: float) -> str:
    """Names an encoder and its sampling: a changed weight or setting is another key."""
    import hashlib

    digest = hashlib.sha256()
    for name, tensor in sorted(model.encoder.state_dict().items()):
        digest.update(name.encode() + tensor.detach().float().cpu().numpy().tobytes())
    c = model.config
    settings = (c.use_cls, c.pool, c.frame_size, c.pixel_mean, c.pixel_std, fps)
    digest.update(repr(settings).encode())
    return digest.hexdigest()[:24]


def training_arguments(config: TrainConfig) -> TrainingArguments:
    """Our config in transformers' terms."""
    optim, run = config.optim, config.run
    return TrainingArguments(
        output_dir=run.out,
        num_train_epochs=optim.epochs,
        max_steps=optim.max_steps,
        per_device_train_batch_size=optim.batch_size,
        gradient_accumulation_steps=optim.accumulate,
        learning_rate=optim.lr,
        lr_scheduler_type=optim.schedule,
        warmup_steps=optim.warmup,
        weight_decay=optim.weight_decay,
        max_grad_norm=optim.max_grad_norm,
        bf16=optim.bf16,
        gradient_checkpointing=optim.gradient_checkpointing,
        seed=run.seed,
        save_steps=run.save_steps,
        save_total_limit=run.keep,
        logging_steps=run.log_steps,
        report_to=[] if run.report_to == "none" else [run.report_to],
        dataloader_num_workers=run.workers,
        deepspeed=run.deepspeed,
        remove_unused_columns=False,
        label_names=["labels"],
        use_cpu=not torch.cuda.is_available(),
    )


def run_training(config: TrainConfig) -> int:
    """Train, save, and say where. Returns 0, or 130 after Ctrl-C."""
    _check_reporter(config)
    out = make_folder(config.run.out)
    built = build(config)
    dataset = make_dataset(config, built.model, built.tokenizer)
    if not len(dataset):
        raise UserError("data", "holds no sample to train on", "name a file that has some")
    trainer = TsiTrainer(
        model=built.trained,
        args=training_arguments(config),
        train_dataset=dataset,
        data_collator=collate,
        callbacks=[interrupt := SaveOnInterrupt()],
    )
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=_resume_point(config, out))
    if interrupt.asked:
        print(f"interrupted: checkpoint saved in {out}; go on with run.resume=true")
        return 130
    if trainer.is_world_process_zero():
        _finish(config, built, trainer, dataset, time.monotonic() - began, out)
    return 0


def _check_reporter(config: TrainConfig) -> None:
    if config.run.report_to == "wandb":
        try:
            import wandb  # noqa: F401
        except ImportError as err:
            mend = "pip install vlm-tsi[track], or set run.report_to=none"
            raise UserError("run.report_to", "wandb is not installed", mend) from err


def _resume_point(config: TrainConfig, out: Path) -> str | None:
    last = get_last_checkpoint(str(out))
    if config.run.resume:
        return last
    if last is not None:
        problem = f"holds {Path(last).name} of an earlier run"
        raise UserError(out, problem, "set run.resume=true, or choose another run.out")
    return None


def _finish(
    config: TrainConfig, built: Built, trainer: Trainer, dataset: Any, seconds: float, out: Path
) -> None:
    notes = {
        "config": asdict(config),
        "samples": len(dataset),
        "left_out": dict(dataset.left_out),
        "trained_parameters": sum(p.numel() for p in built.trained.parameters() if p.requires_grad),
        "parameters": sum(p.numel() for p in built.model.parameters()),
        "steps": trainer.state.global_step,
        "seconds": round(seconds, 1),
    }
    model = trainer.accelerator.unwrap_model(trainer.model)
    save_checkpoint(out / "model", model, built.tokenizer, built.model.config, notes)
    write_jsonl(out / "log.jsonl", [r for r in trainer.state.log_history if "loss" in r])
    left = sum(dataset.left_out.values())
    print(f"saved {out / 'model'} after {notes['steps']} steps, {seconds:.0f} s; left out: {left}")
