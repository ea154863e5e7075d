"""Many independent tasks: side by side, resumable, shared between processes and machines.

Input: tasks (a name, the file each one leaves, a payload) and a function of the payload.
Output: what each task left, in the order of the tasks.
Invariant: a task's file appears whole or not at all, is made once however many processes
share the folder, and does not depend on the number of workers; one task's failure is its own
line, not a stop, and is tried again by the next run; what is set aside loses nothing.
"""

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar

from rich.console import Console
from rich.progress import track

from data_prep.common.folders import visible_files
from data_prep.common.options import Options
from data_prep.common.report import Tally
from vlm_tsi.errors import UserError, os_error
from vlm_tsi.files import claimed, read_json, write_json

MADE_BY, EARLIER = "made_by", ".earlier"
GONE = "made earlier of an input that is gone: set aside (.earlier)"
BEYOND = "made earlier, beyond --limit: left in place"
In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work.

    Attributes:
        name: what progress and reports call it.
        path: the JSON file that it leaves.
        payload: what the function is given (must pickle).
        source: digest of the input's content, where the payload only names a file: what was
            made of other content is made again.
    """

    name: str
    path: Path
    payload: Any
    source: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task.

    Attributes:
        task: which.
        state: `done` now, `kept` from before, or `failed` (`busy` never leaves this module).
        result: the JSON object that it left; None where it failed.
        problem: why it failed.
    """

    task: Task
    state: Literal["done", "kept", "failed", "busy"]
    result: dict[str, Any] | None = None
    problem: str = ""


def run_tasks(
    tasks: Sequence[Task],
    work: Callable[[Any], dict[str, Any]],
    options: Options,
    settings: Mapping[str, Any],
    *,
    title: str,
    gpus: float = 0,
) -> list[Outcome]:
    """Do every task that is not done yet, and give all results in order.

    Args:
        tasks: each with a path of its own.
        work: payload -> JSON object; a module-level function (or a frozen dataclass with
            `__call__`). A UserError or OSError in it fails its task alone.
        options: workers, executor, resume.
        settings: what the results depend on; a file of other settings is made again.
        title: stands beside the progress bar.
        gpus: for Ray: accelerators (or a share of one) that each task takes.
    """
    assert len({t.path for t in tasks}) == len(tasks), "two tasks leave the same file"
    job = partial(_do, work, settings_key(settings), options.resume)
    run = partial(map_tasks, options=options, gpus=gpus)
    outcomes = {t.path: o for t, o in zip(tasks, run(job, tasks, title=title), strict=True)}
    elsewhere = [t for t in tasks if outcomes[t.path].state == "busy"]
    waiting = run(partial(job, wait=True), elsewhere, title="waiting for other processes")
    outcomes |= {o.task.path: o for o in waiting}
    return [outcomes[t.path] for t in tasks]


def settings_key(settings: Mapping[str, Any]) -> str:
    """Short digest of the settings that results depend on."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest(path: str | Path) -> str:
    """Of a file's content; of one that cannot be read, a word that says so."""
    try:
        with Path(path).open("rb") as stored:
            return hashlib.file_digest(stored, "sha256").hexdigest()[:16]
    except OSError:
        return "unreadable"


def _do(
    work: Callable[[Any], dict[str, Any]], key: str, resume: bool, task: Task, wait: bool = False
) -> Outcome:
    """Do one task, in whichever process this is; `busy` if another process has it."""
    began = time.time()
    key = f"{key}-{task.source}" if task.source else key
    try:
        with claimed(task.path, wait=wait) as mine:
            if not mine:
                return Outcome(task, "busy")
            kept = _finished(task.path, key, since=None if resume or wait else began)
            if kept is None and resume:
                kept = _taken_back(task.path, key)
            if kept is not None:
                return Outcome(task, "kept", kept)
            with _set_aside(task.path):
                result = work(task.payload)
                write_json(task.path, {**result, MADE_BY: key})
            return Outcome(task, "done", result)
    except UserError as err:
        return Outcome(task, "failed", problem=str(err))
    except OSError as err:
        problem = str(os_error(err.filename or task.name, err))
        return Outcome(task, "failed", problem=problem)


@contextlib.contextmanager
def _set_aside(path: Path) -> Iterator[None]:
    """What was made before goes to `.earlier` and stays there if the block fails.

    Later steps read what is in place: nothing made of other input or settings may be.
    """
    if path.is_file():
        path.replace(_earlier(path))
    yield
    _earlier(path).unlink(missing_ok=True)


def _earlier(path: Path) -> Path:
    return path.with_name(path.name + EARLIER)


def _taken_back(path: Path, key: str) -> dict[str, Any] | None:
    """What was set aside, if these settings made it: its input has come back."""
    kept = _finished(_earlier(path), key, since=None)
    if kept is not None:
        _earlier(path).replace(path)
    return kept


def set_aside_leftovers(
    root: Path, inputs: Collection[Path], done: Collection[Path], tally: Tally
) -> None:
    """See to it that the next step reads nothing that was made of inputs that are gone.

    Such a file goes to `.earlier`, from where `--resume` takes it back should its input come
    back. What was made of inputs beyond `--limit` stays. Files that no run made are left alone.

    Args:
        root: the step's folder of files.
        inputs: the files that all inputs leave, also those beyond `--limit`.
        done: the files that this run's tasks leave.
        tally: takes notes of what lies there, whichever run put it there.
    """
    names = {path: str(path.relative_to(root)) for path in sorted(visible_files(root))}
    wanted, beyond = set(inputs), set(inputs) - set(done)
    for path, name in names.items():
        if path in beyond:
            tally.note(BEYOND, name)
        elif path.suffix == ".json" and path not in wanted and _is_made(path):
            with contextlib.suppress(FileNotFoundError):  # another process has just done it
                path.replace(_earlier(path))
            tally.note(GONE, name)
        elif path.suffix == EARLIER and path.with_suffix("") not in wanted:
            tally.note(GONE, name.removesuffix(EARLIER))


def _is_made(path: Path) -> bool:
    """Whether a run of tasks made a file."""
    try:
        record = read_json(path)
    except UserError:
        return False
    return isinstance(record, dict) and MADE_BY in record


def _finished(path: Path, key: str, since: float | None) -> dict[str, Any] | None:
    """What the file holds, if these settings made it (`since`: while we waited for it)."""
    if not path.is_file() or (since is not None and path.stat().st_mtime < since):
        return None
    try:
        record = read_json(path)
    except UserError:  # a file from elsewhere: make it again
        return None
    if not isinstance(record, dict) or record.pop(MADE_BY, None) != key:
        return None
    return record


def map_tasks(
    work: Callable[[In], Out],
    items: Sequence[In],
    options: Options,
    *,
    title: str,
    gpus: float = 0,
) -> Iterator[Out]:
    """`map` over processes or Ray, in order, with a progress bar.

    With one local worker it runs in this process. Raises UserError where a worker dies.
    """
    if options.executor == "ray":
        done = _on_ray(work, items, options.workers, gpus)
    elif options.workers == 1:
        done = map(work, items)
    else:
        done = _on_processes(work, items, options.workers)
    console = Console(stderr=True)
    return iter(track(done, title, total=len(items), console=console, disable=not items))


def _on_processes(work: Callable[[In], Out], items: Iterable[In], workers: int) -> Iterator[Out]:
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), _one_thread) as pool:
            yield from _windowed(
                lambda item: pool.submit(work, item), Future.result, items, 4 * workers
            )
    except BrokenProcessPool as err:
        mend = "give it fewer --workers (memory?), then --resume; what is finished is kept"
        raise UserError("--workers", "a worker process died", mend) from err


def _one_thread() -> None:
    """Many processes share the cores: each takes one."""
    os.environ["OMP_NUM_THREADS"] = "1"


def _on_ray(
    work: Callable[[In], Out], items: Iterable[In], workers: int, gpus: float
) -> Iterator[Out]:
    try:
        import ray
    except ImportError as err:
        mend = "pip install 'vlm-tsi[cluster]', or leave the option out"
        raise UserError("--executor ray", "Ray is not installed", mend) from err
    address = os.environ.get("RAY_ADDRESS")
    ours, handler = not ray.is_initialized(), signal.getsignal(signal.SIGTERM)
    if ours:
        cpus = None if address else workers
        ray.init(address=address, num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    try:
        remote: Any = ray.remote(num_cpus=1, num_gpus=gpus)(_call)
        yield from _windowed(partial(remote.remote, work), ray.get, items, 4 * workers)
    except ray.exceptions.WorkerCrashedError as err:
        raise UserError("--executor ray", "a worker died", "rerun with --resume") from err
    finally:
        if ours:
            ray.shutdown()
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)  # Ray leaves its own behind


def _call(work: Callable[[In], Out], item: In) -> Out:
    return work(item)


def _windowed(
    submit: Callable[[Any], Any],
    result: Callable[[Any], Any],
    items: Iterable[Any],
    ahead: int,
) -> Iterator[Any]:
    """Results in order, with at most `ahead` items under way."""
    waiting: deque[Any] = deque()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) >= ahead:
            yield result(waiting.popleft())
    while waiting:
        yield result(waiting.popleft())
