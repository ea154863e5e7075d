"""How a result was made: the command, and the versions of what ran.

Input: a command's name and words. Output: plain values for a result file. Invariant: nothing
here depends on the time or the machine's names, so that the same run gives the same bytes.
"""

import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGES = (
    "vlm-tsi", "numpy", "scipy", "torch", "transformers", "peft", "accelerate", "av",
    "sentence-transformers",
)  # fmt: skip


def making(module: str, argv: Sequence[str] | None) -> dict[str, Any]:
    """`command` and `versions` for a result file; `argv` None means the process' own words."""
    words = sys.argv[1:] if argv is None else argv
    return {"command": shlex.join(["python", "-m", module, *words]), "versions": versions()}


def versions() -> dict[str, str]:
    """Python's, the packages' that are installed, and the commit of a checkout."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    commit = _commit(Path(__file__).resolve().parents[1])
    return found | ({"commit": commit} if commit else {})


def _commit(root: Path) -> str:
    """The checkout's commit, and whether files differ from it; nothing outside a checkout."""
    if not (root / ".git").exists():
        return ""
    told = [_git(root, *words) for words in (("rev-parse", "--short", "HEAD"), ("diff", "HEAD"))]
    return told[0].strip() + (" with changes" if told[0] and told[1] else "")


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
