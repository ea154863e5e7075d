"""Check timelines before anything is trained or scored on them.

Input: timeline or datapoint JSONL files; the videos they name. Output: a summary, or a list of
all that is wrong (not only the first).
Invariant: exit code 0 means that every line parses, ids are unique over all files, windows are
[start, end] inside the video, what is scored lies inside its window, words inside their
utterances, and every video is there and as long as it is said to be.

    python -m data_prep.validate data/soccernet/timelines/*_datapoints.jsonl
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.progress import track

from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import parse_json, read_text
from vlm_tsi.timeline import Timeline, timeline_from_dict

SLACK = 0.001
"""Seconds by which rounded times may stick out."""
VIDEO_SLACK = 1.0
"""Seconds by which a length may differ from the video's."""


@dataclass
class Checked:
    """What was found: counts, and each problem as one line."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def check_files(files: Sequence[str], *, videos: bool = True) -> Checked:
    """Check every line of some files.

    Args:
        files: JSONL; video paths are seen from each one's folder.
        videos: look at the videos as well.
    """
    checked, seen = Checked(), dict[str, str]()
    for file in files:
        lines = read_text(file).split("\n")
        numbered = [(n, line) for n, line in enumerate(lines, start=1) if line.strip()]
        for number, line in track(numbered, Path(file).name, console=Console(stderr=True)):
            _check_line(line, f"{file}:{number}", file if videos else None, seen, checked)
        if not numbered:
            checked.problems.append(f"{file}: holds no line")
    return checked


def _check_line(
    line: str, where: str, file: str | None, seen: dict[str, str], checked: Checked
) -> None:
    checked.counts["lines"] += 1
    try:
        timeline = timeline_from_dict(parse_json(line, where), where)
    except UserError as err:
        checked.problems.append(str(err))
        return
    first = seen.setdefault(timeline.video_id, where)
    if first != where:
        checked.problems.append(f"{where}: video_id {timeline.video_id!r} stands at {first} too")
    checked.counts["utterances"] += len(timeline.utterances)
    checked.counts["scored"] += sum(u.eval for u in timeline.utterances)
    checked.counts["words"] += sum(len(u.words) for u in timeline.utterances)
    problems = [*_windows(timeline), *_words(timeline)]
    if file is not None:
        problems += _video(Path(file).parent / timeline.video_path, timeline)
    checked.problems += [f"{where}: {problem}" for problem in problems]


def _windows(timeline: Timeline) -> Iterator[str]:
    if "window" not in timeline.meta:
        return
    window = timeline.meta["window"]
    is_span = isinstance(window, list) and len(window) == 2 and all(map(_is_time, window))
    if not is_span or window[0] > window[1]:
        yield f"meta.window is {window!r}; use [start, end] in seconds"
        return
    if window[1] > timeline.duration + VIDEO_SLACK:
        yield f"meta.window ends at {window[1]}, after the video ({timeline.duration} s)"
    for i, u in enumerate(timeline.utterances):
        if u.eval and (u.start < window[0] - SLACK or u.end > window[1] + SLACK):
            yield f"utterances[{i}] is scored but {u.start}-{u.end} s is not in meta.window"


def _is_time(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf  # type: ignore[operator]


def _words(timeline: Timeline) -> Iterator[str]:
    for i, u in enumerate(timeline.utterances):
        for k, word in enumerate(u.words):
            if word.start < u.start - SLACK or word.end > u.end + SLACK:
                yield (
                    f"utterances[{i}].words[{k}] is at {word.start}-{word.end} s, "
                    f"outside of its utterance ({u.start}-{u.end} s)"
                )


def _video(path: Path, timeline: Timeline) -> Iterator[str]:
    if not timeline.video_path:
        yield "video_path is empty; name the video, or give --no-video"
        return
    length = _length(path)
    if isinstance(length, str):
        yield f"video {length}"
    elif length is not None and abs(length - timeline.duration) > VIDEO_SLACK:
        yield f"duration is {timeline.duration} s, but {path} has {length:.2f} s"


@cache
def _length(path: Path) -> float | str | None:
    """Seconds that the video says it has (None if it does not), or what is wrong with it."""
    from vlm_tsi.video.reader import probe

    try:
        return probe(path).duration
    except UserError as err:
        return str(err)


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="python -m data_prep.validate",
        description="Check that timelines keep their contracts; exit code 2 with a list if not.",
        epilog="Give files that share ids (timelines.jsonl and its splits) in runs of their own. "
        "Example: python -m data_prep.validate data/soccernet/timelines/timelines.jsonl",
    )
    parser.add_argument("timelines", nargs="+", metavar="FILE")
    parser.add_argument("--no-video", action="store_true", help="do not look at the videos")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    args = arguments().parse_args(argv)
    checked = check_files(args.timelines, videos=not args.no_video)
    for problem in checked.problems:
        print(problem)
    counts = ", ".join(f"{checked.counts[k]:,} {k}" for k in ("lines", "utterances", "scored"))
    found = f"{len(checked.problems)} problems" if checked.problems else "all well"
    print(f"{len(args.timelines)} files, {counts}: {found}")
    return 2 if checked.problems else 0


if __name__ == "__main__":
    sys.exit(main())
