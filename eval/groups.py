"""TRACE by what happened on screen, by task, or by any other grouping (Tables 3 and 4).

Input: references and predictions as for `eval.tglg`, and one source of groups: SoccerNet's
action labels, HoloAssist's task types, or a CSV. Output: for each group the number of
references, generated and matched utterances and Table 2's columns (micro) with 95% intervals from
a bootstrap over videos, on the terminal and as JSON; with `--against`, the same of a second
system and the differences, which is what Tables 3 and 4 print.
Invariant: the set is aligned once, whole; the order of the records does not matter; what belongs
to no group is counted and scored beside them.

An utterance may belong to several categories: the paper takes the events within five seconds of
it and does not choose one (Section 6.2.2). It then counts in each, so the groups' numbers may
add up to more than the whole. A matched generated utterance goes with its reference; one that is
not matched goes by its own times (`vlm_tsi/scoring/split.py`).
"""

import argparse
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from rich.console import Console

from eval.group_events import ACTIONS, NEAR_EVENT, soccernet
from eval.group_sources import Grouping, from_csv, holoassist
from eval.group_table import group_notes, show
from eval.scoring_options import (
    add_metric_options,
    add_scoring_options,
    check_options,
    check_references,
    params_of,
    read_all_predictions,
    read_all_references,
)
from eval.tglg import count
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import check_target, write_json
from vlm_tsi.published import read_predictions
from vlm_tsi.scoring.embed import PAPER_EMBEDDER, find_embedder
from vlm_tsi.scoring.groups import StoredSums, compare, intervals
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.sensitivity import remembered
from vlm_tsi.scoring.split import split
from vlm_tsi.scoring.trace_score import (
    SCORES,
    Embed,
    TraceResult,
    VideoSums,
    group_by_video,
    references_of,
    score,
)
from vlm_tsi.scoring.whole_videos import source_of, whole_video
from vlm_tsi.timeline import Generated, Timeline, Utterance

EXAMPLES = f"""
An utterance belongs to every category of which an event lies within --within seconds of it
(from so much before its start to so much after its end), so it may count in several.
Categories (Appendix C): {"; ".join(f"{k}: {', '.join(v)}" for k, v in ACTIONS.items())}.

examples:
  Table 3, two systems and their differences:
  python -m eval.groups --ref test_datapoints.jsonl --pred tsi.jsonl \\
      --against turn_based.jsonl --soccernet /corpora/SoccerNet --out table3.json
  Table 4, task types from the timelines (or from the annotation file, if it is named):
  python -m eval.groups --ref val_datapoints.jsonl --pred tsi.jsonl --holoassist --out table4.json
  any grouping of videos (video_id,group) or of stretches (video_id,start,end,group):
  python -m eval.groups --ref ref.jsonl --pred pred.jsonl --csv groups.csv --out groups.json
"""


class Row(Enum):
    """Rows beside the groups."""

    ALL = "all"
    NO_GROUP = "no_group"
    SEVERAL = "in_several_groups"


Key = str | Row


@dataclass(frozen=True)
class Scored:
    """One system: its result, and the sums of each row."""

    predictions: Sequence[Generated]
    result: TraceResult
    sums: Mapping[Key, StoredSums]

    def of(self, key: Key) -> StoredSums:
        """A row's sums; empty where it holds no utterance."""
        return self.sums.get(key, StoredSums(self.result.params, {}))


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    p = Parser(
        prog="python -m eval.groups",
        description=__doc__.split("\n")[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_scoring_options(p)
    p.add_argument("--against", help="a second system's predictions: differences are shown too")
    source = p.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--soccernet", metavar="DIR",
        help="Table 3: folder with <league>/<season>/<match>/Labels-v2.json, at any depth",
    )  # fmt: skip
    source.add_argument(
        "--holoassist", nargs="?", const="", metavar="FILE",
        help="Table 4: task types of the timelines, or of HoloAssist's annotation file",
    )  # fmt: skip
    source.add_argument(
        "--csv", metavar="FILE", help="columns video_id,group or video_id,start,end,group (s)"
    )
    p.add_argument(
        "--within", type=float, metavar="S",
        help="seconds around an utterance in which an event or a CSV's stretch counts "
        f"(default: {NEAR_EVENT:g} for --soccernet, as the paper; 0 for --csv)",
    )  # fmt: skip
    add_metric_options(p)
    return p


def find_grouping(
    args: argparse.Namespace, timelines: Sequence[Timeline], videos: Mapping[str, str]
) -> Grouping:
    """Read the source of groups that the options name."""
    if args.soccernet is not None:
        return soccernet(args.soccernet, videos, NEAR_EVENT if args.within is None else args.within)
    if args.csv is not None:
        return from_csv(args.csv, videos, args.within or 0.0)
    tasks = {t.video_id: t.meta.get("task_type") for t in timelines}
    known = {v: task for v, task in tasks.items() if isinstance(task, str)}
    return holoassist(videos, known, args.holoassist or None)


def in_order(
    sides: Mapping[str, Sequence[Utterance]] | Mapping[str, Sequence[Generated]],
) -> dict[str, Any]:
    """Videos and utterances in an order of their own, so that the file's order is no matter."""
    return {v: sorted(sides[v], key=lambda u: (u.start, u.end, u.text)) for v in sorted(sides)}


def score_rows(
    references: Mapping[str, Sequence[Utterance]],
    predictions: Sequence[Generated],
    embed: Embed,
    params: TraceParams,
    grouping: Grouping,
    videos: Mapping[str, str],
) -> Scored:
    """Score one system and split its sums into rows."""
    generated = in_order(group_by_video(predictions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = score(references, generated, embed, params)

    def groups_of(video_id: str, start: float, end: float) -> list[Key]:
        names = grouping.of(video_id, start, end)
        beside = [] if len(names) == 1 else [Row.SEVERAL if names else Row.NO_GROUP]
        return [Row.ALL, *names, *beside]

    sums = split(result, references, generated, groups_of, lambda v: videos[v])
    return Scored(predictions, result, sums)


def scored_videos(
    references: Mapping[str, Sequence[Utterance]],
    systems: Sequence[Sequence[Generated]],
    sources: Mapping[str, str],
    params: TraceParams,
) -> dict[str, str]:
    """video_id -> whole video, of all that has something to score."""
    said = {g.video_id for system in systems for g in system}
    unknown = said - references.keys() if params.unknown_videos == "count" else set()
    known = {v for v, refs in references.items() if refs or v in said}
    return {v: sources.get(v, whole_video(v)) for v in sorted(known | unknown)}


def evaluate(
    timelines: Sequence[Timeline],
    systems: Sequence[Sequence[Generated]],
    embed: Embed,
    args: argparse.Namespace,
) -> tuple[dict[str, Any], Grouping]:
    """Everything that goes into the JSON file (less the embedder's name), and the groups."""
    references = in_order(references_of(timelines, args.all_assistant))
    params = params_of(args)
    videos = scored_videos(references, systems, source_of(timelines), params)
    grouping = find_grouping(args, timelines, videos)
    known = remembered(embed)
    scored = [score_rows(references, s, known, params, grouping, videos) for s in systems]
    names = [n for n in grouping.names if any(n in s.sums for s in scored)]
    report: dict[str, Any] = {
        "grouping": {"by": grouping.by, "within_seconds": grouping.within},
        **_rows(scored[0], names, timelines, grouping, args),
        "groups_without_utterances": [n for n in grouping.names if n not in names],
        "params": asdict(params),
        "resamples": args.resamples,
        "seed": args.seed,
        "sources": [tally.to_dict() for tally in grouping.tallies],
    }
    if len(scored) > 1:
        report["against"] = _rows(scored[1], names, timelines, grouping, args)
        report["differences"] = _differences(scored[0], scored[1], names, args)
    return report, grouping


def _rows(
    scored: Scored,
    names: Sequence[str],
    timelines: Sequence[Timeline],
    grouping: Grouping,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """One system's rows and counts."""
    elsewhere = [s for v, s in scored.result.per_video.items() if v not in grouping.spans]
    several = _counts(scored.of(Row.SEVERAL))
    return {
        "all": _row(scored.of(Row.ALL), args),
        "groups": {name: _row(scored.of(name), args) for name in names},
        "no_group": _row(scored.of(Row.NO_GROUP), args),
        "in_several_groups": several,
        "in_videos_without_groups": {
            "references": sum(s.n_ref for s in elsewhere),
            "generated": sum(s.n_gen for s in elsewhere),
        },
        "counts": count(timelines, scored.predictions, scored.result),
        "warnings": list(scored.result.warnings),
        "unknown_videos": list(scored.result.unknown_videos),
    }


def _counts(sums: StoredSums) -> dict[str, int]:
    each = sums.per_video.values()
    return {
        "videos": len(each),
        "references": sum(s.n_ref for s in each),
        "generated": sum(s.n_gen for s in each),
        "matched": sum(s.n_match for s in each),
    }


def _row(sums: StoredSums, args: argparse.Namespace) -> dict[str, Any]:
    found = intervals(sums, pool="micro", resamples=args.resamples, seed=args.seed)
    return {**_counts(sums), "scores": {name: asdict(found[name]) for name in SCORES}}


def _differences(
    first: Scored, second: Scored, names: Sequence[str], args: argparse.Namespace
) -> dict[str, Any]:
    """The first less the second, row by row."""

    def of(key: Key) -> dict[str, Any]:
        return _difference(first.of(key), second.of(key), args)

    groups = {name: of(name) for name in names}
    return {"all": of(Row.ALL), "groups": groups, "no_group": of(Row.NO_GROUP)}


def _difference(a: StoredSums, b: StoredSums, args: argparse.Namespace) -> dict[str, Any]:
    """Paired over the videos in which either has an utterance of the row; {} without any."""
    videos = sorted(a.per_video.keys() | b.per_video.keys())
    if not videos:
        return {}
    sides = (
        StoredSums(s.params, {v: s.per_video.get(v, VideoSums()) for v in videos}) for s in (a, b)
    )
    found = compare(*sides, resamples=args.resamples, seed=args.seed)
    return {name: asdict(found.differences[name]) for name in SCORES}


def check(args: argparse.Namespace) -> None:
    """Refuse bad options before anything is read."""
    check_options(args)
    if args.within is not None:
        if args.holoassist is not None:
            raise UserError("--within", "a task is a whole video's", "leave it out")
        if not 0 <= args.within < math.inf:
            raise UserError("--within", f"it is {args.within}", "use seconds, 0 or more")
    inputs = [*args.ref, *args.pred, args.against, args.csv, args.holoassist]
    check_target(args.out, [path for path in inputs if path])


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Read, score, split, write, print."""
    args = parser().parse_args(argv)
    check(args)
    timelines, _ = read_all_references(args.ref)
    check_references(args.ref, references_of(timelines, args.all_assistant))
    predictions, in_several = read_all_predictions(args.pred)
    systems = [predictions]
    systems += [read_predictions(args.against)] if args.against else []
    embedder = find_embedder(args.embedder, cache=args.embed_cache)
    report, grouping = evaluate(timelines, systems, embedder, args)
    report["embedder"] = embedder.name
    report["counts"]["videos_in_several_files"] = in_several
    show(report, grouping, Console())
    write_json(args.out, report)
    for line in group_notes(report):
        print(f"note: {line}", file=sys.stderr)
    if "against" in report:  # of the embedder once is enough
        for line in group_notes({**report["against"], "embedder": PAPER_EMBEDDER}):
            print(f"note: against: {line}", file=sys.stderr)
    print(f"{args.out}: {len(report['groups'])} groups, {report['all']['references']} references")
    return 0


if __name__ == "__main__":
    sys.exit(main())
