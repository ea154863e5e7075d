"""What `eval.groups` prints: its tables, and a line for each thing that one must know beside them.

Input: the report that goes into the JSON file. Output: text.
Invariant: each value stands over its own interval; a row without utterances shows no score.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from data_prep.common.report import print_report
from eval.group_sources import Grouping
from eval.tglg import COLUMNS, notes

MAIN = ("trace", "s_a", "s_t")
"""The columns of Tables 3 and 4."""


def show(report: Mapping[str, Any], grouping: Grouping, console: Console) -> None:
    """Print what was read, then the tables."""
    print_report(list(grouping.tallies), console)
    title = f"by {report['grouping']['by']}, percent (embedder: {report['embedder']})"
    rest = [name for name in COLUMNS if name not in MAIN]
    console.print("", _scores(title, report, MAIN), "", _scores("the rest", report, rest))
    if "against" in report:
        console.print("", _scores("against", report["against"], MAIN), "", _changes(report))
    console.print("\nbelow each value: its 95% interval, bootstrap over videos; n: videos")


def _scores(title: str, rows: Mapping[str, Any], columns: Sequence[str]) -> Table:
    counts = ("videos", "references", "generated", "matched") if columns is MAIN else ()
    table = _table(title, [*counts, *(COLUMNS[c] for c in columns)])
    for name, row in _listed(rows):
        cells = [_cell(row["scores"][c]) if row["videos"] else Text("-") for c in columns]
        table.add_row(Text(name), *(f"{row[c]:,}" for c in counts), *cells)
    return table


def _changes(report: Mapping[str, Any]) -> Table:
    table = _table("difference: pred less against", [COLUMNS[c] for c in MAIN])
    for name, row in _listed(report["differences"]):
        if row:
            table.add_row(Text(name), *(_cell(row[c], "+") for c in MAIN))
    return table


def _table(title: str, heads: Sequence[str]) -> Table:
    short = {"videos": "n", "references": "refs", "generated": "gen", "matched": "match"}
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold")
    for head in heads:
        table.add_column(short.get(head, head), justify="right", no_wrap=True)
    return table


def _listed(rows: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [*rows["groups"].items(), ("(no group)", rows["no_group"]), ("(all)", rows["all"])]


def _cell(found: Mapping[str, float], sign: str = "") -> Text:
    """A value, and its interval on the line below."""
    value, low, high = (f"{found[x]:{sign}.1f}" for x in ("value", "low", "high"))
    return Text.assemble(f"{value}\n", (f"{low}{' to ' if sign else '-'}{high}", "dim"))


def group_notes(rows: Mapping[str, Any]) -> list[str]:
    """One line for each thing that a reader of the groups must know."""
    lines = notes(rows)
    for row, what in (
        ("no_group", "belong to no group"),
        ("in_several_groups", "belong to several groups and count in each"),
        ("in_videos_without_groups", "are in videos that the source of groups does not know"),
    ):
        refs, gens = rows[row]["references"], rows[row]["generated"]
        if refs or gens:
            lines.append(f"{refs} reference(s) and {gens} generated utterance(s) {what}")
    if rows.get("groups_without_utterances"):
        lines.append(f"no utterance in: {', '.join(rows['groups_without_utterances'])}")
    return lines
