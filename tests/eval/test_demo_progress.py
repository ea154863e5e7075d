"""Trainings side by side show how far they are."""

import io
import time

from rich.console import Console

from eval import demo_progress
from eval.demo_progress import followed, line, steps_done


def test_the_last_step_counts(tmp_path):
    log = tmp_path / "a.log"
    assert steps_done(log) is None
    log.write_text("loading\nstep 20/600  epoch 1\nnot a step 9/9\nstep 40/600  epoch 2\nwarn")
    assert steps_done(log) == (40, 600)


def test_a_line_names_each():
    assert line(["a", "b"], [(20, 600), None]) == "a 20/600, b starting"


def test_without_a_terminal_a_line_comes_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(demo_progress, "EVERY", 0.01)
    monkeypatch.setattr(demo_progress, "TOLD_EVERY", 0.03)
    (tmp_path / "a").write_text("step 3/4\n")
    told = io.StringIO()
    with followed([tmp_path / "a", tmp_path / "b"], ["one", "two"], Console(file=told)):
        deadline = time.monotonic() + 10
        while not told.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert told.getvalue().splitlines()[0] == "one 3/4, two starting"
