"""Filtered transcripts -> timelines, clusters, splits, datapoints.

Input: a transcript folder whose segments are marked as play-by-play or not; optionally the
videos. Output: in DIR `timelines.jsonl` (one a half: all that is said, play-by-play scored,
each scored turn with its cluster), `train.jsonl`, `val.jsonl` and `test.jsonl` (the same
timelines, split), `val_datapoints.jsonl` and `test_datapoints.jsonl` (one timeline for each
cluster, ready to be streamed), `statistics.json`, `report.json`.
Invariant: every segment is kept or dropped with a reason; word times are kept; the same
transcripts, videos and seed give the same bytes with any number of workers.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from data_prep import stats
from data_prep.common.annotations import video_path
from data_prep.common.options import add_options, options_of, output_folder
from data_prep.common.report import Tally, print_report, write_report
from data_prep.common.tasks import map_tasks
from data_prep.soccernet.clusters import RULES, SECONDS, Rule, cluster_datapoints, clusters
from data_prep.soccernet.halves import find_video, video_file
from data_prep.soccernet.repair import place, repair, utterance
from data_prep.soccernet.splits import PARTS, Part, SplitBy, official, official_lists, shared_out
from data_prep.soccernet.transcript import (
    UNUSABLE,
    Segment,
    Transcript,
    find_transcripts,
    read_transcript,
)
from vlm_tsi.errors import UserError
from vlm_tsi.files import write_json
from vlm_tsi.timeline import Timeline, write_timelines

UNREADABLE = "cannot be read"
SILENT = "no segment could be kept"
NOTHING_SCORED = "nothing scored in it"
NO_VIDEO = "video missing: length is the last end"
NO_LENGTH = "video does not tell its length: it is the last end"
PAST_END = "speech after the end of the video"
NO_PART = "in none of the official lists"
EMPTY_PART = "no half for {}: its files are empty"
UNMARKED = "does not say whether it tells the play (is_pbp)"
_STREAMED = ("val", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `build`."""
    parser.add_argument("--transcripts", required=True, metavar="DIR", help="the filter's output")
    parser.add_argument("--out", required=True, metavar="DIR", help="made if it is not there")
    parser.add_argument(
        "--videos", metavar="ROOT", help="the corpus: lengths are read from its videos' headers"
    )
    parser.add_argument(
        "--keep-all", action="store_true", help="score every utterance, filtered or not"
    )
    rules = "; ".join(f"{name}: {meaning}" for name, meaning in RULES.items())
    parser.add_argument(
        "--cluster-rule",
        choices=get_args(Rule),
        default="pause",
        help=f"what makes scored turns one datapoint (default: pause, which fits Table 1). {rules}",
    )
    parser.add_argument(
        "--cluster-seconds", type=float, default=SECONDS, metavar="S", help=f"default: {SECONDS:g}"
    )
    parser.add_argument(
        "--context-seconds",
        type=float,
        metavar="S",
        help="datapoints keep only so much of what was said before (default: all, as the paper)",
    )
    parser.add_argument(
        "--split-by",
        choices=get_args(SplitBy),
        default="match",
        help="both halves of a match together (default), or each by itself (the paper's way)",
    )
    parser.add_argument(
        "--official-splits",
        nargs=3,
        metavar=("TRAIN", "VALID", "TEST"),
        help="SoccerNet's lists instead of 80/20 twice",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the splits (default: 0)")
    add_options(parser)


@dataclass(frozen=True, slots=True)
class Built:
    """What became of one transcript: its timeline (if any), what was counted."""

    timeline: Timeline | None
    segments: Tally
    halves: Tally


@dataclass(frozen=True, slots=True)
class Builder:
    """Reads, repairs and clusters one transcript: (half, path) -> `Built`."""

    videos: str | None
    out: str
    keep_all: bool
    rule: Rule
    seconds: float

    def __call__(self, job: tuple[str, str]) -> Built:
        """Raises UserError where no segment is marked."""
        half, path = job
        segments, halves, unread = Tally("segment"), Tally("file"), list[str]()
        try:
            transcript = read_transcript(path, half, unread)
        except UserError as err:
            halves.drop(UNREADABLE)
            halves.examples[UNREADABLE] = [str(err).replace(path, half)]
            return Built(None, segments, halves)
        for line in unread:
            segments.drop(UNUSABLE, f"{half}: {line}")
        if transcript.status != "ok":
            reason = transcript.status.replace("_", " ")
            halves.drop(reason, half)
            for _ in transcript.segments:
                segments.drop(reason, half)
            return Built(None, segments, halves)
        turns = repair(self._marked(transcript, path, segments), half, segments)
        if not turns:
            halves.drop(SILENT, half)
            return Built(None, segments, halves)
        halves.keep()
        return Built(self._timeline(transcript, turns, halves), segments, halves)

    def _marked(self, transcript: Transcript, path: str, segments: Tally) -> list[Segment]:
        """The segments that say whether they tell the play; a half without any is unfiltered."""
        told = [s for s in transcript.segments if self.keep_all or s.is_pbp is not None]
        if transcript.segments and not told:
            mend = "run the step filter first, or give --keep-all"
            raise UserError(f"{path}: segments[0]", UNMARKED, mend)
        for segment in transcript.segments:
            if not self.keep_all and segment.is_pbp is None:
                segments.drop(UNMARKED, place(transcript.half, segment))
        return told

    def _timeline(self, transcript: Transcript, turns: list[Segment], halves: Tally) -> Timeline:
        half = transcript.half
        scored = [self.keep_all or bool(s.is_pbp) for s in turns]
        owner = {
            i: k
            for k, group in enumerate(clusters(turns, scored, self.rule, self.seconds))
            for i in group
        }
        if not owner:
            halves.note(NOTHING_SCORED, half)
        spoken = tuple(utterance(s, scored[i], owner.get(i)) for i, s in enumerate(turns))
        last = max(u.end for u in spoken)
        path, duration = self._video(half, transcript.duration or last, halves)
        if last > duration:
            halves.note(PAST_END, half)
        return Timeline(half, path, duration, spoken)

    def _video(self, half: str, said: float, halves: Tally) -> tuple[str, float]:
        """Its path, as seen from the output, and its length (s)."""
        if self.videos is None:
            return video_file(half), said
        found = find_video(self.videos, half)
        if found is None:
            halves.note(NO_VIDEO, half)
            return video_path(self.videos, video_file(half), self.out), said
        name = str(found.relative_to(self.videos))
        return video_path(self.videos, name, self.out), self._length(found, half, said, halves)

    @staticmethod
    def _length(video: Path, half: str, said: float, halves: Tally) -> float:
        from vlm_tsi.video.reader import probe

        try:
            length = probe(video).duration
        except UserError as err:
            halves.note(f"video {UNREADABLE}")
            line = f"{half}: {err.problem}"
            halves.examples.setdefault(f"video {UNREADABLE}", []).append(line)
            return said
        if length is None:
            halves.note(NO_LENGTH, half)
        return said if length is None else length


def run(args: argparse.Namespace) -> int:
    """Build, write, report."""
    options = options_of(args)
    lists = check_options(args)
    jobs = [(half, str(path)) for half, path in options.first(find_transcripts(args.transcripts))]
    out = output_folder(args.out, args.transcripts)
    builder = Builder(args.videos, args.out, args.keep_all, args.cluster_rule, args.cluster_seconds)
    segments, halves, timelines = Tally("segment"), Tally("file"), []
    for built in map_tasks(builder, jobs, options, title="building"):
        segments.add(built.segments)
        _add_named(halves, built.halves)
        timelines += [built.timeline] if built.timeline else []
    parts = _parts(args, timelines, lists, halves)
    counts = _write(out, timelines, parts, args.context_seconds) if timelines else ""
    _report(out, args, [segments, halves])
    if not timelines:  # an earlier run's stay
        raise UserError(args.transcripts, "no half could be kept", "see report.json")
    print(f"{out}: {len(timelines)} timelines, {counts}; report.json says what was left out")
    return 0


def check_options(args: argparse.Namespace) -> Mapping[str, Part] | None:
    """Refuse options out of range; gives the official lists, if any are named."""
    for name in ("cluster_seconds", "context_seconds"):
        value = getattr(args, name)
        if value is not None and not 0 <= value < math.inf:
            raise UserError(f"--{name.replace('_', '-')}", f"is {value}", "give seconds, 0 or more")
    if args.seed < 0:
        raise UserError("--seed", f"is {args.seed}", "give 0 or more")
    if args.videos is not None and not Path(args.videos).is_dir():
        raise UserError("--videos", f"{args.videos} is no folder", "name the corpus' folder")
    return official_lists(args.official_splits) if args.official_splits else None


def _parts(
    args: argparse.Namespace,
    timelines: Sequence[Timeline],
    lists: Mapping[str, Part] | None,
    halves: Tally,
) -> dict[str, Part]:
    """The part of each half that is kept; who has none, and which are empty, is noted."""
    kept = [t.video_id for t in timelines]
    parts = shared_out(kept, args.split_by, args.seed) if lists is None else official(kept, lists)
    for half in kept:
        if half not in parts:
            halves.note(NO_PART, half)
    for part in PARTS:
        if kept and part not in parts.values():
            halves.note(EMPTY_PART.format(part))
            print(f"note: {EMPTY_PART.format(part)}", file=sys.stderr)
    return parts


def _add_named(tally: Tally, other: Tally) -> None:
    """Take over counts; files that cannot be read are all named, not the first few."""
    for reason in (UNREADABLE, f"video {UNREADABLE}"):
        lines = other.examples.pop(reason, [])
        if lines:
            tally.examples.setdefault(reason, []).extend(lines)
    tally.add(other)


def _write(
    out: Path,
    timelines: Sequence[Timeline],
    parts: Mapping[str, Part],
    context_seconds: float | None,
) -> str:
    """Write all timelines, then each part, their statistics; gives a line about the parts."""
    write_timelines(out / "timelines.jsonl", timelines)
    told = []
    for part in PARTS:
        mine = [t for t in timelines if parts.get(t.video_id) == part]
        write_timelines(out / f"{part}.jsonl", mine)
        told.append(f"{part} {len(mine)}")
        if part in _STREAMED:
            points = _datapoints(mine, context_seconds)
            count = write_timelines(out / f"{part}_datapoints.jsonl", points)
            told[-1] += f" ({count:,} datapoints)"
    found = stats.rows("timelines.jsonl", timelines, stats.token_lengths(None))
    write_json(out / "statistics.json", {"rows": [stats.to_dict(r) for r in found]})
    stats.show(found)
    return ", ".join(told)


def _datapoints(timelines: Sequence[Timeline], context_seconds: float | None) -> Iterator[Timeline]:
    for timeline in timelines:
        yield from cluster_datapoints(timeline, context_seconds)


def _report(out: Path, args: argparse.Namespace, tallies: list[Tally]) -> None:
    names = ("keep_all", "cluster_rule", "cluster_seconds", "context_seconds", "limit")
    settings = {name: getattr(args, name) for name in names}
    settings["splits"] = (
        {"official": [Path(f).name for f in args.official_splits]}
        if args.official_splits
        else {"by": args.split_by, "seed": args.seed}
    )
    write_report(out / "report.json", "build", tallies, settings)
    print_report(tallies)
