"""One training run on transformers' Trainer.

Input: a `TrainConfig`. Output: `<run.out>/model` (checkpoint), `<run.out>/log.jsonl`.
Invariant: the loss is the weighted mean over all labelled positions of the global batch,
so one process, several processes and accumulation give the same gradient; a run killed and
resumed ends with the weights of an undisturbed one.
"""

import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PrinterCallback, Trainer, TrainingArguments

from vlm_tsi.config import TrainConfig
from vlm_tsi.errors import UserError, is_disk_full
from vlm_tsi.files import claimed, writable_folder, write_jsonl
from vlm_tsi.model.fingerprint import encoder_key
from vlm_tsi.model.loading import save_checkpoint
from vlm_tsi.model.vlm import VlmTsiModel
from vlm_tsi.quiet import quiet_libraries
from vlm_tsi.sequence.collate import collate
from vlm_tsi.sequence.interleave import IGNORE
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.training.build import Built, build
from vlm_tsi.training.callbacks import LogLastStep, SaveOnInterrupt, ShowProgress
from vlm_tsi.training.checks import (
    check_inputs,
    check_reporter,
    check_trainable,
    keep_settings,
    resume_point,
)
from vlm_tsi.training.data import (
    CaptionDataset,
    EpochOrder,
    StoreFrames,
    StreamDataset,
    VideoFrames,
)
from vlm_tsi.video.features import FeatureStore


class TsiTrainer(Trainer):
    """Trainer whose divisor is the weight of the labels, not their number."""

    def _get_num_items_in_batch(self, batch_samples: list, device: torch.device) -> Any:
        if not batch_samples:
            return None
        total = sum((b["label_weights"] * (b["labels"] != IGNORE)).sum() for b in batch_samples)
        total = torch.as_tensor(total, device=device)
        return self.accelerator.gather(total).sum() if self.args.world_size > 1 else total

    def _get_train_sampler(self, train_dataset: Any = None) -> EpochOrder:
        args = self.args
        dataset: Any = self.train_dataset if train_dataset is None else train_dataset
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        lengths = getattr(dataset, "lengths", None)
        return EpochOrder(len(dataset), batch, args.seed, lengths)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """A step; a loss that is no number ends the run before it spoils a checkpoint."""
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss).all():
            problem = f"is {loss.item()} in step {self.state.global_step + 1}"
            raise UserError("loss", problem, "lower optim.lr or look at the data of this step")
        return loss


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
        ddp_find_unused_parameters=False,
        label_names=["labels"],
        disable_tqdm=True,
        run_name=Path(run.out).name,
        use_cpu=not torch.cuda.is_available(),
    )


def run_training(config: TrainConfig) -> int:
    """Train, save, and say where. Returns 0, or 130 after Ctrl-C.

    Raises:
        UserError: nothing to train on, or another run is at work in the same folder.
    """
    quiet_libraries()
    check_reporter(config)
    check_inputs(config)
    out = writable_folder(config.run.out)
    if int(os.environ.get("RANK", "0")):  # the first process holds the claim for all
        return _run(config, out)
    with claimed(out, wait=False) as ours:
        if not ours:
            raise UserError(out, "another run is at work in it", "choose another run.out")
        return _run(config, out)


def _run(config: TrainConfig, out: Path) -> int:
    resume = resume_point(config, out)
    built = build(config)
    dataset = make_dataset(config, built.model, built.tokenizer)
    check_trainable(dataset)
    trainer, interrupt = make_trainer(config, built, dataset)
    is_first = trainer.is_world_process_zero()
    if is_first:
        keep_settings(config, out)
    if is_first and (line := unknown_words(dataset, built.tokenizer)):
        print(line, file=sys.stderr)
    began = time.monotonic()
    _train(trainer, resume, out)
    if interrupt.asked:
        if is_first:
            print(f"interrupted: checkpoint saved in {out}; go on with run.resume=true")
        return 130
    if is_first:
        _finish(config, built, trainer, dataset, time.monotonic() - began, out)
    return 0


def unknown_words(dataset: Any, tokenizer: Any) -> str | None:
    """A warning if the tokenizer does not know words of the data (small vocabularies)."""
    unknown = tokenizer.unk_token_id
    if unknown is None or not isinstance(dataset, StreamDataset):
        return None
    total = sum(len(sequence) for sequence, _ in dataset.rows)
    count = sum(int((sequence.ids_L == unknown).sum()) for sequence, _ in dataset.rows)
    if not count:
        return None
    mend = "make one with python -m data_prep.tokenizer"
    return f"warning: {count} of {total} positions are words that the tokenizer lacks; {mend}"


def make_trainer(
    config: TrainConfig, built: Built, dataset: Any
) -> tuple[TsiTrainer, SaveOnInterrupt]:
    """The trainer with our callbacks."""
    interrupt = SaveOnInterrupt()
    trainer = TsiTrainer(
        model=built.trained,
        args=training_arguments(config),
        train_dataset=dataset,
        data_collator=collate,
        callbacks=[interrupt, LogLastStep(), ShowProgress()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer, interrupt


def _train(trainer: TsiTrainer, resume: str | None, out: Path) -> None:
    try:
        trainer.train(resume_from_checkpoint=resume)
    except (OSError, RuntimeError, SafetensorError) as err:
        if is_disk_full(err):
            mend = "free some, then go on with run.resume=true"
            raise UserError(out, "no space left for a checkpoint", mend) from err
        raise
    finally:
        for callback in trainer.callback_handler.callbacks:
            if isinstance(callback, ShowProgress):
                callback.close()
            elif isinstance(callback, SaveOnInterrupt):
                callback.give_back()


def _finish(
    config: TrainConfig, built: Built, trainer: Trainer, dataset: Any, seconds: float, out: Path
) -> None:
    notes = {
        "config": asdict(config),
        "samples": len(dataset),
        "left_out": dict(dataset.left_out.counts),
        "trained_parameters": sum(p.numel() for p in built.trained.parameters() if p.requires_grad),
        "parameters": sum(p.numel() for p in built.model.parameters()),
        "world_size": trainer.args.world_size,
        "steps": trainer.state.global_step,
        "seconds": round(seconds, 1),
    }
    model = trainer.accelerator.unwrap_model(trainer.model)
    if config.lora.rank and not config.model.base:  # no folder to name as the adapter's base
        model = model.merge_and_unload()
    save_checkpoint(out / "model", model, built.tokenizer, built.model.config, notes)
    write_jsonl(out / "log.jsonl", [r for r in trainer.state.log_history if "loss" in r])
    done = f"saved {out / 'model'} after {notes['steps']} steps, {seconds:.0f} s"
    print(f"{done}; left out: {dataset.left_out}")
