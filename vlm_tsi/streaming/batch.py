"""The TGLG protocol over a file of datapoints, with one or several processes.

Input: a model's folder, timeline JSONL (videos beside it), settings.
Output: for each datapoint, in the file's order, what was said, or why it could not stream.
Invariant: order, processes and resumption change no byte of what is said; each process
computes with one thread; a datapoint that cannot stream never stops the others.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, groupby
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any

import torch

from vlm_tsi.errors import UserError
from vlm_tsi.model.fingerprint import encoder_key
from vlm_tsi.model.frames import Frames, encode_video, stored_frames
from vlm_tsi.model.loading import Loaded, load_checkpoint
from vlm_tsi.quiet import quiet_libraries
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.streaming.clock import LatencyLog
from vlm_tsi.streaming.journal import Journal, fingerprint_of
from vlm_tsi.streaming.protocol import evaluation_window, stream_timeline
from vlm_tsi.streaming.settings import Rounding, SchemeName, StreamSettings, decoding_for, resolved
from vlm_tsi.timeline import (
    Generated,
    Timeline,
    generated_from_dict,
    read_timelines,
)
from vlm_tsi.video.features import FeatureStore


@dataclass(frozen=True)
class Source:
    """Where model and features come from, and the device that the model runs on."""

    model: str
    base: str | None = None
    store: str | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Job:
    """The datapoints over one video; frames are needed up to `end` (s)."""

    video: Path
    timelines: tuple[Timeline, ...]
    end: float


@dataclass(frozen=True)
class Streamed:
    """One datapoint's result: utterances, or an error; seconds spent and streamed."""

    video_id: str
    utterances: list[Generated] = field(default_factory=list)
    error: str | None = None
    warnings: list[str] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    encoding: float = 0.0
    window: float = 0.0
    evicted: dict[str, int] = field(default_factory=dict)


class Worker:
    """Holds a model and streams datapoints through it."""

    def __init__(self, source: Source, settings: StreamSettings) -> None:
        torch.set_num_threads(1)
        loaded = load(source)
        self.model, tokenizer = loaded.model, loaded.tokenizer
        self.settings = resolved(settings, self.model.config)
        self.encode = encoder(tokenizer)
        self.decode = text_of(tokenizer)
        assert self.settings.fps is not None
        self.fps = self.settings.fps
        self.store = (
            FeatureStore(source.store, encoder_key(self.model, self.fps)) if source.store else None
        )

    def run(self, job: Job) -> list[Streamed]:
        """All datapoints of a job; a user's error is a result, ours is raised."""
        warnings: list[str] = []
        began = time.perf_counter()
        try:
            frames = self._frames(job, warnings)
        except UserError as err:
            return [Streamed(t.video_id, error=str(err)) for t in job.timelines]
        encoding = (time.perf_counter() - began) / len(job.timelines)
        done = [self._stream(t, frames) for t in job.timelines]
        short = self._too_short(job, frames)
        return [replace(d, encoding=encoding, warnings=[*warnings, *short]) for d in done]

    def _too_short(self, job: Job, frames: Frames) -> list[str]:
        """A warning where the video ends before the datapoints over it do."""
        end, last = job.end, float(frames[0][-1])
        if last + 2 / self.fps >= end:
            return []
        return [f"{job.video}: its last frame is at {last:.2f} s, its datapoints last to {end:.2f}"]

    def _frames(self, job: Job, warnings: list[str]) -> Frames:
        if self.store is not None:
            return stored_frames(self.model, job.video, self.fps, self.store, warnings.append)
        return encode_video(self.model, job.video, self.fps, job.end, warnings.append)

    def _stream(self, timeline: Timeline, frames: Frames) -> Streamed:
        log = LatencyLog()
        if self.settings.system is not None:
            timeline = replace(timeline, system=self.settings.system)
        decoding = decoding_for(self.settings, self.model, timeline.video_id)
        recorder = stream_timeline(
            self.model, self.encode, self.decode, timeline, *frames, decoding, log=log
        )
        start, end = evaluation_window(timeline)
        return Streamed(
            timeline.video_id, recorder.finished, steps=log.durations, window=end - start,
            evicted=log.evicted,
        )  # fmt: skip


def load(source: Source) -> Loaded:
    """Load a checkpoint onto its device.

    Raises:
        UserError: it cannot be loaded, or the machine lacks the device.
    """
    try:
        torch.empty(0, device=source.device)
    except (RuntimeError, AssertionError) as err:
        problem = f"{source.device!r} is not to be had ({str(err).splitlines()[0]})"
        raise UserError("device", problem, "use cpu, or cuda where there is one") from err
    if torch.device(source.device).type == "meta":
        raise UserError("device", "meta computes nothing", "use cpu, or cuda where there is one")
    quiet_libraries()
    loaded = load_checkpoint(source.model, source.base)
    torch.nn.Module.to(loaded.model, source.device)
    return loaded


def text_of(tokenizer: Any) -> Callable[[list[int]], str]:
    """Token ids -> text, special tokens left out."""
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True))


def make_jobs(path: Path, timelines: Sequence[Timeline], video: Path | None = None) -> list[Job]:
    """Neighbouring datapoints of one video share a job, so that it is decoded once."""
    ends: dict[Path, float] = {}
    pairs = [(video or path.parent / t.video_path, t) for t in timelines]
    for where, timeline in pairs:
        ends[where] = max(ends.get(where, 0.0), evaluation_window(timeline)[1] + 1e-3)
    return [
        Job(where, tuple(t for _, t in group), ends[where])
        for where, group in groupby(pairs, key=lambda pair: pair[0])
    ]


def run_datapoints(
    source: Source,
    path: Path,
    settings: StreamSettings,
    *,
    workers: int = 1,
    video: Path | None = None,
    journal: Path | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> list[Streamed]:
    """Stream every datapoint of a file.

    Args:
        source: model and store.
        path: timeline JSONL.
        settings: how to stream.
        workers: processes, each with one thread.
        video: the video of all datapoints, in place of each one's `video_path`.
        journal: file that keeps finished datapoints; a broken-off run goes on from it. It
            stays until the caller removes it, having written the output.
        on_done: told how many of how many are done.

    Returns:
        One result a datapoint, in the file's order.

    Raises:
        UserError: the file or the model cannot be read, or a process was killed.
    """
    if workers < 1:
        raise UserError("workers", f"is {workers}", "use 1 or more")
    timelines = read_timelines(path)
    kept = _journal(journal, source, path, settings, video)
    results = {k: _revived(r) for k, r in kept.results.items()} if kept else {}
    todo = [t for t in timelines if t.video_id not in results]
    bad = {t.video_id: e for t in todo if (e := _window_problem(t))}
    results |= {k: Streamed(k, error=e) for k, e in bad.items()}
    jobs = make_jobs(path, [t for t in todo if t.video_id not in bad], video)
    on_done(len(results), len(timelines))
    try:
        for streamed in chain.from_iterable(_run_jobs(source, settings, jobs, workers)):
            results[streamed.video_id] = streamed
            if kept and streamed.error is None:
                kept.add(asdict(streamed))
            on_done(len(results), len(timelines))
    finally:
        if kept:
            kept.close()
    return [results[t.video_id] for t in timelines]


def _window_problem(timeline: Timeline) -> str | None:
    """What is wrong with a datapoint's window, if anything."""
    try:
        evaluation_window(timeline)
    except UserError as err:
        return str(err)
    return None


def _journal(
    journal: Path | None, source: Source, path: Path, settings: StreamSettings, video: Path | None
) -> Journal | None:
    if journal is None:
        return None
    files = [path, *(f for f in Path(source.model).glob("*") if f.is_file())]
    return Journal(journal, fingerprint_of(source, settings, video, files=files))


def _revived(record: dict[str, Any]) -> Streamed:
    spoken = [generated_from_dict(g, "unfinished run") for g in record["utterances"]]
    return Streamed(**{**record, "utterances": spoken})


def _run_jobs(
    source: Source, settings: StreamSettings, jobs: Sequence[Job], workers: int
) -> Iterator[list[Streamed]]:
    if workers == 1 or len(jobs) < 2:
        with _one_thread():
            worker = Worker(source, settings)
            yield from map(worker.run, jobs)
        return
    pool = ProcessPoolExecutor(
        min(workers, len(jobs)), _context(), initializer=_start, initargs=(source, settings)
    )
    try:
        for result in pool.map(_work, jobs):
            if isinstance(result, tuple):
                raise UserError(*result)
            yield result
    except BrokenProcessPool as err:
        problem = "a process ended before its work was done"
        raise UserError("workers", problem, "free memory, or use fewer workers") from err
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _context() -> Any:
    """Processes forked from a clean server that has imported this module once, or spawned."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_worker: Worker | None = None
_failure: tuple[str, str, str] | None = None


def _start(source: Source, settings: StreamSettings) -> None:
    """Set up a process; Ctrl-C is the parent's affair."""
    global _worker, _failure
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _worker = Worker(source, settings)
    except UserError as err:
        _failure = (err.thing, err.problem, err.mend)


def _work(job: Job) -> list[Streamed] | tuple[str, str, str]:
    if _worker is None:
        assert _failure is not None
        return _failure
    return _worker.run(job)


def stream_datapoints(
    model: str | Path,
    datapoints: str | Path,
    *,
    base: str | Path | None = None,
    policy: SchemeName | None = None,
    threshold: float | None = None,
    fps: float | None = None,
    rounding: Rounding = "accumulate",
    eager_close: bool | None = None,
    max_tokens: int = 128,
    temperature: float = 0.0,
    seed: int = 0,
    store: str | Path | None = None,
    device: str = "cpu",
    workers: int = 1,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> list[Streamed]:
    """What a model says over a file of datapoints (TGLG protocol), in the file's order.

    See `StreamSettings` and `run_datapoints` for the arguments.

    Raises:
        UserError: also if any datapoint could not stream, naming the first.
    """
    settings = StreamSettings(
        policy=policy, threshold=threshold, fps=fps, rounding=rounding, eager_close=eager_close,
        max_tokens=max_tokens, temperature=temperature, seed=seed,
    )  # fmt: skip
    source = Source(str(model), str(base) if base else None, str(store) if store else None, device)
    done = run_datapoints(source, Path(datapoints), settings, workers=workers, on_done=on_done)
    failed = [d for d in done if d.error is not None]
    if failed:
        problem = f"{len(failed)} of {len(done)} datapoints cannot stream, the first: "
        raise UserError(datapoints, problem + str(failed[0].error), "mend or leave them out")
    return done
