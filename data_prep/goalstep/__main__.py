"""Command line of the Goal-Step step (see the package)."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from data_prep.common.annotations import read_annotation_file, video_path
from data_prep.common.options import add_options, options_of
from data_prep.common.report import Tally, print_report, write_report
from data_prep.goalstep import annotation, dialogue
from data_prep.goalstep.rewrite import KEY, Rewriter
from data_prep.goalstep.turns import Video, count, timeline
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import writable_folder, write_json
from vlm_tsi.timeline import Timeline, write_timelines


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="python -m data_prep.goalstep",
        description="Goal-Step's steps, or a streaming dialogue, as timelines of guidance.",
        epilog="""Without rewriting it takes seconds, so a run is whole or not at all: --resume is
        accepted, and does the same work again to the same bytes. Rewritten turns are always
        kept in their cache. A split is a file: give train and val folders of their own.
        Example: python -m data_prep.goalstep --annotations goalstep_train.json
        --out data/goalstep/train --videos /corpora/ego4d/full_scale""",
    )
    add = parser.add_argument
    taken = "Goal-Step's annotation, or a streaming dialogue (.json, .json.gz)"
    add("--annotations", required=True, metavar="FILE", help=taken)
    add("--out", required=True, metavar="DIR", help="made if it is not there")
    folder = "the folder of <video_uid>.mp4 (default: the timelines' own)"
    add("--videos", metavar="ROOT", help=folder)
    lengths = "for a dialogue: {video_uid: seconds}, or Goal-Step's annotation"
    add("--durations", metavar="FILE", help=lengths)
    add("--seed", type=int, default=0, help="of the templates (default: 0)")
    add = parser.add_argument_group("rewriting (off without --rewrite-url)").add_argument
    url = f"an OpenAI-compatible endpoint, as http://localhost:8000/v1; its key in {KEY}"
    add("--rewrite-url", metavar="URL", help=url)
    add("--rewrite-model", default="", metavar="NAME", help="the endpoint's name of the model")
    add("--rewrite-cache", metavar="DIR", help="default: rewrites under --out")
    add("--rewrite-timeout", type=float, default=60.0, metavar="S", help="default: 60")
    add_options(parser, parallel=False)
    return parser


def read_input(path: str) -> dict[str, Any] | list[Any]:
    """The parsed file: a dict with `videos` (annotation), or a list (dialogue)."""
    data = read_annotation_file(path)
    is_annotation = isinstance(data, dict) and isinstance(data.get("videos"), list)
    if not is_annotation and not isinstance(data, list):
        mend = "name Goal-Step's annotation (videos: […]) or a streaming dialogue (a list)"
        raise UserError(path, "is neither an annotation nor a dialogue", mend)
    if not (data["videos"] if isinstance(data, dict) else data):
        raise UserError(path, "lists no video", "name another file")
    return data


def check(args: argparse.Namespace, is_annotation: bool) -> None:
    """Refuse options that do not fit the input."""
    if args.videos is not None and not Path(args.videos).is_dir():
        raise UserError("--videos", f"{args.videos} is no folder", "name the videos' folder")
    if is_annotation and args.durations:
        raise UserError("--durations", "the annotation has its own", "leave it out")
    if not is_annotation and args.rewrite_url:
        raise UserError("--rewrite-url", "a dialogue is not rewritten", "give the annotation")
    if args.rewrite_url is None and (args.rewrite_model or args.rewrite_cache):
        raise UserError("--rewrite-url", "is missing", "give it with the other rewrite options")
    if not 0 < args.rewrite_timeout <= 3600:
        problem = f"is {args.rewrite_timeout}"
        raise UserError("--rewrite-timeout", problem, "give seconds above 0, up to 3600")


def rewriter(args: argparse.Namespace, out: Path) -> Rewriter | None:
    """The rewriter that the options ask for, if any."""
    if args.rewrite_url is None:
        return None
    cache = Path(args.rewrite_cache or out / "rewrites")
    return Rewriter(args.rewrite_url, args.rewrite_model, cache, timeout=args.rewrite_timeout)


def build(videos: Sequence[Video], root: str | None, out: Path) -> list[Timeline]:
    """Set all times; gives the timelines of the videos that have something to say."""
    found = []
    for video in track(videos, "Goal-Step", console=Console(stderr=True)):
        if not video.dropped:
            made = timeline(video, video_path(root, _file(video), out))
            found += [made] if made else []
    return found


def _file(video: Video) -> str:
    return f"{video.meta.get('video_uid', video.uid)}.mp4"


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    args = arguments().parse_args(argv)
    options, data = options_of(args), read_input(args.annotations)
    check(args, isinstance(data, dict))
    out = writable_folder(args.out)
    asked = rewriter(args, out)
    if isinstance(data, dict):
        unit, videos = "segment", annotation.read_videos(data, args.seed, options.limit)
    else:
        durations = dialogue.read_durations(args.durations) if args.durations else {}
        unit, videos = "turn", dialogue.read_videos(data, durations, options.limit)
    if asked:
        asked.rewrite(videos)
    timelines = build(videos, args.videos, out)
    entries, tally = Tally(unit), Tally("video")
    for video in videos:
        count(video, entries, tally)
    settings = {"input": "annotation" if unit == "segment" else "dialogue", "limit": options.limit,
                "seed": args.seed, "rewrite_model": args.rewrite_model or None}  # fmt: skip
    write_report(out / "report.json", "goalstep", [entries, tally], settings)
    print_report([entries, tally])
    if not timelines:  # an earlier run's stay
        raise UserError(args.annotations, f"none of its {len(videos)} videos has anything to say",
                        "see report.json")  # fmt: skip
    write_timelines(out / "timelines.jsonl", timelines)
    write_json(out / "dialogue.json", dialogue.conversations(timelines))
    for problem in sorted(set(asked.problems))[:3] if asked else []:
        print(f"warning: rewriting: {problem}", file=sys.stderr)
    print(f"{out}: {len(timelines)} timelines, {entries.kept} turns, dialogue.json; "
          "report.json says what was left out")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
