"""Runs steps, each once: stamped, resumed, kept apart when one fails.

Input: steps, in an order in which each follows what it builds on. Output: each step's files,
its log under `logs/`, a stamp (`eval/demo_steps.py`); what failed, with its reason.
Invariant: a step is run again only if its command, the content of its inputs, the code behind it
or a step that it builds on has changed, or an output is gone; one that fails or is killed leaves
no stamp, and only what builds on it is left out.
"""

import hashlib
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.common.folders import visible_files
from eval.demo_steps import Steps, console, run_command
from vlm_tsi.errors import UserError
from vlm_tsi.files import make_folder

ROOT = Path(__file__).resolve().parents[1]
_HASHED = 64 * 2**20
"""Files up to so many bytes are known by content, larger ones (videos) by size and time."""
_SCORING = ("tglg", "groups", "compare", "group_*", "scoring_options", "score_*")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command (or function) with what it reads and leaves.

    Attributes:
        name: unique, and its log's name.
        tables: which tables it is for.
        command: the words that decide what comes out; or, of a function, what it does.
        how: more words, which change nothing (`--workers`, `--resume`).
        inputs: files and folders that no step here makes.
        outputs: files that must be there for the step to count as done.
        after: steps that it builds on.
        work: the function, in place of a command.
    """

    name: str
    tables: tuple[str, ...]
    command: Sequence[str]
    how: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    after: tuple[str, ...] = ()
    work: Callable[[], None] | None = None


@dataclass
class Runner:
    """Runs steps; keeps what failed and why."""

    out: Path
    total: int
    failed: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = Steps(make_folder(self.out), total=self.total)

    def run(self, step: Step) -> None:
        """Run one, unless it is done or builds on one that failed."""
        broken = [name for name in step.after if name in self.failed]
        if broken:
            self.failed[step.name] = f"{step.name} not run: {broken[0]} failed"
            return
        log = self.out / "logs" / f"{step.name}.log"
        if not all(path.exists() for path in step.outputs):
            self._stamp(step).unlink(missing_ok=True)
        try:
            self._call(step, log)
        except UserError as err:
            why = f"{step.name}: {err.problem}"
            self.failed[step.name] = f"{why}; log: {log}" if step.work is None else str(err)
            console.print(
                f"failed: {self.failed[step.name]}", style="red", highlight=False, soft_wrap=True
            )

    def _stamp(self, step: Step) -> Path:
        return self.out / ".steps" / f"{step.name}.json"

    def _call(self, step: Step, log: Path) -> None:
        code = code_behind(step.command)
        reads = [fingerprint(path) for path in step.inputs]
        settings = [list(step.command), code, reads, [self.keys[name] for name in step.after]]
        self.steps.chain = ""  # what a step builds on stands in its settings

        def work() -> None:
            self._stamp(step).unlink(missing_ok=True)  # half done, it is of neither run
            if step.work is None:
                run_command([*step.command, *step.how], log)
            else:
                step.work()
            absent = [path for path in step.outputs if not path.exists()]
            if absent:
                raise UserError(step.name, f"left no {absent[0]}", "see its log")

        self.steps.call(step.name, work, settings)
        self.keys[step.name] = self.steps.chain


def shown(step: Step) -> str:
    """A step as a person would type it."""
    if step.work is not None:
        return f"({' '.join(step.command)})"
    words = [*step.command, *step.how]
    return shlex.join(["python" if word == sys.executable else word for word in words])


def fingerprint(path: Path) -> list[Any]:
    """What an input is: of a file its content, of a folder its files; [] where nothing is."""
    if path.is_file():
        return [[path.name, *_identity(path, 2**40)]]
    found = sorted(visible_files(path), key=str) if path.is_dir() else []
    return [[str(p.relative_to(path)), *_identity(p, _HASHED)] for p in found]


def _identity(path: Path, most: int) -> list[Any]:
    stat = path.stat()
    if stat.st_size > most or path.suffix in (".mkv", ".mp4", ".webm", ".avi"):
        return [stat.st_size, stat.st_mtime_ns]
    with path.open("rb") as stored:
        return [hashlib.file_digest(stored, "sha256").hexdigest()]


def code_behind(command: Sequence[str]) -> str:
    """Digest of the commands' own modules (what lies in `vlm_tsi` is in the stamp anyway)."""
    name = next((w for k, w in enumerate(command) if k and command[k - 1] == "-m"), "")
    room, _, module = name.partition(".")
    folder = ROOT / room
    if room == "eval":
        files = [p for pattern in _SCORING for p in folder.glob(f"{pattern}.py")]
    elif (folder / module).is_dir():
        files = [*(folder / module).glob("*.py"), *(folder / "asr").glob("*.py")]
    else:
        files = [folder / f"{module}.py"] if module else []
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()
