"""Speed, measured beside a peer in one run.

Input: names of sections. Output: a table, then one JSON line (`--out`: also a file).
Invariant: both sides of a row are timed in the same rounds, on the same inputs, with the same
threads, after their outputs were found equal; nothing is compared across runs.

    python -m eval.bench decode store
"""

import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eval.bench_timing import Bench, Row
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import writable_folder, write_json

SECTIONS = {
    "decode": "eval.bench_decode",
    "store": "eval.bench_store",
    "scoring": "eval.bench_scoring",
    "datapoints": "eval.bench_datapoints",
}
"""Section -> module with `rows(bench: Bench) -> list[Row]`. A new section is one line here."""


def measure(names: Sequence[str], smoke: bool) -> dict[str, Any]:
    """Run sections and gather what they measured."""
    console = Console(stderr=True)
    sections: dict[str, list[dict[str, Any]]] = {}
    notes: dict[str, list[str]] = {}
    for name in names:
        console.print(f"{name} …", style="bold")
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            bench = Bench(Path(folder), smoke)
            found: list[Row] = import_module(SECTIONS[name]).rows(bench)
        sections[name] = [asdict(row) | {"missed": row.missed} for row in found]
        notes[name] = bench.notes
    return {"smoke": smoke, "machine": machine(), "sections": sections, "notes": notes}


def machine() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {"processor": platform.machine(), "cores": cores, "load": load}


def show(result: dict[str, Any], console: Console) -> None:
    """One table a section."""
    for name, rows in result["sections"].items():
        table = Table(title=name, title_justify="left", box=None, pad_edge=False)
        for head in ("", "ours", "p95", "peer", "p95", "unit", "ratio", "target"):
            table.add_column(head, justify="left" if head in ("", "unit") else "right")
        for row in rows:
            figures = [row[k] for k in ("ours", "ours_p95", "peer", "peer_p95")]
            target = "" if row["target"] is None else f"{row['target']:g}"
            table.add_row(
                row["name"],
                *[f"{x:,.4g}" if x < 1000 else f"{x:,.0f}" for x in figures],
                row["unit"],
                f"{row['ratio']:.2f}",
                target + (" missed" if row["missed"] else ""),
                style="red" if row["missed"] else "",
            )
        console.print(table)
        for line in result["notes"][name]:
            console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print("ratio: how many times ours is as good as the peer, median of paired rounds")


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = Parser(
        prog="python -m eval.bench",
        description="Measure speed beside a peer, in one run.",
        epilog="example: python -m eval.bench decode --out bench.json --check",
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)} (default: all)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the JSON there, too")
    parser.add_argument("--smoke", action="store_true", help="small and quick; figures mean little")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target is missed")
    args = parser.parse_args(argv)
    names = list(dict.fromkeys(args.sections)) or list(SECTIONS)
    for name in names:
        if name not in SECTIONS:
            raise UserError(name, "no such section", f"use one of {', '.join(SECTIONS)}")
    if args.out:
        writable_folder(args.out.parent)
    result = measure(names, args.smoke)
    show(result, Console())
    if args.out:
        write_json(args.out, result)
        print(f"wrote {args.out}", file=sys.stderr)
    print(json.dumps(result, allow_nan=False))
    missed = [row["name"] for rows in result["sections"].values() for row in rows if row["missed"]]
    if args.check and missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
