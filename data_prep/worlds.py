"""Render a simulated world: videos, timelines, datapoints and captions.

Input: a world's name, how many clips, a seed and a split's name.
Output, under the folder: `videos/<id>.mp4`, `timelines.jsonl`, `datapoints.jsonl` (both with
paths relative to the folder) and `captions.jsonl` (what is visible, every 0.5 s).
Invariant: the same arguments give the same bytes, with any number of workers; finished
videos are kept, so a stopped run goes on where it was; seeds of different splits differ.

    python -m data_prep.worlds {signals,assembly} --out DIR --count N --seed S
"""

import hashlib
import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import track

from vlm_tsi import worlds
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import make_folder, read_object, write_json, write_jsonl
from vlm_tsi.timeline import write_timelines
from vlm_tsi.video.writer import write_mp4
from vlm_tsi.worlds.assembly import Assembly
from vlm_tsi.worlds.base import FPS, Clip, World
from vlm_tsi.worlds.datapoints import datapoints
from vlm_tsi.worlds.signals import Signals

WORLDS: dict[str, World] = {w.name: w for w in (Signals(), Assembly())}
CAPTION_STEP = 0.5  # s
RATES = (2.0, 4.0, 8.0)  # frames a second; each has a frame at every caption


RECORDS = ("timelines.jsonl", "datapoints.jsonl", "captions.jsonl")


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did: clips asked for, clips rendered now, seconds spent."""

    count: int
    rendered: int
    seconds: float

    @property
    def ms_per_clip(self) -> float:
        """Milliseconds for each clip rendered now."""
        return 1000 * self.seconds / max(self.rendered, 1)


@dataclass(frozen=True, slots=True)
class _Job:
    world: str
    seed: int
    video_id: str
    path: Path
    fps: float

    def clip(self) -> Clip:
        return replace(WORLDS[self.world].clip(self.seed, self.video_id), fps=self.fps)


def clip_seed(world: str, split: str, seed: int, index: int) -> int:
    """The seed of one clip, from all that names it: 64 bits of SHA-256."""
    digest = hashlib.sha256(f"{world}/{split}/{seed}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def build(
    world: str,
    out: str | Path,
    count: int,
    seed: int,
    split: str = "train",
    workers: int = 1,
    fps: float = FPS,
) -> Built:
    """Write one split of a world into a folder of its own.

    Raises:
        UserError: for an unknown world, a count or number of workers under 1, a split name
            that cannot stand in a file name, or a folder that cannot be written.
    """
    _check(world, count, split, workers, fps)
    folder, began = make_folder(out), time.perf_counter()
    make_folder(folder / "videos")
    _check_manifest(folder, {"world": world, "split": split, "seed": seed, "fps": fps}, count)
    jobs = [_job(world, folder, seed, split, index, fps) for index in range(count)]
    todo = [job for job in jobs if not job.path.exists()]
    _render_all(todo, workers, f"{world} {split}")
    seconds = time.perf_counter() - began
    _write_records(folder, jobs)
    return Built(count, len(todo), seconds)


def _check_manifest(folder: Path, made_with: dict[str, object], count: int) -> None:
    """Keep videos only of the same making; never shrink or replace what others may be using.

    What older code drew under the same settings is drawn anew.
    """
    path, mend = folder / "made.json", "choose another --out"
    made: dict[str, object] = {**made_with, "code": _code()}
    before = read_object(path) if path.is_file() else None
    if before is None and any((folder / name).exists() for name in RECORDS):
        raise UserError(folder, "holds timelines that were not made here", mend)
    if before is not None and {**before["made"], "code": ""} != {**made, "code": ""}:
        of = ", ".join(f"{k} {v}" for k, v in before["made"].items() if k in made_with)
        raise UserError(folder, f"holds another split ({of})", mend)
    if before is not None and before["count"] > count and before["made"] == made:
        raise UserError(folder, f"holds {before['count']} clips already", mend)
    if before is not None and before["made"] != made:
        for video in (folder / "videos").glob("*.mp4"):
            video.unlink()
    write_json(path, {"made": made, "count": count})


def _code() -> str:
    """Digest of the code that draws and speaks."""
    digest = hashlib.sha256()
    for module in sorted(Path(worlds.__path__[0]).glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()[:16]


def _check(world: str, count: int, split: str, workers: int, fps: float) -> None:
    if world not in WORLDS:
        raise UserError(world, "no such world", f"use one of {', '.join(WORLDS)}")
    for name, value in (("count", count), ("workers", workers)):
        if value < 1:
            raise UserError(f"--{name} {value}", "is under 1", "use 1 or more")
    if fps not in RATES:
        rates = ", ".join(f"{r:g}" for r in RATES)
        raise UserError(f"--fps {fps:g}", "is not a rate of the worlds", f"use one of {rates}")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", split):
        raise UserError(f"--split {split!r}", "not a plain name", "use letters, digits, - and _")


def _job(world: str, folder: Path, seed: int, split: str, index: int, fps: float) -> _Job:
    rate = "" if fps == FPS else f"-{fps:g}fps"  # so that resume never mixes rates
    video_id = f"{world}-{split}-{seed}-{index:05d}{rate}"
    path = folder / "videos" / f"{video_id}.mp4"
    return _Job(world, clip_seed(world, split, seed, index), video_id, path, fps)


def _render_all(jobs: Sequence[_Job], workers: int, title: str) -> None:
    steps = _in_pool(jobs, workers) if workers > 1 and len(jobs) > 1 else map(_render, jobs)
    for _ in track(steps, title, total=len(jobs), console=Console(stderr=True)):
        pass


def _in_pool(jobs: Sequence[_Job], workers: int) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        try:
            yield from pool.map(_render, jobs, chunksize=4)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _render(job: _Job) -> None:
    clip = job.clip()
    write_mp4(job.path, clip.frames(), clip.fps)


def _write_records(folder: Path, jobs: Sequence[_Job]) -> None:
    clips = [job.clip() for job in jobs]
    whole, points, captions = (folder / name for name in RECORDS)
    write_timelines(whole, (c.timeline for c in clips))
    write_timelines(points, (d for c in clips for d in datapoints(c.timeline)))
    write_jsonl(captions, (_captions(c) for c in clips))


def _captions(clip: Clip) -> dict[str, object]:
    steps = range(int(clip.timeline.duration / CAPTION_STEP))
    times = [i * CAPTION_STEP for i in steps]
    captions = [clip.caption(t) for t in times]
    timeline = clip.timeline
    where = {"video_id": timeline.video_id, "video_path": timeline.video_path}
    return {**where, "times": times, "captions": captions}


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, build, and say how long it took."""
    parser = Parser(prog="python -m data_prep.worlds", description="Render a world.")
    parser.add_argument("world", choices=sorted(WORLDS))
    parser.add_argument("--out", required=True, type=Path, help="folder of this split")
    parser.add_argument("--count", required=True, type=int, help="number of clips")
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--split", default="train")
    parser.add_argument("--workers", default=1, type=int)
    parser.add_argument("--fps", default=FPS, type=float, help="frames a second (default 8)")
    options = parser.parse_args(argv)
    done = build(**vars(options))
    speed = f", {done.ms_per_clip:.0f} ms a clip" if done.rendered else ""
    print(f"{options.out}: {done.count} clips, {done.rendered} rendered now{speed}")


if __name__ == "__main__":
    raise SystemExit(main())
