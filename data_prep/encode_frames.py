"""Decode each video once and keep its frames' vision features.

Input: timeline files (videos beside them) and a checkpoint whose encoder is used.
Output: a feature store (`vlm_tsi.video.features`) and `report.json` in it.
Invariant: what is stored already is not encoded again, nor is a video encoded twice by
processes or machines that share the store; a video that cannot be read becomes a line of the
report, not a stop; the same videos give the same bytes, stored now or before, with any number
of workers.

    python -m data_prep.encode_frames --timelines T.jsonl --model DIR --store DIR --workers 2
"""

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from data_prep.common.options import Options, add_options, options_of
from data_prep.common.report import Tally, print_report, write_report
from data_prep.common.tasks import map_tasks
from vlm_tsi.errors import Parser, UserError, command, os_error
from vlm_tsi.files import writable_folder
from vlm_tsi.timeline import read_timelines

SHORT = 1.0
"""Seconds by which a video may end before its timeline does without being noted."""
DAMAGED = "cut short or damaged: kept as far as it decodes"
ENDS = "ends before its timeline"


@dataclass(frozen=True, slots=True)
class Video:
    """A video to encode: its path, what reports call it, the time it should reach (s)."""

    path: Path
    name: str
    duration: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a video.

    Attributes:
        video: which.
        state: `encoded`, `stored` (before), `failed`, or `busy` (elsewhere; not in results).
        reached: where its last sampled frame's turn ends (s).
        warning: what was amiss with it, if its frames are kept.
        error: why it failed.
    """

    video: Video
    state: str
    reached: float = 0.0
    warning: str = ""
    error: UserError | None = None


class Encoder:
    """One process's model and store."""

    def __init__(self, model: str, store: str, fps: float) -> None:
        import torch

        from vlm_tsi.model.fingerprint import encoder_key
        from vlm_tsi.model.loading import load_checkpoint
        from vlm_tsi.quiet import quiet_libraries
        from vlm_tsi.video.features import FeatureStore

        quiet_libraries()
        torch.set_num_threads(1)
        self.model, self.fps = load_checkpoint(model).model, fps
        self.store = FeatureStore(store, encoder_key(self.model, fps))

    def encode(self, video: Video, wait: bool) -> Outcome:
        """Store one video's features, unless they are there."""
        from vlm_tsi.model.frames import store_frames
        from vlm_tsi.video.features import content_key

        try:
            key = content_key(video.path)
            state = store_frames(self.model, video.path, self.fps, self.store, key, wait)
            if state == "busy":
                return Outcome(video, state)
            reached = float(self.store.get(key)[0][-1]) + 1 / self.fps
            return Outcome(video, state, reached, self.store.warning(key))
        except UserError as err:
            return Outcome(video, "failed", error=err)
        except OSError as err:
            return Outcome(video, "failed", error=os_error(err.filename or video.path, err))


@dataclass(frozen=True)
class Work:
    """Encodes one video in whichever process this is; the model stays for the next one."""

    model: str
    store: str
    fps: float
    wait: bool = False

    def __call__(self, video: Video) -> Outcome:
        """Store one video's features."""
        return encoder(self.model, self.store, self.fps).encode(video, self.wait)


@lru_cache(maxsize=1)
def encoder(model: str, store: str, fps: float) -> Encoder:
    """This process's encoder, loaded once."""
    return Encoder(model, store, fps)


def encode(
    videos: Sequence[Video], model: str, store: str, fps: float, options: Options
) -> list[Outcome]:
    """Encode videos into a store, in order; one thread for each worker."""
    encoder(model, store, fps)  # a bad checkpoint is named here, once
    work, run = partial(Work, model, store, fps), partial(map_tasks, options=options)
    outcomes = list(run(work(), videos, title="encoding"))
    elsewhere = [o.video for o in outcomes if o.state == "busy"]
    waiting = "waiting for other processes"
    waited = iter(list(run(work(wait=True), elsewhere, title=waiting)) if elsewhere else [])
    return [next(waited) if o.state == "busy" else o for o in outcomes]


def videos_of(timelines: Sequence[str]) -> list[Video]:
    """Every video of the files once, in order.

    Its name is its path from the folder that holds all the files.
    """
    top = os.path.commonpath([os.path.abspath(Path(p).parent) for p in timelines])
    found: dict[Path, float] = {}
    for file in timelines:
        for timeline in read_timelines(file):
            path = Path(file).parent / timeline.video_path
            found[path] = max(found.get(path, 0.0), timeline.duration)
    return [Video(p, os.path.relpath(p, top), d) for p, d in found.items()]


def count(outcomes: Sequence[Outcome]) -> Tally:
    """What was kept and dropped; every video that is not as it should be has its line."""
    tally = Tally("video")
    for outcome in outcomes:
        name, error = outcome.video.name, outcome.error
        if error is not None:
            tally.drop(error.problem)
            _name(tally, error.problem, name)
            continue
        tally.keep_mended([DAMAGED] if outcome.warning else [])
        if outcome.warning:
            _name(tally, DAMAGED, f"{name}: {outcome.warning}")
        if outcome.reached + SHORT < outcome.video.duration:
            tally.note(ENDS)
            said = f"{outcome.reached:.1f} s of {outcome.video.duration:.1f} s"
            _name(tally, ENDS, f"{name}: {said}")
    return tally


def _name(tally: Tally, reason: str, line: str) -> None:
    """Name every such video, not the first few: there is a mend for each."""
    tally.examples.setdefault(reason, []).append(line)


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="python -m data_prep.encode_frames",
        description="Store frames' vision features, so that no training decodes video twice.",
        epilog="""What is in the store is always kept, with --resume or without: it is found by
        the video's content and the encoder (weights, frame size, pooling, fps), so it cannot be
        stale. Several of these commands may share a store, also on several machines.
        Example: python -m data_prep.encode_frames --timelines data/timelines.jsonl
        --model runs/captions/model --store runs/store --workers 4""",
    )
    parser.add_argument("--timelines", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--model", required=True, metavar="DIR", help="a checkpoint")
    parser.add_argument("--store", required=True, metavar="DIR", help="made if it is not there")
    parser.add_argument("--fps", type=float, default=2.0, help="frames a second (default: 2)")
    add_options(parser)
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    args = arguments().parse_args(argv)
    options = options_of(args)
    if not 0 < args.fps < math.inf:
        raise UserError("--fps", f"is {args.fps}", "give a rate above 0, e.g. 2")
    videos = options.first(videos_of(args.timelines))
    if not videos:
        raise UserError("--timelines", "hold no timeline", "name files that have some")
    writable_folder(args.store)
    outcomes = encode(videos, args.model, args.store, args.fps, options)
    for outcome in outcomes:
        if outcome.error is not None:
            print(f"left out: {outcome.error}", file=sys.stderr)
        elif outcome.warning:
            print(f"warning: {outcome.video.path}: {outcome.warning}", file=sys.stderr)
    tally = count(outcomes)
    encoder_name = encoder(args.model, args.store, args.fps).store.folder.name
    settings = {"fps": args.fps, "limit": options.limit, "encoder": encoder_name}
    write_report(Path(args.store) / "report.json", "encode_frames", [tally], settings)
    print_report([tally])
    states = Counter(o.state for o in outcomes)
    print(f"{args.store}: {states['encoded']} encoded, {states['stored']} stored before, "
          f"{states['failed']} failed; report.json says why")  # fmt: skip
    if outcomes and not tally.kept:
        raise UserError("--timelines", "none of their videos can be read", "see the lines above")
    return 0


if __name__ == "__main__":
    # under its own name, so that Ray's workers find what they are sent
    from data_prep import encode_frames

    sys.exit(encode_frames.main())
