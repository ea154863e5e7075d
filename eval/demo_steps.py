"""The demo's steps: run once, stamped, resumed.

Input: a step's name, its command (or function) and the settings it depends on. Output: the
step's files, and a stamp with its settings and seconds. Invariant: a step is not run again
only if its command, its YAML, the code and all steps before it are the same; a step that
fails leaves no stamp.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from eval.demo_progress import followed
from vlm_tsi.errors import UserError
from vlm_tsi.files import make_folder, read_json, write_json

CORES = 2
console = Console(stderr=True)


@dataclass
class Steps:
    """Runs steps in order, under one folder."""

    out: Path
    total: int
    commands: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    chain: str = ""

    def run(
        self,
        name: str,
        commands: Sequence[Sequence[str]],
        *,
        together: bool = False,
        clear: Sequence[Path] = (),
    ) -> None:
        """Run commands one after the other, or `together`, one thread each.

        `clear` names folders that a run with other settings, or a broken one, may have left;
        of trainings `together` it holds each one's folder.
        """
        self.commands += [shlex.join(_shown(c)) for c in commands]

        def work() -> None:
            for folder in clear:
                shutil.rmtree(folder, ignore_errors=True)
            if not together:
                for command in commands:
                    run_command(command, None)
                return
            logs = [self.out / "logs" / f"{name}-{i}.log" for i in range(len(commands))]
            for log in logs:
                log.unlink(missing_ok=True)
            names = [folder.name for folder in clear]
            with followed(logs, names, console), ThreadPoolExecutor(len(commands)) as pool:
                list(pool.map(run_command, commands, logs))

        configs = [Path(w).read_text() for c in commands for w in c if w.endswith(".yaml")]
        self.call(name, work, [[list(c) for c in commands], configs])

    def call(self, name: str, work: Callable[[], None], settings: object) -> None:
        """Run a function as a step; it depends on `settings` and on the steps before."""
        depends = [self.chain or sources(), name, settings]
        text = json.dumps(depends, sort_keys=True, default=str)
        self.chain = hashlib.sha256(text.encode()).hexdigest()
        stamp = self.out / ".steps" / f"{name}.json"
        if stamp.is_file() and (done := read_json(stamp))["chain"] == self.chain:
            self.seconds[name] = done["seconds"]
            console.print(f"[{len(self.seconds)}/{self.total}] {name}: done before")
            return
        console.print(f"[{len(self.seconds) + 1}/{self.total}] {name} …", style="bold")
        began = time.monotonic()
        work()
        self.seconds[name] = round(time.monotonic() - began, 1)
        write_json(stamp, {"chain": self.chain, "seconds": self.seconds[name]})


def sources() -> str:
    """Digest of the code that makes data, models and words: other code, other results."""
    root, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    commands = [root / "data_prep" / f"{n}.py" for n in ("worlds", "tokenizer", "encode_frames")]
    rooms = [p for r in ("vlm_tsi", "data_prep/common") for p in (root / r).rglob("*.py")]
    for path in sorted([*rooms, *commands]):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


def python(*words: str) -> list[str]:
    """A command on this interpreter."""
    return [sys.executable, *words]


def train(config: str, *overrides: str, processes: int = 1) -> list[str]:
    """train.py, on one process or on several (data parallel)."""
    tail = ["train.py", "--config", config, *overrides]
    if processes == 1:
        return python(*tail)
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes))
    return python(*launch, *tail)


def run_command(command: Sequence[str], log: Path | None) -> None:
    """Run a command with one thread; to the terminal, or to a log file."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if "torch.distributed.run" in command:
        env["ACCELERATE_USE_CPU"] = "true"
    if log is None:
        code = subprocess.run(command, env=env, check=False).returncode
    else:
        make_folder(log.parent)
        with log.open("w") as out:
            code = subprocess.run(command, env=env, check=False, stdout=out, stderr=out).returncode
    if code:
        where = f"see {log}" if log else "see above"
        raise UserError(shlex.join(_shown(command)), f"ended with code {code}", where)


def _shown(command: Sequence[str]) -> list[str]:
    """The command as a person would type it."""
    return ["python" if word == sys.executable else word for word in command]
