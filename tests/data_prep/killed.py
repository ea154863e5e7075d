"""Run a data-prep command, kill it at some file, run it again.

Input: a module's arguments without its output folder. Output: files by name. Invariant:
whatever a killed run leaves is whole, and something was finished and something was not.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start(args: Sequence[str], out: Path, name: str = "--out") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *args, name, str(out)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def files(folder: Path, hidden: bool = False) -> dict[str, bytes]:
    """What a folder shows; locks and temporary files of killed writers are hidden."""
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if hidden or not any(part.startswith(".") for part in Path(name).parts)
    }


def assert_killed_and_resumed_the_bytes_are_the_same(
    args: Sequence[str], tmp_path: Path, name: str = "--out"
) -> None:
    """Kill at a file drawn by chance, kill the resumed run at its first one, then let it end."""
    calm, out = tmp_path / "calm", tmp_path / "killed"
    assert start(args, calm, name).wait(timeout=300) == 0
    wanted = files(calm)
    assert "report.json" in {Path(file).name for file in wanted}
    at = random.Random(args[-1]).randint(2, len(wanted))
    for moment in (at, 1):
        words = ["tests.data_prep.die_at", str(moment), str(out), *args, "--resume"]
        assert start(words, out, name).wait(timeout=300) == -signal.SIGKILL
        left = files(out)
        assert left.items() <= wanted.items(), "a file is not whole"
        assert 0 < len(left) < len(wanted), f"{len(left)} of {len(wanted)} files finished"
    assert start([*args, "--resume"], out, name).wait(timeout=300) == 0
    assert files(out, hidden=True) == wanted, "other bytes, or temporary files were left"
