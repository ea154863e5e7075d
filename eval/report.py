"""What runs are worth, as one self-contained HTML page.

Input: score files of `eval.tglg` (or folders that hold one). Output: one file that needs no
network: scores with intervals, quality against timing, timelines over thumbnails, failures,
latencies, a table of all pairs, commands and versions. Invariant: the page appears whole or
not at all; what a run lacks is told on it.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from eval.making import making
from eval.report_page import write_report
from eval.report_runs import groups_of, read_runs, report_of
from eval.report_views import views_of
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import check_target

EXAMPLES = """
examples:
  python -m eval.report ours.json --out report.html
  python -m eval.report ours.json theirs.json --out report.html --pictures 5
  python -m eval.report TSI=a/scores.json Turn-based=b/scores.json --out report.html
  python -m eval.report ours.json --out report.html --videos clip-7 clip-9

latencies are shown where infer_stream.py left a run.json beside the predictions
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    p = Parser(
        prog="python -m eval.report",
        description=__doc__.split("\n")[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "runs", nargs="+", metavar="RUN", help="a score file, a folder with one, or NAME=either"
    )
    p.add_argument("--out", required=True, help="where the page goes (.html)")
    p.add_argument("--title", default="TGLG report", help="heading of the page (%(default)s)")
    p.add_argument(
        "--pictures", type=int, default=3, metavar="N",
        help="timelines of each set of videos, from the best to the worst (%(default)s)",
    )  # fmt: skip
    p.add_argument(
        "--videos", nargs="+", default=[], metavar="ID", help="timelines of these videos instead"
    )
    return p


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Read, draw, write, tell."""
    args = parser().parse_args(argv)
    if args.pictures < 0:
        raise UserError("--pictures", f"it is {args.pictures}", "use 0 or more")
    runs = read_runs(args.runs)
    check_target(args.out, [run.path for run in runs])
    groups = groups_of(runs)
    report, notes = report_of(groups, args.title)
    made = making("eval.report", argv)
    report = replace(
        report,
        videos=views_of(groups, args.pictures, args.videos),
        commands=[*report.commands, made["command"]],
    )
    notes += write_report(args.out, report)
    print(args.out)
    for line in dict.fromkeys(notes):
        print(f"note: {line}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
