"""Measure models teacher-forced, as VideoLLM-Online does.

Input: one or more checkpoint folders, timelines with their videos. Output: on the terminal and
as JSON, for each model perplexity, correctness, time difference and fluency of its turns, over
turns and over videos, with 95% intervals from a bootstrap over whole videos; counts of what was
read and left out.
Invariant: both schemes are read by their own rules from the same timelines; what cannot be
used is counted with its reason; every number is finite.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from eval.stream_lm_turns import Reader
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import check_target, write_json
from vlm_tsi.model.fingerprint import encoder_key
from vlm_tsi.model.frames import Frames, encode_video, stored_frames
from vlm_tsi.model.loading import config_at
from vlm_tsi.scoring.groups import RESAMPLES
from vlm_tsi.scoring.stream_lm import Mean, TurnMeasures, means, measure, video_means
from vlm_tsi.sequence.interleave import Scheme, SchemeName, interleave
from vlm_tsi.sequence.tokens import encoder
from vlm_tsi.streaming.batch import Source, load
from vlm_tsi.streaming.settings import StreamSettings, decoding_for, resolved
from vlm_tsi.timeline import Timeline
from vlm_tsi.training.data import read_with_videos
from vlm_tsi.video.features import FeatureStore

COLUMNS = {
    "perplexity": ("Perplexity", "{:.2f}", 1.0), "correctness": ("Correct %", "{:.1f}", 100.0),
    "time_diff": ("TimeDiff s", "{:.2f}", 1.0), "frame_diff": ("in frames", "{:.2f}", 1.0),
    "fluency": ("Fluency %", "{:.1f}", 100.0),
}  # fmt: skip
LONG, NO_TURN = "longer than {} positions", "without a turn of the assistant's"

EXAMPLES = """
examples:
  python -m eval.stream_lm --model runs/demo/tsi/model --timelines val.jsonl --out lm.json
  python -m eval.stream_lm --model runs/demo/tsi/model runs/demo/turn_based/model \\
      --timelines runs/demo/data/signals-val/timelines.jsonl --out lm.json --limit 20
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    p = Parser(
        prog="python -m eval.stream_lm",
        description=__doc__.split("\n")[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--model", required=True, nargs="+", metavar="DIR", help="checkpoint folder(s)")
    p.add_argument(
        "--timelines", required=True, nargs="+", metavar="T.jsonl", help="their videos lie beside"
    )
    p.add_argument("--out", required=True, metavar="S.json", help="where the measures go")
    p.add_argument("--threshold", type=float, help="turn_based: speak below this silence")
    p.add_argument("--device", default="cpu", help="cpu (default), cuda, …")
    p.add_argument("--store", metavar="DIR", help="keeps frame features between runs")
    p.add_argument("--limit", type=int, metavar="N", help="the first N timelines of each file")
    p.add_argument(
        "--max-positions", type=int, default=8192, help="leave longer ones out (%(default)s)"
    )
    p.add_argument("--resamples", type=int, default=RESAMPLES, help="bootstrap (%(default)s)")
    p.add_argument("--seed", type=int, default=0, help="of the bootstrap (%(default)s)")
    return p


class Measurer:
    """Measures timelines with one model."""

    def __init__(self, folder: str, args: argparse.Namespace) -> None:
        loaded = load(Source(folder, device=args.device))
        self.model, self.encode = loaded.model, encoder(loaded.tokenizer)
        settings = resolved(StreamSettings(threshold=args.threshold), self.model.config)
        self.reader = Reader(self.model, decoding_for(settings, self.model, folder).policy)
        # Every silent frame is labelled, whatever weight it had in training: it is a decision.
        self.scheme = Scheme(name=self._scheme(), silence_weight=1.0)
        self.fps, self.most = float(self.model.config.fps), args.max_positions
        self.store = None
        if args.store:
            self.store = FeatureStore(args.store, encoder_key(self.model, self.fps))
        self.counts: Counter[str] = Counter()
        self.left_out: dict[str, list[str]] = {}
        self.turns: dict[str, list[TurnMeasures]] = {}

    def _scheme(self) -> SchemeName:
        name: SchemeName = self.model.config.scheme  # type: ignore[assignment]
        return name

    def add(self, timeline: Timeline, video: Path) -> None:
        """Measure one timeline, or count why not."""
        self.counts["timelines"] += 1
        if not any(u.role == "assistant" for u in timeline.utterances):
            return self._leave(NO_TURN, timeline.video_id)
        try:
            times_F, features_FTV = self._frames(video)
        except UserError as err:
            return self._leave("whose video cannot be read", str(err))
        sequence = interleave(
            timeline.utterances, times_F, self.model.tokens, self.encode, self.scheme,
            timeline.system,
        )  # fmt: skip
        if len(sequence) > self.most:
            return self._leave(LONG.format(self.most), timeline.video_id)
        readings, outside = self.reader.read(sequence, features_FTV)
        self.counts.update(outside)
        self.counts["frames"] += len(times_F)
        self.counts["text_positions"] += sum(len(r.losses_M) for r in readings)
        self.turns.setdefault(str(timeline.video_path), []).extend(map(measure, readings))
        return None

    def _frames(self, video: Path) -> Frames:
        if self.store is not None:
            return stored_frames(self.model, video, self.fps, self.store)
        return encode_video(self.model, video, self.fps)

    def _leave(self, reason: str, what: str) -> None:
        self.left_out.setdefault(reason, []).append(what)

    def result(self, args: argparse.Namespace) -> dict[str, Any]:
        """The model's part of the JSON file."""
        every = [turn for turns in self.turns.values() for turn in turns]
        pools = means(self.turns, resamples=args.resamples, seed=args.seed)
        return {
            "scheme": self.scheme.name,
            "fps": self.fps,
            "threshold": getattr(self.reader.policy, "threshold", None),
            **{pool: {n: _plain(m) for n, m in found.items()} for pool, found in pools.items()},
            "counts": {
                "videos": len(self.turns),
                "turns": len(every),
                "turns_opened_by_a_frame": sum(t.frame_diff is not None for t in every),
                "turns_never_begun": sum(t.never for t in every),
                "turns_of_cut_perplexity": sum(t.is_cut for t in every),
                **self.counts,
            },
            "left_out": {reason: len(names) for reason, names in self.left_out.items()},
            "left_out_examples": {reason: names[:5] for reason, names in self.left_out.items()},
            "per_video": {
                video: {"turns": len(turns), **video_means(turns)}
                for video, turns in sorted(self.turns.items())
            },
        }  # fmt: skip


def _plain(mean: Mean | None) -> dict[str, Any] | None:
    return None if mean is None else asdict(mean)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Every model over all timelines.

    Raises:
        UserError: a model cannot be loaded, or no turn could be measured with it.
    """
    rows = [row for path in args.timelines for row in read_with_videos(path, args.limit)]
    models = {}
    for folder in args.model:
        measurer = Measurer(folder, args)
        for timeline, video in _tracked(rows, folder):
            measurer.add(timeline, video)
        if not measurer.turns:
            reason = next(iter(measurer.left_out), "it holds no timeline")
            first = measurer.left_out.get(reason, [""])[0]
            problem = f"no turn could be measured ({reason}: {first})" if first else reason
            raise UserError(" ".join(args.timelines), problem, "name timelines with their videos")
        models[folder] = measurer.result(args)
    return {
        "models": models,
        "timelines": list(args.timelines),
        "resamples": args.resamples,
        "seed": args.seed,
    }


def _tracked(rows: Sequence[tuple[Timeline, Path]], what: str) -> Iterator[tuple[Timeline, Path]]:
    console = Console(stderr=True)
    yield from track(rows, f"reading {what}", console=console, disable=not rows)


def show(report: Mapping[str, Any], console: Console) -> None:
    """For each model and pool a row of values and one of their intervals."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("teacher-forced", no_wrap=True)
    for heading, _, _ in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for i, (folder, found) in enumerate(report["models"].items(), 1):
        console.print(f"{i}  {folder}", highlight=False, markup=False, soft_wrap=True)
        for pool in ("micro", "macro"):
            cells = [_cells(found[pool][name], *COLUMNS[name][1:]) for name in COLUMNS]
            values, spans = zip(*cells, strict=True)
            table.add_row(f"{i} {found['scheme']} {pool}", *values)
            table.add_row("  95% interval", *spans)
    console.print(table)


def _cells(mean: Mapping[str, float] | None, form: str, scale: float) -> tuple[str, str]:
    """A value and its interval, as texts."""
    if mean is None:
        return "none", ""
    value, low, high = (form.format(scale * mean[n]) for n in ("value", "low", "high"))
    return value, f"{low}-{high}"


def notes(report: Mapping[str, Any]) -> list[str]:
    """One line for each thing left out, and how much was measured."""
    lines = []
    for folder, found in report["models"].items():
        counts = found["counts"]
        lines.append(
            f"{folder}: {counts['turns']} turns of {counts['videos']} videos; a frame opens "
            f"{counts['turns_opened_by_a_frame']} of them, {counts['turns_never_begun']} were "
            "never begun"
        )
        for reason, n in found["left_out"].items():
            lines.append(f"{folder}: left out {n} timeline(s) {reason}: "
                         f"{found['left_out_examples'][reason][0]}")  # fmt: skip
    return lines


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Check, measure, print, write."""
    args = parser().parse_args(argv)
    for name, least in (("limit", 1), ("max_positions", 1), ("resamples", 1), ("seed", 0)):
        value = getattr(args, name)
        if value is not None and value < least:
            flag = "--" + name.replace("_", "-")
            raise UserError(flag, f"it is {value}", f"use a whole number from {least} on")
    if len(set(args.model)) < len(args.model):
        raise UserError("--model", "names a folder twice", "name each once")
    check_target(args.out, args.timelines)
    schemes = {config_at(Path(folder)).scheme for folder in args.model}
    if args.threshold is not None and "turn_based" not in schemes:
        raise UserError("--threshold", "is for turn_based models, there is none", "leave it out")
    report = run(args)
    show(report, Console())
    for line in notes(report):
        print(f"note: {line}", file=sys.stderr)
    write_json(args.out, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
