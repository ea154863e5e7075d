"""Run a data-prep command, kill it at some moment, run it again.

Input: a module's arguments (without --out). Output: files by name. Invariant: whatever a
killed run leaves is whole.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start(args: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *args, "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def files(folder: Path) -> dict[str, bytes]:
    """What a folder shows; temporary files of killed writers are hidden."""
    return {p.name: p.read_bytes() for p in folder.glob("*.json*")}


def assert_whole_or_not_at_all(
    args: Sequence[str], tmp_path: Path, delays: Sequence[float]
) -> None:
    """Kill runs some seconds after their first sign of life; the last one is left to end."""
    assert start(args, tmp_path / "calm").wait(timeout=120) == 0
    wanted = files(tmp_path / "calm")
    assert "report.json" in wanted
    out, cut_short = tmp_path / "killed", 0
    for delay in delays:
        run = start([*args, "--resume"], out)
        while not out.exists() and run.poll() is None:
            time.sleep(0.002)
        time.sleep(delay)
        os.kill(run.pid, signal.SIGKILL)
        cut_short += run.wait(timeout=60) == -signal.SIGKILL
        assert files(out).items() <= wanted.items()
    assert cut_short, "every run ended before it was killed"
    assert start([*args, "--resume"], out).wait(timeout=120) == 0
    assert files(out) == wanted
    assert {p.name for p in out.iterdir()} == set(wanted), "temporary files were left"
