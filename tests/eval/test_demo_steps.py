"""The demo's steps: what is done stays done, what changed is done again."""

import json
import sys
from pathlib import Path

import pytest

from eval import demo_steps
from eval.demo import Demo
from eval.demo_plan import PRESETS, SCHEMES, WORLDS
from eval.demo_steps import Steps
from vlm_tsi.errors import UserError


@pytest.fixture
def tally(tmp_path):
    """A command that appends a line, and how often it ran."""
    log = tmp_path / "log"
    log.write_text("")
    command = [sys.executable, "-c", f"open({str(log)!r}, 'a').write('x')"]
    return command, lambda: len(log.read_text())


def test_a_step_with_the_same_settings_runs_once_and_keeps_its_seconds(tmp_path, tally):
    command, times = tally
    for _ in range(2):
        steps = Steps(tmp_path / "run", total=1)
        steps.run("a", [command])
    assert times() == 1
    assert steps.seconds["a"] == json.loads((tmp_path / "run/.steps/a.json").read_text())["seconds"]


def test_a_changed_yaml_or_an_earlier_step_or_other_code_makes_a_step_run_again(
    tmp_path, tally, monkeypatch
):
    command, times = tally
    config = tmp_path / "c.yaml"

    def run(first="1"):
        steps = Steps(tmp_path / "run", total=2)
        steps.call("first", lambda: None, first)
        steps.run("a", [[*command, str(config)]])

    config.write_text("a: 1")
    run()
    config.write_text("a: 2")
    run()
    assert times() == 2
    run(first="2")
    assert times() == 3
    monkeypatch.setattr(demo_steps, "sources", lambda: "other code")
    run(first="2")
    assert times() == 4


def test_a_step_that_fails_is_named_and_leaves_no_stamp(tmp_path):
    steps = Steps(tmp_path / "run", total=1)
    with pytest.raises(UserError, match="ended with code 3"):
        steps.run("a", [[sys.executable, "-c", "raise SystemExit(3)"]])
    assert not (tmp_path / "run/.steps/a.json").exists()


def test_both_schemes_start_from_the_same_base_for_the_same_updates(tmp_path):
    demo = Demo("full", tmp_path, tmp_path / "data", seed=3)
    tsi, turn_based = (demo.stage(s, 1) for s in SCHEMES)
    words = [[w for w in c if "run.out" not in w and ".yaml" not in w] for c in (tsi, turn_based)]
    assert words[0] == words[1] and "run.seed=3" in words[0]
    texts = [Path(f"configs/demo/{s}.yaml").read_text() for s in SCHEMES]
    for key in ("max_steps", "batch_size", "rank", "alpha", "weight_decay"):  # lr: each its best
        values = [[line for line in t.splitlines() if key in line] for t in texts]
        assert values[0] == values[1], key


def test_no_split_shares_a_clip_with_another(tmp_path):
    from data_prep.worlds import clip_seed

    demo = Demo("full", tmp_path, tmp_path / "data", seed=0)
    for world in WORLDS:
        seeds = []
        for split, count in PRESETS["full"].clips[world].items():
            command = demo.world(world, split)
            seed = int(command[command.index("--seed") + 1])
            seeds += [clip_seed(world, split, seed, i) for i in range(count)]
        assert len(set(seeds)) == len(seeds)
