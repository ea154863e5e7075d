"""Run a command as it is, and kill it as one of its files is about to appear.

    python -m tests.data_prep.die_at 3 OUT MODULE OPTION…

Input: which file (from 1, counted as they appear below OUT), then the command. Output: what it
leaves. Invariant: the file it dies at is half written, as a kill in its middle leaves it.
"""

import os
import runpy
import signal
import sys
from typing import Any


def main() -> None:
    """Count the files, and die at the chosen one."""
    at, out, module, *words = sys.argv[1:]
    left, move, below = int(at), os.replace, os.path.realpath(out)

    def moved(source: Any, target: Any, **options: Any) -> None:
        nonlocal left
        left -= os.path.realpath(target).startswith(below)
        if left == 0:
            os.truncate(source, os.path.getsize(source) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        move(source, target, **options)

    os.replace = moved
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
