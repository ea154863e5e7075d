"""Table 1 of the paper for any timelines: datapoints, utterances, tokens, gap.

Input: timeline or datapoint JSONL, or published annotation JSON. Output: a table, and JSON.
Invariant: an utterance counts once in each datapoint that holds it; a gap runs from one
utterance's end to the next one's start within a datapoint and is negative where they overlap;
means are over all utterances, or all gaps, of all datapoints.

Two counts are printed, since the paper does not say which it means: `window` counts from a
datapoint's first scored utterance to its last one (those not scored between them too), which
is what fits its SoccerNet row; `history` adds all that was said before (Equation 3), which is
what fits its HoloAssist row.

    python -m data_prep.stats data/soccernet/timelines/*.jsonl --out table1.json
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from data_prep.soccernet.clusters import cluster_datapoints, has_clusters
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import check_target, write_json
from vlm_tsi.published import TOKENS_PER_WORD, read_references
from vlm_tsi.timeline import Timeline, Utterance
from vlm_tsi.worlds.datapoints import datapoints

MARKS = 4
"""Tokens of a turn's role, colon, line break and end mark."""
COUNTS = ("window", "history")
TABLE_1 = (
    ("paper, SoccerNet", "16,487", "5.67", "10.98", "1.13"),
    ("paper, HoloAssist", "1,761", "15.84", "13.69", "7.94"),
)
Lengths = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Row:
    """Statistics of one file under one count.

    Attributes:
        name: the file, as given.
        count: `window` or `history`.
        size: datapoints.
        scored: scored utterances in a datapoint.
        utterances: utterances in a datapoint.
        tokens: tokens in an utterance.
        tokens_with_marks: the same with role, colon, line break and end mark.
        gap: seconds from an utterance's end to the next one's start.
    """

    name: str
    count: str
    size: int
    scored: float
    utterances: float
    tokens: float
    tokens_with_marks: float
    gap: float


class _Sums:
    """Sums over datapoints."""

    def __init__(self) -> None:
        self.points = self.scored = self.utterances = self.gaps = 0
        self.tokens = self.gap = 0.0

    def add(self, turns: Sequence[Utterance], length: Lengths) -> None:
        self.points += 1
        self.scored += sum(u.eval for u in turns)
        self.utterances += len(turns)
        self.gaps += max(0, len(turns) - 1)
        self.tokens += sum(length(u.text) for u in turns)
        self.gap += sum(b.start - a.end for a, b in zip(turns, turns[1:], strict=False))

    def row(self, name: str, count: str) -> Row:
        tokens = _over(self.tokens, self.utterances)
        return Row(
            name, count, self.points, _over(self.scored, self.points),
            _over(self.utterances, self.points), tokens, tokens + MARKS if tokens else 0.0,
            _over(self.gap, self.gaps),
        )  # fmt: skip


def _over(total: float, count: int) -> float:
    return total / count if count else 0.0


def points_of(timeline: Timeline, *, split_at_user: bool = False) -> Iterable[Timeline]:
    """A timeline's datapoints: by cluster where its turns name one, else by scored run."""
    if "window" not in timeline.meta and has_clusters(timeline):
        return cluster_datapoints(timeline)
    return datapoints(timeline, split_at_user=split_at_user)


def rows(
    name: str, timelines: Iterable[Timeline], length: Lengths, *, split_at_user: bool = False
) -> list[Row]:
    """Both counts of some timelines."""
    sums = {count: _Sums() for count in COUNTS}
    for timeline in timelines:
        for point in points_of(timeline, split_at_user=split_at_user):
            sums["window"].add(_window(point.utterances), length)
            sums["history"].add(point.utterances, length)
    return [total.row(name, count) for count, total in sums.items()]


def _window(turns: Sequence[Utterance]) -> Sequence[Utterance]:
    scored = [i for i, turn in enumerate(turns) if turn.eval]
    return turns[scored[0] : scored[-1] + 1] if scored else ()


def token_lengths(tokenizer: str | None) -> Lengths:
    """How many tokens a text has: words x 1.3 (paper, Appendix A), or by a tokenizer.

    Args:
        tokenizer: None, a folder with a tokenizer, or a `.gguf` file that holds one.
    """
    if tokenizer is None:
        return lambda text: TOKENS_PER_WORD * len(text.split())
    encode, known = _load_tokenizer(tokenizer), dict[str, float]()

    def length(text: str) -> float:
        if text not in known:
            known[text] = len(encode(text, add_special_tokens=False)["input_ids"])
        return known[text]

    return length


def _load_tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    path = Path(name)
    if not path.exists():
        raise UserError("--tokenizer", f"there is no {name}", "name a folder or a .gguf file")
    try:
        if path.suffix == ".gguf":
            return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        return AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, ImportError) as err:
        problem = f"{name} cannot be loaded ({str(err).splitlines()[0]})"
        raise UserError("--tokenizer", problem, "name another tokenizer") from err


def to_dict(row: Row) -> dict[str, Any]:
    """JSON form, to three places."""
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(row).items()}


def show(found: Sequence[Row], console: Console | None = None) -> None:
    """Print the rows beside the paper's."""
    heads = ("", "count", "size", "scored", "utter.", "tokens", "marked", "gap (s)")
    table = Table(box=None, pad_edge=False)
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k < 2 else "right", overflow="fold")
    for r in found:
        figures = (r.scored, r.utterances, r.tokens, r.tokens_with_marks, r.gap)
        table.add_row(r.name, r.count, f"{r.size:,}", *[f"{f:.2f}" for f in figures])
    for name, size, utterances, tokens, gap in TABLE_1:
        table.add_row(name, "", size, "", utterances, tokens, "", gap, style="dim")
    (console or Console()).print(table)


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="python -m data_prep.stats",
        description="Table 1 of the paper: size, utterances, tokens and gap of timelines.",
        epilog="Example: python -m data_prep.stats data/soccernet/timelines/test.jsonl",
    )
    parser.add_argument("timelines", nargs="+", metavar="FILE", help="JSONL or published JSON")
    parser.add_argument(
        "--tokenizer", metavar="PATH", help="a folder or .gguf file (default: words x 1.3)"
    )
    parser.add_argument(
        "--split-at-user",
        action="store_true",
        help="a user turn ends a run of scored turns (HoloAssist, paper's rules)",
    )
    parser.add_argument("--out", metavar="JSON", help="write the rows there as well")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    args = arguments().parse_args(argv)
    if args.out:
        check_target(args.out, args.timelines)
    length = token_lengths(args.tokenizer)
    found = [
        row
        for file in args.timelines
        for row in rows(file, read_references(file), length, split_at_user=args.split_at_user)
    ]
    if not any(row.size for row in found):
        raise UserError(", ".join(args.timelines), "hold no timeline", "name files that have some")
    show(found)
    if args.out:
        write_json(args.out, {"tokenizer": args.tokenizer, "rows": [to_dict(r) for r in found]})
        print(f"{args.out}: {len(found)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
