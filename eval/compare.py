"""Compare two systems, scored on the same videos, by their score files.

Input: two files that `python -m eval.tglg --out` wrote. Output: for each of Table 2's columns
both percentages, their difference (A less B) with its 95% interval from a paired bootstrap over
the shared videos, and the share of those videos that each one wins; then the references on which
the two differ most, with what each said. With `--out` the same as JSON.
Invariant: nothing is aligned or embedded again; the order of videos and pairs does not matter;
files made with other parameters, another embedder or other references are refused; videos that
only one file has are counted and named.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eval.score_files import ScoreFile, check_alike, read_scores
from eval.tglg import COLUMNS
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import check_target, write_json
from vlm_tsi.scoring.groups import RESAMPLES, Comparison, Wins, compare
from vlm_tsi.scoring.params import TOLERANCE, TraceParams
from vlm_tsi.scoring.trace_score import Pair, combine
from vlm_tsi.scoring.whole_videos import whole_video

CHANGES = 20
FEW_VIDEOS = 10
PAIR_SCORES = ("semantic", "timing", "start", "end", "overlap")

EXAMPLES = """
examples:
  python -m eval.compare tsi.json turn_based.json
  python -m eval.compare tsi.json turn_based.json --out comparison.json --changes 50
the two files:
  python -m eval.tglg --ref ref.jsonl --pred tsi.jsonl --out tsi.json
  python -m eval.tglg --ref ref.jsonl --pred turn_based.jsonl --out turn_based.json
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A reference on which two systems differ; `change` is A's pair score less B's, -1..1.

    A pair's score weighs its parts as TRACE does (Equations 16 and 17); a missed reference
    (None) has 0.
    """

    change: float
    a: Pair | None
    b: Pair | None

    @property
    def reference(self) -> Pair:
        """The pair that knows the reference."""
        known = self.a or self.b
        assert known is not None, "one of the two has it"
        return known


def changes(a: ScoreFile, b: ScoreFile) -> list[Change]:
    """Each reference of the shared videos on which the two differ, the largest change first."""
    shared = a.sums.per_video.keys() & b.sums.per_video.keys()
    found = []
    for key in a.pairs.keys() | b.pairs.keys():
        if key[0] in shared:
            sides = a.pairs.get(key), b.pairs.get(key)
            first, second = (pair_score(p, a.sums.params) for p in sides)
            if abs(first - second) > TOLERANCE:
                found.append((-abs(first - second), key, Change(first - second, *sides)))
    return [change for _, _, change in sorted(found, key=lambda x: x[:2])]


def pair_score(pair: Pair | None, params: TraceParams) -> float:
    """What TRACE would be of this pair alone, 0..1; 0 for a missed reference."""
    if pair is None:
        return 0.0
    return float(combine(pair.semantic, pair.start, pair.end, pair.overlap, params)[1])


def build(a: ScoreFile, b: ScoreFile, args: argparse.Namespace) -> dict[str, Any]:
    """Everything that goes into the JSON file."""
    videos = {v: a.sources.get(v) or b.sources.get(v) or whole_video(v) for v in a.sums.per_video}
    pools: dict[str, Comparison] = {
        pool: compare(
            a.sums, b.sums, pool=pool, resamples=args.resamples, seed=args.seed, videos=videos
        )
        for pool in ("micro", "macro")
    }  # fmt: skip
    micro = pools["micro"]
    found = changes(a, b)
    ways = {
        "a_better": [c for c in found if c.change > 0],
        "b_better": [c for c in found if c.change < 0],
    }
    return {
        "a": {"file": Path(a.path).name, **{p: dict(c.first) for p, c in pools.items()}},
        "b": {"file": Path(b.path).name, **{p: dict(c.second) for p, c in pools.items()}},
        "differences": {
            pool: {name: asdict(x) for name, x in c.differences.items()}
            for pool, c in pools.items()
        },
        "wins": {name: _shares(wins, micro.n_videos) for name, wins in micro.wins.items()},
        "videos": {
            "shared": micro.n_videos,
            "whole": len({videos[v] for v in a.sums.per_video if v in b.sums.per_video}),
            "only_a": sorted(micro.only_first),
            "only_b": sorted(micro.only_second),
        },
        "references": {
            "changed": len(found), **{way: len(some) for way, some in ways.items()}
        },
        "changes": {
            way: [_change(c, a.sums.params) for c in some[: args.changes]]
            for way, some in ways.items()
        },
        "embedder": a.embedder,
        "params": asdict(a.sums.params),
        "resamples": args.resamples,
        "seed": args.seed,
    }  # fmt: skip


def _shares(wins: Wins, n_videos: int) -> dict[str, float]:
    """Videos won by A, by B and by neither, and A's share of all of them (percent)."""
    share = {"a_share": 100 * wins.first / n_videos, "b_share": 100 * wins.second / n_videos}
    return {"a": wins.first, "b": wins.second, "ties": wins.ties, **share}


def _change(change: Change, params: TraceParams) -> dict[str, Any]:
    ref = change.reference
    named = ("video_id", "ref_idx", "ref_text", "ref_start", "ref_end")
    sides = {"a": _said(change.a, params), "b": _said(change.b, params)}
    return {"change": change.change, **{n: getattr(ref, n) for n in named}, **sides}


def _said(pair: Pair | None, params: TraceParams) -> dict[str, Any] | None:
    if pair is None:
        return None
    scores = {"trace": pair_score(pair, params)} | {n: getattr(pair, n) for n in PAIR_SCORES}
    return {"text": pair.gen_text, "start": pair.gen_start, "end": pair.gen_end, "scores": scores}


def show(report: Mapping[str, Any], paths: Sequence[str], console: Console) -> None:
    """Print the table, then the largest changes each way."""
    _say(console, f"A  {paths[0]}\nB  {paths[1]}")
    n, whole = report["videos"]["shared"], report["videos"]["whole"]
    drawn = "" if n == whole else f" of {whole} whole ones, which are resampled"
    title = f"percent, pooled over {n} shared video(s){drawn} (embedder: {report['embedder']})"
    _say(console, title)
    console.print(_table(report))
    _say(console, "* the interval excludes 0; wins and ties: share of the videos, each by itself")
    macro = report["differences"]["macro"]["trace"]
    sides = " and ".join(f"{report[x]['macro']['trace']:.1f}" for x in "ab")
    _say(console, f"mean over videos: TRACE {sides}, difference {_interval(macro)}")
    for way, better in (("a_better", "A"), ("b_better", "B")):
        listed, n = report["changes"][way], report["references"][way]
        if listed:
            _say(console, f"\n{better} better on {n} reference(s); the largest {len(listed)}:")
        for change in listed:
            _say(console, _lines(change))


def _table(report: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in ("A", "B", "A - B", "95% interval", "A wins", "B wins", "ties"):
        table.add_column(heading, justify="right", no_wrap=True)
    n = report["videos"]["shared"]
    for name, heading in COLUMNS.items():
        found, wins = report["differences"]["micro"][name], report["wins"][name]
        table.add_row(
            heading,
            *(f"{report[side]['micro'][name]:.1f}" for side in "ab"),
            f"{found['value']:+.1f}",
            f"{found['low']:+.1f} to {found['high']:+.1f}{_star(found)}",
            *(f"{100 * wins[x] / n:.1f}%" for x in ("a", "b", "ties")),
        )
    return table


def _star(found: Mapping[str, float]) -> str:
    return "*" if found["low"] > 0 or found["high"] < 0 else " "


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['value']:+.1f} (95% {found['low']:+.1f} to {found['high']:+.1f})"


def _lines(change: Mapping[str, Any]) -> str:
    span = f"{change['ref_start']:.1f}-{change['ref_end']:.1f} s"
    lines = [f"{change['change']:+.3f}  {change['video_id']} {span}: {_line(change['ref_text'])}"]
    for side in "ab":
        said = change[side]
        if said is None:
            lines.append(f"    {side.upper()}  missed")
            continue
        scores = " ".join(f"{name} {x:.3f}" for name, x in said["scores"].items())
        lines.append(f"    {side.upper()}  {said['start']:.1f}-{said['end']:.1f} s: ")
        lines[-1] += f"{_line(said['text'])}\n       {scores}"
    return "\n".join(lines)


def _line(text: str) -> str:
    return f'"{" ".join(text.split())}"'


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def notes(report: Mapping[str, Any]) -> list[str]:
    """One line for each thing that was left out, or makes the numbers weak."""
    videos = report["videos"]
    lines = []
    for side in "ab":
        only = videos[f"only_{side}"]
        if only:
            rest = f" and {len(only) - 5} more" if len(only) > 5 else ""
            shown = ", ".join(only[:5]) + rest
            lines.append(f"{len(only)} video(s) only in {side.upper()}, left out: {shown}")
    if videos["whole"] < FEW_VIDEOS:
        lines.append(f"{videos['whole']} shared video(s) are too few for an interval to trust")
    return lines


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    p = Parser(
        prog="python -m eval.compare",
        description=__doc__.split("\n")[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("a", metavar="A", help="score file of eval.tglg; positive differences favour it")
    p.add_argument("b", metavar="B", help="score file of the system compared with")
    p.add_argument("--out", help="where the comparison goes (.json)")
    p.add_argument(
        "--changes", type=int, default=CHANGES, help="most changes shown each way (%(default)s)"
    )
    p.add_argument("--resamples", type=int, default=RESAMPLES, help="bootstrap (%(default)s)")
    p.add_argument("--seed", type=int, default=0, help="of the bootstrap (%(default)s)")
    return p


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Read, compare, write, print."""
    args = parser().parse_args(argv)
    for name, least in (("changes", 0), ("resamples", 1), ("seed", 0)):
        if getattr(args, name) < least:
            problem = f"it is {getattr(args, name)}"
            raise UserError(f"--{name}", problem, f"use a whole number from {least} on")
    if args.out is not None:
        check_target(args.out, [args.a, args.b])
    a, b = read_scores(args.a), read_scores(args.b)
    check_alike(a, b)
    report = build(a, b, args)
    show(report, (args.a, args.b), Console())
    for line in notes(report):
        print(f"note: {line}", file=sys.stderr)
    if args.out is not None:
        write_json(args.out, report)
        print(f"comparison written to {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
