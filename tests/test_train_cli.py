"""train.py as a user runs it: bad keys cost no second, two processes are one, kill -9 is survived."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.training.lessons import Lessons, furthest, make_lessons, weights
from vlm_tsi.config import TrainConfig, parse_train_config, train_parser
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_json, read_jsonl

ROOT = Path(__file__).resolve().parents[1]
LORA = {"lora__rank": 4, "lora__alpha": 8, "lora__dropout": 0.1}
DATA = ["data.timelines=[x.jsonl]"]


@pytest.fixture(scope="module")
def lessons(tmp_path_factory) -> Lessons:
    return make_lessons(tmp_path_factory.mktemp("lessons"))


def train(words: list[str], launcher: tuple[str, ...] = (), **env: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *launcher, str(ROOT / "train.py"), *words],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def refused(words: list[str]) -> str:
    with pytest.raises(UserError) as err:
        parse_train_config(words)
    assert "\n" not in str(err.value)
    return str(err.value)


def test_an_unknown_key_is_one_line_and_exit_code_2() -> None:
    out, err = (process := train(["optim.lrr=1", *DATA])).communicate(timeout=60)
    assert process.returncode == 2 and out == ""
    assert err.count("\n") == 1 and "optim.lrr" in err and "Traceback" not in err


def test_reading_a_config_loads_no_torch() -> None:
    code = (
        "import sys, train; train.parse_train_config(sys.argv[1:]); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *DATA], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("optim.batch_size=many", "optim.batch_size"),
        ("optim.lr=[1]", "optim.lr"),
        ("scheme.name=other", "scheme.name"),
        ("optim.schedule=sine", "optim.schedule"),
        ("run.report_to=paper", "run.report_to"),
        ("model.vision.pth=x", "model.vision.pth"),
        ("optim.batch_size=0", "optim.batch_size"),
        ("data.fps=-1", "data.fps"),
        ("lora.dropout=1.5", "lora.dropout"),
        ("lora.rank=-1", "lora.rank"),
        ("run.seed=-1", "run.seed"),
        ("optim.max_step=3", "optim.max_step="),
        ("model.bas=x", "model.bas="),
        ("optim.max_steps=0", "optim.max_steps"),
        ("optim.max_steps=-2", "optim.max_steps"),
        ("run.out=", "run.out"),
        ("run.seed=4294967296", "run.seed"),
        ("data.limit=-1", "data.limit"),
        ("optim.max_grad_norm=-1", "optim.max_grad_norm"),
        ("optim.lr=inf", "optim.lr"),
        ("optim.lr=nan", "optim.lr"),
        ("data.captions=[y.jsonl]", "data.captions"),
        ("optim.epochs=0", "optim.epochs"),
        ("scheme.silence_weight=-1", "silence_weight"),
        ("--config=no.yaml", "no.yaml"),
    ],
)
def test_a_bad_value_names_its_key(word: str, named: str) -> None:
    assert named in refused([*DATA, word])


@pytest.mark.parametrize(
    "word",
    [
        "frame_size=32",
        "pool=2",
        "tokens_per_second=9.0",
        "vision.path=x",
        "tokenizer=x",
        "merge=true",
    ],
)
def test_what_the_base_settles_cannot_be_set_beside_it(word: str) -> None:
    told = refused([*DATA, "model.base=runs/base", f"model.{word}"])
    assert f"model.{word.split('=')[0].split('.')[0]}" in told and "settled by model.base" in told


@pytest.mark.parametrize("text", ["", "- 1\n", "a: [", "3", "!!python/object:os.system {}", "\0"])
def test_a_file_that_is_no_settings_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    for words in (["--config", str(tmp_path / "c.yaml")], [f"--config={tmp_path / 'c.yaml'}"]):
        assert str(tmp_path / "c.yaml") in refused([*words, *DATA])


def test_help_has_a_heading_for_every_group() -> None:
    text = train_parser().format_help()
    assert "<class" not in text and "LoRA on all linear layers" in text


def test_an_unknown_key_in_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("optim:\n  learning_rate: 1.0\n")
    assert "learning_rate" in refused([*DATA, f"--config={tmp_path / 'c.yaml'}"])


def test_words_go_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("optim:\n  lr: 1.0e-3\n  batch_size: 2\n")
    config = parse_train_config(["--config", str(tmp_path / "c.yaml"), *DATA, "optim.lr=3e-4"])
    assert isinstance(config, TrainConfig)
    assert (config.optim.lr, config.optim.batch_size) == (3e-4, 2)


@pytest.mark.parametrize("path", sorted((ROOT / "configs").rglob("*.yaml")), ids=lambda p: p.stem)
def test_every_training_config_parses(path: Path) -> None:
    if path.parent.name in ("stream", "deepspeed"):
        pytest.skip("not a training config")
    words = ["--config", str(path)]
    if "timelines:" not in path.read_text() and "captions:" not in path.read_text():
        words += DATA
    parse_train_config(words)


def test_two_processes_train_as_one(lessons: Lessons, tmp_path: Path) -> None:
    """Under torchrun: really two (their number is in the notes), half the batch each."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    words = lessons.words(tmp_path / "two", optim__batch_size=2)
    _, err = (process := train(words, launcher, ACCELERATE_USE_CPU="true")).communicate()
    assert process.returncode == 0, err
    one = train(lessons.words(tmp_path / "one", optim__batch_size=4))
    _, err = one.communicate()
    assert one.returncode == 0, err
    notes = read_json(tmp_path / "two" / "model" / "training.json")
    assert notes["world_size"] == 2
    curves = [
        [r["loss"] for _, r in read_jsonl(tmp_path / n / "log.jsonl")] for n in ("one", "two")
    ]
    assert curves[0] == pytest.approx(curves[1], abs=1e-4)
    assert furthest(weights(tmp_path / "one/model"), weights(tmp_path / "two/model")) < 1e-4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_under_two_processes_saves_once(
    lessons: Lessons, tmp_path: Path, number: int
) -> None:
    """The terminal tells all processes, and the launcher tells its workers again."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    words = lessons.words(tmp_path, optim__batch_size=2, optim__max_steps=5000)
    process = train(words, launcher, ACCELERATE_USE_CPU="true", PYTHONUNBUFFERED="1")
    deadline = time.monotonic() + 240
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("step 2/"):
        assert line and time.monotonic() < deadline
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    out, _ = process.communicate(timeout=240)
    assert out.count("interrupted: checkpoint saved") == 1
    assert len(list(tmp_path.glob("checkpoint-*/trainer_state.json"))) == 1


def test_kill_9_and_resume_gives_the_undisturbed_weights(lessons: Lessons, tmp_path: Path) -> None:
    settings = {"run__save_steps": 2, "optim__max_steps": 40, **LORA}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = train(lessons.words(killed, **settings))
    deadline = time.monotonic() + 240
    while not list(killed.glob("checkpoint-*/trainer_state.json")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL and not (killed / "model").exists()

    from vlm_tsi.training.run import run_training

    assert run_training(lessons.config(whole, **settings)) == 0
    assert run_training(lessons.config(killed, run__resume="true", **settings)) == 0
    assert furthest(weights(whole / "model"), weights(killed / "model")) < 1e-6
