"""Command line of the HoloAssist step (see the package)."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.progress import track

from data_prep.common.annotations import read_annotation_file
from data_prep.common.options import add_options, options_of
from data_prep.common.report import print_report, write_report
from data_prep.holoassist import table
from data_prep.holoassist.videos import Corpus, eval_turns, read_videos
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import writable_folder, write_json
from vlm_tsi.timeline import write_timelines
from vlm_tsi.worlds.datapoints import Rules, datapoints


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="python -m data_prep.holoassist",
        description="HoloAssist's dialogues as timelines, its corrections as datapoints.",
        epilog="""It takes seconds, so a run is whole or not at all: --resume is accepted, and
        does the same work again to the same bytes. What the rules are: docs/data.md.
        Example: python -m data_prep.holoassist --annotations data-annotation-trainval-v1_1.json
        --out data/holoassist --videos /corpora/holoassist""",
    )
    parser.add_argument("--annotations", required=True, metavar="FILE", help=".json or .json.gz")
    parser.add_argument("--out", required=True, metavar="DIR", help="made if it is not there")
    parser.add_argument(
        "--rules",
        choices=("paper", "released"),
        default="paper",
        help="which turns are scored: the paper's words (default), or the released code's way",
    )
    parser.add_argument(
        "--user-turns",
        choices=get_args(table.UserTurns),
        help="a user turn splits a run of scored turns into datapoints (the default of the "
        "paper's rules) or stays inside it (the default of the released code's)",
    )
    parser.add_argument(
        "--videos",
        metavar="ROOT",
        help="the folder of the video folders; paths are written as seen from --out "
        "(default: they lie beside the timelines)",
    )
    add_options(parser, parallel=False)
    return parser


def read_list(path: str) -> list[Any]:
    """The annotation file's list of videos."""
    records = read_annotation_file(path)
    if not isinstance(records, list):
        raise UserError(path, f"is a {type(records).__name__}, not a list of videos",
                        "name HoloAssist's annotation file")  # fmt: skip
    if not records:
        raise UserError(path, "lists no video", "name HoloAssist's annotation file")
    return records


def write(corpus: Corpus, out: Path, way: table.UserTurns) -> int:
    """Write timelines and datapoints; gives the number of datapoints."""
    write_timelines(out / "timelines.jsonl", corpus.timelines)
    split = way == "split"
    found = (d for t in corpus.timelines for d in datapoints(t, split_at_user=split))
    return write_timelines(out / "datapoints.jsonl", found)


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    args = arguments().parse_args(argv)
    options, rules = options_of(args), args.rules
    way: table.UserTurns = args.user_turns or table.USER_TURNS[rules]
    if args.videos is not None and not Path(args.videos).is_dir():
        raise UserError("--videos", f"{args.videos} is no folder", "name the videos' folder")
    out = writable_folder(args.out)
    records = options.first(read_list(args.annotations))
    corpora: dict[Rules, Corpus] = {}
    for each in ("paper", "released"):
        root = args.videos if each == rules else None
        bar = track(records, f"HoloAssist, {each} rules", console=Console(stderr=True))
        corpora[each] = read_videos(bar, each, root, out)
    chosen = corpora[rules]
    settings = {"rules": rules, "user_turns": way, "limit": options.limit}
    tallies = [chosen.events, chosen.videos]
    write_report(out / "report.json", "holoassist", tallies, settings)
    if not chosen.timelines:  # an earlier run's timelines stay
        problem = f"none of its {len(records)} videos could be kept"
        raise UserError(args.annotations, problem, "see report.json")
    count = write(chosen, out, way)
    found = table.rows({each: corpus.timelines for each, corpus in corpora.items()})
    rows = [table.to_dict(r) for r in found]
    write_json(out / "statistics.json", {"chosen": settings, "rows": rows})
    print_report(tallies)
    table.show(found, (rules, way))
    print(f"{out}: {len(chosen.timelines)} timelines, {eval_turns(chosen.timelines)} scored turns, "
          f"{count} datapoints; report.json says what was left out")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
