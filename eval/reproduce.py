"""Rerun the paper's Tables 1 to 4 with what is at hand.

Input: which tables; corpora, labels and checkpoints, as far as they are there. Output: what is
missing and the way to get it; then every step that can be run is run (a second run goes on from
the first); in the end a table of paper value, measured value and difference, on the terminal, in
`OUT/tables.md` and in `OUT/result.json` (`rows`, `missing`, `failed`, `commands`, `notes`,
`versions`).
Invariant: what was not measured is shown as – with its reason, never as a number; what a demo
world gives is marked and has no difference from the paper.

Exit code: 0 if all that could be run did run, 1 if a step failed (the others still run), 2 for a
mistake in the options.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.demo import check_place
from eval.demo_plan import PRESETS
from eval.demo_steps import console as progress
from eval.making import versions
from eval.paper_tables import RUN, TABLES, cells
from eval.reproduce_needs import Given, Need, find_needs
from eval.reproduce_rows import Reader, Row
from eval.reproduce_run import Runner, Step, shown
from eval.reproduce_steps import Planner, Settings
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import writable_folder, write_json, write_text

HEADS = ("table", "row", "column", "paper", "measured", "difference", "n", "note")
NONE = "–"
DITTO = "″"
"""The note above once more (on the terminal only)."""
EXAMPLES = """
examples:
  with nothing at hand (the demo's worlds stand in):
  python -m eval.reproduce all
  what is missing, and what would be run:
  python -m eval.reproduce all --soccernet /corpora/SoccerNet --dry-run
  Table 1 from HoloAssist's annotation file and the public transcripts:
  python -m eval.reproduce table1 --holoassist data-annotation-trainval-v1_1.json \\
      --labels labels --echoes sn-echoes/Dataset/whisper_v3
  Tables 2 and 3, perceptual updating:
  python -m eval.reproduce table2 --soccernet /corpora/SoccerNet --labels labels \\
      --soccernet-tsi runs/paper/soccernet_tsi/model \\
      --soccernet-turn-based runs/paper/soccernet_turn_based/model --device cuda
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    p = Parser(
        prog="python -m eval.reproduce",
        description=__doc__.split("\n")[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("table", choices=(*TABLES, "all"), help="which of the paper's tables")
    _add_corpora(p.add_argument_group("corpora (each may be left out)"))
    models = p.add_argument_group("checkpoints, one pair a benchmark as in the paper")
    for corpus, name in (("soccernet", "SoccerNet"), ("holoassist", "HoloAssist")):
        models.add_argument(f"--{corpus}-tsi", type=Path, metavar="DIR", help=f"VLM-TSI, {name}")
        models.add_argument(
            f"--{corpus}-turn-based", type=Path, metavar="DIR", help=f"the baseline, {name}"
        )
    how = p.add_argument_group("how to run")
    how.add_argument("--embedder", help="sentence embedder: folder or hub id (default: best here)")
    how.add_argument("--device", default="cpu", help="of the streaming: cpu (default), cuda, …")
    how.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")
    how.add_argument("--limit", type=int, metavar="N", help="only the first N halves and videos")
    how.add_argument(
        "--demo", type=Path, default=Path("runs/demo"), metavar="DIR",
        help="the demo's run; if it has none, it is run (default: runs/demo)",
    )  # fmt: skip
    how.add_argument("--preset", choices=sorted(PRESETS), default="full", help="of such a run")
    how.add_argument("--dry-run", action="store_true", help="tell needs and steps, run nothing")
    how.add_argument("--out", type=Path, default=Path("runs/reproduce"), metavar="DIR")
    return p


def _add_corpora(group: Any) -> None:
    group.add_argument(
        "--soccernet",
        type=Path,
        metavar="ROOT",
        help="<league>/<season>/<match>/{1,2}_224p.mkv and Labels-v2.json",
    )
    group.add_argument(
        "--echoes",
        type=Path,
        metavar="DIR",
        help="the public ASR release, one version of it; spares transcribing",
    )
    group.add_argument(
        "--labels",
        type=Path,
        metavar="DIR",
        help="hand-labelled halves for the play-by-play filter",
    )
    group.add_argument("--holoassist", type=Path, metavar="FILE", help="annotations, .json or .gz")
    group.add_argument(
        "--holoassist-videos",
        type=Path,
        metavar="ROOT",
        help="<video>/Export_py/Video_pitchshift.mp4",
    )


def check(args: argparse.Namespace) -> None:
    """Refuse values out of range (UserError)."""
    for name in ("workers", "limit"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name}", f"is {value}", "give 1 or more")
    inputs = [getattr(args, field.name) for field in fields(Given) if field.name != "embedder"]
    for path in [*inputs, args.demo]:
        if path is not None and path.resolve() == args.out.resolve():
            raise UserError("--out", f"{args.out} is an input", "name another folder")


def plan(args: argparse.Namespace) -> Planner:
    """Look at what is there."""
    given = Given(**{field.name: getattr(args, field.name) for field in fields(Given)})
    tables = TABLES if args.table == "all" else (args.table,)
    settings = Settings(
        out=args.out, demo=args.demo, preset=args.preset, limit=args.limit,
        workers=args.workers, device=args.device,
    )  # fmt: skip
    return Planner(given, find_needs(given, tables), tables, settings)


def say(text: str) -> None:
    """A line for the user, as it is."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def show_needs(needs: Mapping[str, Need]) -> None:
    """What is there, then what is missing with the way to get it."""
    say("what it needs:")
    for need in needs.values():
        where = ", ".join(need.tables)
        say(f"  {'there  ' if need.is_there else 'missing'}  {need.name} ({where}): "
            f"{need.found if need.is_there else need.why}")  # fmt: skip
        if not need.is_there:
            say(f"             {need.how}")


def show_steps(steps: Sequence[Step]) -> None:
    """What would be run."""
    say("\nwhat would be run:" if steps else "\nnothing can be run")
    for step in steps:
        say(f"  {step.name} ({', '.join(step.tables)})\n      {shown(step)}")


def result_of(planner: Planner, runner: Runner, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that goes into `result.json`."""
    needs = [n for n in planner.needs.values() if not n.is_there]
    return {
        "tables": list(planner.tables),
        "rows": [asdict(row) for row in rows],
        "missing": [{"need": n.name, "why": n.why, "how": n.how} for n in needs],
        "failed": runner.failed,
        "commands": [shown(step) for step in planner.steps()],
        "seconds_by_step": runner.steps.seconds,
        "notes": list(RUN),
        "limit": planner.settings.limit,
        "versions": versions(),
    }


def figures(row: Row) -> list[str]:
    """A row's cells as text; – where there is no value."""
    digits = _digits(row)
    values = (row.paper, row.measured)
    shown = [NONE if v is None else f"{v:,.{digits}f}" for v in values]
    gap = NONE if row.difference is None else f"{row.difference:+,.{digits}f}"
    n = NONE if row.n is None else f"{row.n:,}"
    return [row.table, row.row, row.column, *shown, gap, n, row.note]


def _digits(row: Row) -> int:
    return next((c.digits for c in cells([row.table]) if c.column == row.column), 0)


def show(rows: Sequence[Row], out: Console) -> None:
    """The final table."""
    table = Table(title="the paper's tables", title_justify="left", box=None, padding=(0, 1, 0, 0))
    for head in HEADS:
        right = head in HEADS[3:7]
        table.add_column(head, justify="right" if right else "left", overflow="fold", no_wrap=right)
    before = None
    for row in rows:
        *shown, note = figures(row)
        told = DITTO if note == before else note
        table.add_row(
            *(Text(cell) for cell in (*shown, told)), style="dim" * (row.measured is None)
        )
        before = note
    out.print(table)


def markdown(rows: Sequence[Row], missing: Sequence[Mapping[str, str]]) -> str:
    """`tables.md`."""
    lines = ["# The paper's tables", "", f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for row in rows:
        lines.append(f"| {' | '.join(c.replace('|', '/') for c in figures(row))} |")
    lines += ["", "Missing:", ""] if missing else []
    lines += [f"- {m['need']}: {m['why']}. {m['how']}." for m in missing]
    return "\n".join([*lines, "", "The paper's run:", "", *(f"- {note}" for note in RUN)]) + "\n"


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Look, run, compare."""
    args = parser().parse_args(argv)
    check(args)
    check_place()
    planner = plan(args)
    show_needs(planner.needs)
    steps = planner.steps()
    if args.dry_run:
        show_steps(steps)
        return 0
    runner = Runner(writable_folder(args.out), len(steps))
    for step in steps:
        runner.run(step)
    rows = Reader(planner, runner).rows()
    result = result_of(planner, runner, rows)
    write_text(args.out / "tables.md", markdown(rows, result["missing"]))
    write_json(args.out / "result.json", result)
    show(rows, Console(width=max(150, Console().width)))
    for note in RUN:
        say(f"note: {note}")
    for why in runner.failed.values():
        progress.print(f"failed: {why}", markup=False, highlight=False, soft_wrap=True)
    papers = {(c.table, c.row, c.column) for c in cells(planner.tables)}
    measured = {(r.table, r.row, r.column) for r in rows if r.measured is not None} & papers
    files = f"{args.out / 'result.json'}  {args.out / 'tables.md'}"
    say(f"{len(measured)} of the paper's {len(papers)} cells measured: {files}")
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
