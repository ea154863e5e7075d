"""What happens beside a training step: progress lines, and saving when interrupted.

Input: transformers' callback calls. Output: lines and a bar on stderr; a checkpoint after
Ctrl-C or SIGTERM. Invariant: all processes of a run stop after the same step.
"""

import signal
import threading
import time
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from torch import distributed
from transformers import TrainerCallback

from vlm_tsi import stopping

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SaveOnInterrupt(TrainerCallback):
    """The first Ctrl-C (or SIGTERM) saves after the running step; a later one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Catch the signals from here on (only a main thread can)."""
        if threading.current_thread() is threading.main_thread():
            self._before = {s: signal.signal(s, self._ask) for s in _SIGNALS}

    def _ask(self, number: int, frame: object) -> None:
        if not self.asked:
            self.asked, self._since = True, time.monotonic()
        elif time.monotonic() - self._since > stopping.REPEAT:
            self.give_back()
            signal.raise_signal(number)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save and stop if any process was asked to."""
        if args.world_size > 1:
            asked = torch.tensor(float(self.asked), device=args.device)
            distributed.all_reduce(asked, op=distributed.ReduceOp.MAX)
            self.asked = bool(asked)
        if self.asked:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Give the signals back."""
        self.give_back()

    def give_back(self) -> None:
        """Put the former handlers back; also after a run that failed."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


class LogLastStep(TrainerCallback):
    """The last step is logged, however short the run."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask for it."""
        if state.global_step >= state.max_steps or control.should_training_stop:
            control.should_log = True


class ShowProgress(TrainerCallback):
    """A bar where stderr is a terminal, and one line a log step everywhere."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), "steps, left", TimeRemainingColumn())
        self.bar = Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        )
        self.task = self.bar.add_task("train", total=None)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Show the bar, from the resumed step on."""
        self.bar.update(self.task, total=state.max_steps, completed=state.global_step)
        if state.is_world_process_zero:
            self.bar.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict | None = None, **kwargs: Any
    ) -> None:
        """One line: step, epoch, loss, learning rate, gradient norm."""
        if state.is_world_process_zero and logs and "loss" in logs:
            line = (
                f"step {state.global_step}/{state.max_steps}  epoch {logs['epoch']:.2f}  "
                f"loss {logs['loss']:.4f}  lr {logs['learning_rate']:.2e}  "
                f"grad {logs.get('grad_norm', 0.0):.2f}"
            )
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away, whatever happened."""
        self.bar.stop()
