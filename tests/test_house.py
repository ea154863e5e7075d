"""The house's own commands: targets, set-up that fails safely, pins, CI.

A stand-in for Python (a shell script) plays venv, pip and the demo, so nothing is
installed here.
"""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TARGETS = [
    *("help", "setup", "dev", "test", "weights", "whisperx", "demo", "ablation", "seeds"),
    *("lint", "format", "typecheck", "imports", "check", "clean"),
]
PYTHON = """#!/usr/bin/env bash
echo "$*" >> "$LOG"
case "$*" in
  "-c import sys"*) exit "${OLD:-0}" ;;
  "-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"pip --no-input install"*) exit "${PIP:-0}" ;;
  "scripts/fetch_weights.py --only all-mpnet-base-v2") exit "${MPNET:-0}" ;;
  scripts/fetch_weights.py*) exit "${WEIGHTS:-0}" ;;
esac
"""
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


class House:
    """A copy of the Makefile with a stand-in for Python."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        for path in (ROOT / "Makefile", ROOT / "pyproject.toml", *ROOT.glob("requirements-*.txt")):
            shutil.copy(path, folder)
        (folder / "python").write_text(PYTHON)
        (folder / "python").chmod(0o755)

    def make(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        drop = ("MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS", "PRESET", "ARGS")
        clean = {k: v for k, v in os.environ.items() if k not in drop}
        return subprocess.run(
            ["make", "PYTHON=./python", *args],
            cwd=self.folder,
            env={**clean, "LOG": str(self.log), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self) -> str:
        """What was asked of Python since the last look."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return text

    def stamps(self) -> list[str]:
        return sorted(p.name for p in self.folder.glob(".venv/.stamp-*"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@needs_make
def test_help_is_the_default_and_names_every_target(house: House) -> None:
    shown = house.make("help")
    assert shown.returncode == 0
    assert house.make().stdout == shown.stdout
    assert re.findall(r"^  make (\w+) +\S", shown.stdout, re.M) == TARGETS
    assert house.calls() == ""


@needs_make
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_planned(target: str, house: House) -> None:
    plan = house.make("-n", target)
    assert plan.returncode == 0, plan.stderr


@needs_make
def test_setup_runs_once_until_the_pins_change(house: House) -> None:
    assert house.make("setup").returncode == 0
    assert "install --progress-bar off -r requirements-cpu.txt" in house.calls()
    assert house.make("setup").returncode == 0
    assert house.calls() == ""
    later = (house.folder / ".venv/.stamp-package").stat().st_mtime + 5
    os.utime(house.folder / "requirements-cpu.txt", (later, later))
    assert house.make("setup").returncode == 0
    assert "requirements-cpu.txt" in house.calls()


@needs_make
def test_a_failed_pip_leaves_no_stamp(house: House) -> None:
    assert house.make("test", PIP="1").returncode != 0
    assert house.stamps() == []
    assert "pytest" not in house.calls()
    assert house.make("test").returncode == 0
    assert house.stamps() == [".stamp-core", ".stamp-dev", ".stamp-package"]
    assert "-m pytest" in house.calls()


@needs_make
def test_an_old_or_missing_python_is_told_in_one_line(house: House) -> None:
    (house.folder / "python").write_text(
        f"#!/usr/bin/env bash\nexec '{shutil.which('python3')}' -c "
        '"import sys; sys.version_info = (3, 9, 1); exec(sys.argv[1])" "$2"\n'
    )
    old = house.make("setup")
    assert old.returncode != 0
    told = "error: ./python is Python 3.9; vlm-tsi needs 3.11 or newer"
    assert [line for line in old.stderr.splitlines() if told in line]
    assert "Traceback" not in old.stderr
    assert "error: no nopython found" in house.make("setup", "PYTHON=nopython").stderr
    assert house.stamps() == []


@needs_make
def test_the_demo_goes_on_with_the_smaller_embedder_and_stops_without_any(house: House) -> None:
    done = house.make("demo", "PRESET=smoke", MPNET="2")
    assert done.returncode == 0, done.stderr
    assert "trying the smaller one" in done.stdout
    calls = house.calls()
    assert "-m eval.demo --preset smoke\n" in calls
    assert calls.endswith("scripts/check_result.py runs/smoke\n")
    assert house.make("demo", MPNET="2", WEIGHTS="2").returncode != 0
    assert "eval.demo" not in house.calls()
    assert house.make("weights", WEIGHTS="2").returncode != 0
    assert house.make("ablation").returncode == 0
    assert house.calls().endswith("-m eval.demo --ablation\n")


def test_every_requirement_is_pinned_and_declared() -> None:
    pins: dict[str, str] = {}
    for name in ("requirements-cpu.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text().splitlines():
            if line and not line.startswith("#"):
                assert re.fullmatch(r"[\w.-]+==[\w.]+", line), f"{name}: {line}"
                package, version = line.split("==")
                pins[package.lower()] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=\[ ]", d)[0].lower() for d in declared}
    assert names <= pins.keys()


def run_ci(folder: Path, fails: str) -> subprocess.CompletedProcess[str]:
    """Run .ci/run with a stand-in `make` that fails at one target."""
    (folder / ".ci").mkdir()
    (folder / "bin").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    fake = folder / "bin" / "make"
    fake.write_text(f'#!/bin/sh\necho "ran $*"\n[ "$1" != "{fails}" ] || exit 7\n')
    fake.chmod(0o755)
    return subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        env={**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_ci_runs_every_step_in_order(tmp_path: Path) -> None:
    done = run_ci(tmp_path, fails="nothing")
    assert done.returncode == 0, done.stderr
    ran = re.findall(r"^ran (.*)", done.stdout, re.M)
    assert ran == ["weights", "check", "test", "test-slow", "demo PRESET=smoke"]
    assert len(re.findall(r"^--- .*: done in \d+ s$", done.stdout, re.M)) == 5
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("fails", ["weights", "check", "test", "demo"])
def test_ci_stops_at_the_first_failure(fails: str, tmp_path: Path) -> None:
    done = run_ci(tmp_path, fails)
    assert done.returncode == 7
    assert re.findall(r"^ran (\w+)", done.stdout, re.M)[-1] == fails
    assert "FAILED (exit code 7)" in done.stdout
