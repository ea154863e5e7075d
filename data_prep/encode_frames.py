"""Decode each video once and keep its frames' vision features.

Input: timeline files (videos beside them) and a checkpoint whose encoder is used.
Output: a feature store (`vlm_tsi.video.features`) and `report.json` in it.
Invariant: what is stored already is not encoded again; a video that cannot be read becomes
a line of the report, not a stop; the same videos give the same bytes with any number of
workers.

    python -m data_prep.encode_frames --timelines T.jsonl --model DIR --store DIR --workers 2
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from vlm_tsi.errors import UserError, command
from vlm_tsi.files import write_json
from vlm_tsi.timeline import read_timelines


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one video: `encoded`, `stored` (before), or `failed`, and why."""

    video: str
    state: str
    problem: str = ""


class Encoder:
    """One process's model and store."""

    def __init__(self, model: str, store: str, fps: float) -> None:
        from vlm_tsi.model.fingerprint import encoder_key
        from vlm_tsi.model.loading import load_checkpoint
        from vlm_tsi.quiet import quiet_libraries
        from vlm_tsi.video.features import FeatureStore

        quiet_libraries()
        self.model, self.fps = load_checkpoint(model).model, fps
        self.store = FeatureStore(store, encoder_key(self.model, fps))

    def encode(self, video: str) -> Outcome:
        """Store one video's features."""
        from vlm_tsi.model.frames import stored_frames
        from vlm_tsi.video.features import content_key

        try:
            if self.store.has(content_key(Path(video))):
                return Outcome(video, "stored")
            stored_frames(self.model, Path(video), self.fps, self.store)
        except (UserError, OSError) as err:
            return Outcome(video, "failed", str(err))
        return Outcome(video, "encoded")


_worker: Encoder | None = None


def _start(model: str, store: str, fps: float) -> None:
    import torch

    global _worker
    torch.set_num_threads(1)
    _worker = Encoder(model, store, fps)


def _encode(video: str) -> Outcome:
    assert _worker is not None, "the pool starts each worker with _start"
    return _worker.encode(video)


def encode(
    videos: Sequence[str], model: str, store: str, fps: float = 2.0, workers: int = 1
) -> list[Outcome]:
    """Encode videos into a store, in order; one thread for each worker."""
    steps = _in_pool(videos, (model, store, fps), workers)
    console = Console(stderr=True)
    return list(track(steps, "encoding", total=len(videos), console=console))


def _in_pool(videos: Sequence[str], settings: tuple[Any, ...], workers: int) -> Iterator[Outcome]:
    if workers == 1:
        _start(*settings)
        yield from map(_encode, videos)
        return
    Encoder(*settings)  # a bad checkpoint is named here, not by a broken pool
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), _start, settings) as pool:
            yield from pool.map(_encode, videos, chunksize=4)
    except BrokenProcessPool as err:
        mend = "give it fewer --workers (memory?); what is stored is kept"
        raise UserError("--workers", "a worker process died", mend) from err


def videos_of(timelines: Sequence[str]) -> list[str]:
    """Every video of the files once, in order."""
    found = [
        str(Path(path).parent / t.video_path) for path in timelines for t in read_timelines(path)
    ]
    return list(dict.fromkeys(found))


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.encode_frames", description="Store frames' vision features."
    )
    parser.add_argument("--timelines", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--model", required=True, metavar="DIR", help="a checkpoint")
    parser.add_argument("--store", required=True, metavar="DIR")
    parser.add_argument("--fps", type=float, default=2.0, help="frames a second (default 2)")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args(argv)
    if args.workers < 1 or args.fps <= 0:
        raise UserError("--workers, --fps", "must be above 0", "use e.g. --workers 2 --fps 2")
    outcomes = encode(videos_of(args.timelines), args.model, args.store, args.fps, args.workers)
    states = {s: sum(o.state == s for o in outcomes) for s in ("encoded", "stored", "failed")}
    failed = [{"video": o.video, "problem": o.problem} for o in outcomes if o.state == "failed"]
    write_json(Path(args.store) / "report.json", {"read": len(outcomes), **states, "why": failed})
    for line in failed:
        print(f"left out: {line['problem']}", file=sys.stderr)
    print(f"{args.store}: {states['encoded']} encoded, {states['stored']} stored before, "
          f"{states['failed']} failed")  # fmt: skip
    if outcomes and len(failed) == len(outcomes):
        raise UserError("--timelines", "none of their videos can be read", "see the lines above")
    return 0


if __name__ == "__main__":
    sys.exit(main())
