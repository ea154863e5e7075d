"""What is looked at before a run: settings, inputs, an earlier run in the same folder.

Input: a `TrainConfig`, the run's folder, the dataset. Output: where to resume, or a UserError.
Invariant: what can be wrong is told before the first step; a run goes on only with the
settings that it began with.
"""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from vlm_tsi.config import TrainConfig
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_object, write_json
from vlm_tsi.sequence.interleave import IGNORE, InterleavedSequence
from vlm_tsi.sequence.tokens import StreamTokens
from vlm_tsi.training.data import CaptionDataset, StreamDataset

SETTINGS = "settings.json"
FREE = ("optim.epochs", "optim.max_steps")
"""What may change when a run goes on (to train longer), beside `run.*` but for its seed."""


def check_reporter(config: TrainConfig) -> None:
    """Make sure that wandb is there if it is wanted, and will not ask in mid-run."""
    if config.run.report_to != "wandb":
        return
    try:
        import wandb  # noqa: F401
    except ImportError as err:
        mend = "pip install vlm-tsi[track], or set run.report_to=none"
        raise UserError("run.report_to", "wandb is not installed", mend) from err
    os.environ.setdefault("WANDB_PROJECT", "vlm-tsi")
    if not os.environ.get("WANDB_API_KEY") and not (Path.home() / ".netrc").exists():
        os.environ.setdefault("WANDB_MODE", "offline")


def check_inputs(config: TrainConfig) -> None:
    """Name a missing file before a model is loaded."""
    for name in ("timelines", "captions"):
        for path in getattr(config.data, name):
            if not Path(path).is_file():
                raise UserError(f"data.{name}: {path}", "is not there", "check the path")
    if config.run.deepspeed is not None:
        read_object(config.run.deepspeed)


def check_trainable(dataset: StreamDataset | CaptionDataset) -> None:
    """Refuse a dataset that nothing could be learned from.

    Raises:
        UserError: no sample, or none with a label.
    """
    left_out = f" (left out: {dataset.left_out})" if dataset.left_out.counts else ""
    if not len(dataset):
        mend = "name a file that has some, or look at why they were left out"
        raise UserError("data", f"holds no sample to train on{left_out}", mend)
    if isinstance(dataset, StreamDataset) and not any(
        _has_words(s, dataset.tokens) for s, _ in dataset.rows
    ):
        problem = f"the assistant says nothing in any of {len(dataset)} samples{left_out}"
        raise UserError("data", problem, "give timelines in which it speaks")


def _has_words(sequence: InterleavedSequence, tokens: StreamTokens) -> bool:
    """Whether any label is a word of the assistant's; silence alone teaches silence."""
    is_word_L = ~np.isin(sequence.labels_L, (IGNORE, tokens.bos_id, tokens.eos_id))
    return bool((is_word_L & (sequence.weights_L > 0)).any())


def keep_settings(config: TrainConfig, out: Path) -> None:
    """Note what a run began with, unless that is known."""
    if not (config.run.resume and (out / SETTINGS).is_file()):
        write_json(out / SETTINGS, _settings(config))


def _settings(config: TrainConfig) -> dict[str, Any]:
    """What the weights depend on, under dotted names; a part's own config is one value."""
    rooms = {room: dict(values) for room, values in asdict(config).items()}
    settings = {f"{room}.{key}": value for room, v in rooms.items() for key, value in v.items()}
    for key in ("data.timelines", "data.captions"):
        settings[key] = [str(Path(p).resolve()) for p in settings[key]]
    for key in ("data.store", "model.base"):
        settings[key] = settings[key] and str(Path(settings[key]).resolve())
    settings["processes"] = int(os.environ.get("WORLD_SIZE", "1"))
    return {k: v for k, v in settings.items() if not k.startswith("run.") or k == "run.seed"}


def resume_point(config: TrainConfig, out: Path) -> str | None:
    """The newest whole checkpoint if the run is to resume; none may be there if not.

    The trainer's state is written last, so a checkpoint without it was cut short.

    Raises:
        UserError: an earlier run's checkpoint that is not to be resumed, or was made with
            other settings.
    """
    numbers = {p: p.name.rpartition("-")[2] for p in out.glob("checkpoint-*")}
    found = sorted((p for p, n in numbers.items() if n.isdecimal()), key=lambda p: int(numbers[p]))
    if found and not config.run.resume:
        problem = f"holds {found[-1].name} of an earlier run"
        raise UserError(out, problem, "set run.resume=true, or choose another run.out")
    whole = [str(p) for p in found if _is_whole(p)]
    if whole:
        _check_same_run(config, out)
    elif config.run.resume:
        print(f"{out}: no checkpoint to go on from; the run begins anew", file=sys.stderr)
    return whole[-1] if whole else None


def _is_whole(checkpoint: Path) -> bool:
    try:
        return "global_step" in read_object(checkpoint / "trainer_state.json")
    except UserError:
        return False


def _check_same_run(config: TrainConfig, out: Path) -> None:
    """Refuse other settings than the run began with: its weights would be of neither."""
    settings = out / SETTINGS
    if not settings.is_file():  # begun before settings were kept
        return
    before, now = read_object(settings), _settings(config)
    for key in sorted(before.keys() & now.keys()):  # settings may have come or gone since
        if before[key] == now[key]:
            continue
        problem = f"is {now[key]!r:.80}, the run in {out} began with {before[key]!r:.80}"
        if key not in FREE:
            raise UserError(key, problem, "set it back, or choose another run.out")
        print(f"warning: {key} {problem}: the learning rate goes on on another curve",
              file=sys.stderr)  # fmt: skip
