"""The demo's streaming: choose the baseline's threshold on validation, then the test clips.

Input: the two fine-tuned models, datapoints, the feature store. Output: what they said and
how fast, as `infer_stream.py` writes it, and `thresholds.json`. Invariant: the test split is
streamed once for each scheme, and only with a threshold chosen on validation.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.progress import track

from eval.demo_plan import SCHEMES, WORLDS, Preset
from eval.demo_steps import CORES, Steps, console
from vlm_tsi.files import read_json, write_json
from vlm_tsi.scoring.embed import find_embedder
from vlm_tsi.scoring.trace_score import group_by_video, references_of, score
from vlm_tsi.streaming.spool import SPOKEN
from vlm_tsi.timeline import Generated, read_generated, read_timelines


@dataclass(frozen=True)
class Place:
    """Where a run's results, its videos and its frame features are."""

    out: Path
    data: Path
    store: Path


@dataclass(frozen=True)
class Job:
    """One model over one split of one world."""

    model: str
    datapoints: str
    out: str
    store: str
    scheme: str
    threshold: float | None = None
    rounding: str = "accumulate"
    eager_close: bool | None = None


def stream_job(job: Job) -> None:
    """Stream and write (in a worker process, one thread)."""
    import torch

    from vlm_tsi.streaming.batch import stream_datapoints
    from vlm_tsi.streaming.outputs import write_batch

    torch.set_num_threads(1)
    began = time.monotonic()
    done = stream_datapoints(
        job.model,
        job.datapoints,
        policy=job.scheme,  # type: ignore[arg-type]
        threshold=job.threshold,
        rounding=job.rounding,  # type: ignore[arg-type]
        eager_close=job.eager_close,
        store=job.store,
    )
    about = {"model": job.model, "timeline": job.datapoints}
    write_batch(Path(job.out).parent, done, about, time.monotonic() - began)


def stream_jobs(jobs: list[Job]) -> None:
    """All jobs, on all cores."""
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        done = pool.map(stream_job, jobs)
        list(track(done, "streaming", total=len(jobs), console=console))


def job(place: Place, world: str, split: str, scheme: str, threshold: float | None) -> Job:
    """The job of one scheme on one split."""
    swept = f"-{threshold:g}" if split == "val" and threshold is not None else ""
    name = f"{world}-{split}-{scheme}{swept}"
    return Job(
        model=str(place.out / scheme / "model"),
        datapoints=str(place.data / f"{world}-{split}" / "datapoints.jsonl"),
        out=str(place.out / "spoken" / name / SPOKEN),
        store=str(place.store),
        scheme=scheme,
        threshold=threshold,
    )


def score_job(done: Job, embed: Any) -> Mapping[str, float]:
    """Micro percentages of a finished job."""
    references = references_of(read_timelines(done.datapoints))
    return score(references, group_by_video(read_generated(done.out)), embed).micro


def sweep_threshold(steps: Steps, place: Place, preset: Preset) -> dict[str, float]:
    """The baseline's best threshold for each world, by TRACE on validation."""
    target = place.out / "thresholds.json"

    def work() -> None:
        jobs = {
            (w, t): job(place, w, "val", "turn_based", t) for w in WORLDS for t in preset.thresholds
        }
        stream_jobs(list(jobs.values()))
        embed = find_embedder(cache=place.out / "embeddings")
        table = {
            w: {f"{t:g}": score_job(jobs[w, t], embed) for t in preset.thresholds} for w in WORLDS
        }
        best = {w: max(table[w], key=lambda t: table[w][t]["trace"]) for w in WORLDS}
        write_json(target, {"sweep": table, "chosen": {w: float(t) for w, t in best.items()}})

    steps.call("thresholds", work, [list(preset.thresholds), find_embedder().name])
    return read_json(target)["chosen"]


def test_jobs(place: Place, chosen: dict[str, float]) -> dict[tuple[str, str], Job]:
    """(world, scheme) -> job on the held-out clips."""
    return {
        (w, s): job(place, w, "test", s, chosen[w] if s == "turn_based" else None)
        for w in WORLDS
        for s in SCHEMES
    }


def shown(done: Job) -> str:
    """The command that does a job alone."""
    threshold = f" --threshold {done.threshold:g}" if done.threshold is not None else ""
    out = Path(done.out).parent
    return (
        f"python infer_stream.py --timeline {done.datapoints} --model {done.model} "
        f"--store {done.store} --policy {done.scheme}{threshold} --out {out}"
    )


def stream_test(steps: Steps, place: Place, chosen: dict[str, float]) -> None:
    """Stream the held-out clips with both schemes."""
    jobs = list(test_jobs(place, chosen).values())
    steps.commands += [shown(j) for j in jobs]
    steps.call("streaming", lambda: stream_jobs(jobs), chosen)


def spoken_by_video(done: Job) -> dict[str, list[Generated]]:
    """What a job said, by datapoint."""
    return group_by_video(read_generated(done.out))
