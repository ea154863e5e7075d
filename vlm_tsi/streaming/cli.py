"""The command behind infer_stream.py.

Input: command-line words. Output: an exit code; files in `--out`, utterances on stdout.
Invariant: what can be wrong with options, output folder and video is told before the model
is loaded; finished utterances are on the disk before anything that may still fail.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from vlm_tsi.errors import Parser, UserError
from vlm_tsi.files import check_target, writable_folder
from vlm_tsi.model.loading import Loaded, config_at
from vlm_tsi.sequence.interleave import SchemeName
from vlm_tsi.stopping import asked_to_stop
from vlm_tsi.streaming.batch import Source, Streamed, load, run_datapoints
from vlm_tsi.streaming.display import Display, counting, note
from vlm_tsi.streaming.keyboard import TypedLines, is_at_terminal
from vlm_tsi.streaming.live import LiveResult, stream_live, stream_name
from vlm_tsi.streaming.outputs import (
    batch_lines,
    live_lines,
    settings_facts,
    write_batch,
    write_live,
)
from vlm_tsi.streaming.settings import Rounding, StreamSettings, resolved
from vlm_tsi.streaming.spool import SPOKEN, Spool, check_output, source_of
from vlm_tsi.streaming.window import Keep
from vlm_tsi.video.annotate import annotate
from vlm_tsi.video.reader import is_live, probe

EXAMPLES = """
examples:
  python infer_stream.py clip.mp4 --model runs/demo/tsi/model --out runs/clip
  python infer_stream.py clip.mp4 --model DIR --out DIR --realtime --annotate clip_said.mp4
  python infer_stream.py 0 --model DIR --out DIR                      (the first camera)
  python infer_stream.py --timeline test.jsonl --model DIR --out DIR --workers 2
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    p = Parser(
        prog="infer_stream.py",
        description="Stream a video, a camera or a file of datapoints through a model.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("video", nargs="?", metavar="VIDEO", help="file, camera (0, /dev/video0) or URL")
    p.add_argument("--model", required=True, metavar="DIR", help="checkpoint folder")
    p.add_argument("--base", metavar="DIR", help="base model of an adapter, if it has moved")
    p.add_argument("--device", default="cpu", help="cpu (default), cuda, …")
    p.add_argument("--out", required=True, metavar="DIR", help="where the results go")
    _add_live(p.add_argument_group("one video"))
    _add_timeline(p.add_argument_group("datapoints (TGLG protocol)"))
    _add_decoding(p.add_argument_group("how to speak (default: as the model's config says)"))
    return p


def _add_live(group: Any) -> None:
    group.add_argument(
        "--realtime", action="store_true", help="pace by the clock, drop stale frames"
    )
    group.add_argument("--annotate", metavar="OUT.mp4", help="burn the captions into a copy")
    group.add_argument(
        "--user-input", action="store_true",
        help="lines on stdin are a user's turns (the default where stdin is a terminal)",
    )  # fmt: skip


def _add_timeline(group: Any) -> None:
    group.add_argument("--timeline", metavar="T.jsonl", help="datapoints; videos lie beside it")
    group.add_argument("--workers", type=int, metavar="N", help="processes (default: 1)")
    group.add_argument("--store", metavar="DIR", help="keeps frame features between runs")


def _add_decoding(group: Any) -> None:
    group.add_argument("--policy", choices=get_args(SchemeName))
    group.add_argument("--threshold", type=float, help="turn_based: speak below this silence")
    group.add_argument("--fps", type=float, help="frames a second")
    group.add_argument("--system", metavar="TEXT", help="given before anything happens")
    group.add_argument("--temperature", type=float, default=0.0, help="0: the likeliest token")
    group.add_argument("--seed", type=int, default=0, help="of the draws at a temperature above 0")
    group.add_argument("--rounding", choices=get_args(Rounding), default="accumulate",
                       help="tokens a frame: by speech time, or rounded up")  # fmt: skip
    group.add_argument("--max-tokens", type=int, default=128, help="longest utterance")
    group.add_argument("--onset", type=float,
                       help="start this share of a gap after the frame (0: with it)")  # fmt: skip
    group.add_argument("--window", default="trained", type=_seconds_or_word, metavar="SECONDS",
                       help="of frames that are kept; trained: as many as the language model "
                       "was made for (default); none: all")  # fmt: skip
    group.add_argument("--window-text", type=int, default=256, help="tokens of text that are kept")
    group.add_argument("--window-keep", choices=get_args(Keep), default="recent",
                       help="frames that stay: the last ones, or those that differ")  # fmt: skip
    group.add_argument("--eager-close", action=argparse.BooleanOptionalAction,
                       help="let a sentence end before the next frame is seen")  # fmt: skip


def _seconds_or_word(text: str) -> float | str:
    """A number, or a word that `StreamSettings` knows or refuses."""
    try:
        return float(text)
    except ValueError:
        return text


def run(argv: Sequence[str] | None = None) -> int:
    """Parse, check, stream, write."""
    args = parser().parse_args(argv)
    settings = StreamSettings(
        policy=args.policy, threshold=args.threshold, fps=args.fps, system=args.system,
        temperature=args.temperature, seed=args.seed, rounding=args.rounding,
        max_tokens=args.max_tokens, eager_close=args.eager_close, onset=args.onset,
        window=args.window, window_text=args.window_text, window_keep=args.window_keep,
    )  # fmt: skip
    return (_run_timeline if args.timeline else _run_video)(args, settings)


def _chosen(args: argparse.Namespace, settings: StreamSettings) -> StreamSettings:
    """The settings in full, before a weight is loaded."""
    chosen = resolved(settings, config_at(Path(args.model)))
    if args.threshold is not None and chosen.policy != "turn_based":
        mend = "leave it out, or take --policy turn_based"
        raise UserError("--threshold", f"does not go with the policy {chosen.policy}", mend)
    return chosen


def _run_timeline(args: argparse.Namespace, settings: StreamSettings) -> int:
    _refuse(args, ("realtime", "annotate", "user_input"), "does not go with --timeline",
            "stream one VIDEO with it")  # fmt: skip
    folder = writable_folder(args.out)
    check_output(folder, args.timeline)
    chosen = _chosen(args, settings)
    journal = folder / ".unfinished.jsonl"
    began = time.monotonic()
    with asked_to_stop(at_once=True) as asked:
        try:
            done = _stream_datapoints(args, settings, journal)
        except KeyboardInterrupt:
            note("interrupted: what is done is kept; the same command goes on from it")
            return 128 + (asked[0] if asked else signal.SIGINT)
    _check_done(args.timeline, done, journal)
    about = {"timeline": args.timeline, "source": source_of(args.timeline), **_about(args, chosen)}
    facts = write_batch(folder, done, about, time.monotonic() - began)
    journal.unlink(missing_ok=True)
    for line in [*batch_lines(facts), f"wrote {folder / SPOKEN}"]:
        note(line)
    return 0


def _stream_datapoints(
    args: argparse.Namespace, settings: StreamSettings, journal: Path
) -> list[Streamed]:
    with counting() as show:
        return run_datapoints(
            Source(args.model, args.base, args.store, args.device), Path(args.timeline), settings,
            workers=1 if args.workers is None else args.workers,
            video=Path(args.video) if args.video else None, journal=journal, on_done=show,
        )  # fmt: skip


def _check_done(timeline: str, done: Sequence[Streamed], journal: Path) -> None:
    """Refuse to write nothing over an earlier run's output."""
    if not done:
        journal.unlink(missing_ok=True)
        raise UserError(timeline, "holds no datapoint", "name a file that has some")
    if all(d.error is not None for d in done):
        journal.unlink(missing_ok=True)
        problem = f"none of its {len(done)} datapoints can be streamed ({done[0].error})"
        raise UserError(timeline, problem, "mend the first and try again")


def _refuse(args: argparse.Namespace, names: Sequence[str], problem: str, mend: str) -> None:
    """No option that would be ignored."""
    for name in names:
        if (given := getattr(args, name)) is not None and given is not False:
            raise UserError(f"--{name.replace('_', '-')}", problem, mend)


def _about(args: argparse.Namespace, settings: StreamSettings) -> dict[str, Any]:
    return {
        "model": args.model,
        "base": args.base,
        "device": args.device,
        "settings": settings_facts(settings),
    }


def _run_video(args: argparse.Namespace, settings: StreamSettings) -> int:
    if args.video is None:
        raise UserError("VIDEO", "is not given", "name a video, or datapoints with --timeline")
    _refuse(args, ("workers", "store"), "is for datapoints", "leave it out, or give --timeline")
    _check_annotate(args)
    folder = writable_folder(args.out)
    check_output(folder, args.video, stream_name(args.video), is_live=is_live(args.video))
    seconds = None if is_live(args.video) else probe(args.video).duration
    chosen = _chosen(args, settings)
    loaded = load(Source(args.model, args.base, device=args.device))
    spool = Spool(folder)
    with Display(seconds) as display:
        result = stream_live(
            loaded, args.video, settings, realtime=args.realtime,
            typed=_typed(args.user_input), watcher=display, spool=spool.add,
        )  # fmt: skip
    result.warnings += [*_too_long(loaded, result), *([spool.problem] if spool.problem else [])]
    about = {"video": args.video, "source": source_of(args.video), **_about(args, chosen)}
    paths = write_live(folder, result, {**about, "realtime": args.realtime})
    spool.remove()
    _report(args, result, paths)
    if display.problem is not None:
        note(f"stopped after {result.frames} frames: {display.problem}")
    if result.broken is not None:
        raise result.broken
    return 128 + result.stopped_by if result.stopped_by and not is_live(args.video) else 0


def _report(args: argparse.Namespace, result: LiveResult, paths: list[Path]) -> None:
    for line in [*live_lines(result), f"wrote {', '.join(str(p) for p in paths)}"]:
        note(line)
    if args.annotate:
        annotate(args.video, result.recorder.finished, args.annotate, result.recorder.words)
        note(f"wrote {args.annotate}")


def _check_annotate(args: argparse.Namespace) -> None:
    if not args.annotate:
        return
    if is_live(args.video):
        raise UserError("--annotate", f"{args.video} is no file", "stream a video file")
    if Path(args.annotate).suffix.lower() != ".mp4":
        raise UserError(args.annotate, "not an .mp4 path", "end the name in .mp4")
    check_target(args.annotate, [args.video])


def _typed(is_asked: bool) -> Callable[[], list[str]]:
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):
        return list
    if is_asked or is_at_terminal(descriptor):
        return TypedLines(os.dup(descriptor)).take
    return list


def _too_long(loaded: Loaded, result: LiveResult) -> list[str]:
    """A warning where the stream outgrew what the language model was made for."""
    limit = getattr(loaded.model.text_config, "max_position_embeddings", None)
    if limit is None or result.positions <= limit or result.log.evicted:
        return []
    return [f"the stream has {result.positions} positions, the language model knows {limit}"]
