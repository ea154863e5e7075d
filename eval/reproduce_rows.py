"""What the steps left, beside what the paper prints.

Input: the plan, its runner. Output: rows of table, row, column, paper, measured, difference,
n, note: every cell of the tables that are asked for, in the paper's order, then rows of our own
(another rule, the demo's worlds).
Invariant: a value that was not measured is None with the reason in its note, never 0; difference
is measured less paper, both as printed units, and only where the two can be compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data_prep.holoassist.videos import TASK_GROUPS
from eval.demo_plan import CAPABILITY, SCHEMES, WORLDS
from eval.group_events import ACTIONS
from eval.paper_tables import (
    COLUMNS,
    CONTINGENCY,
    PERCEPTUAL,
    TSI,
    TURN_BASED,
    UTTERANCES,
    Cell,
    cells,
    value,
)
from eval.reproduce_needs import HOLOASSIST_VIDEOS, read_records
from eval.reproduce_run import Runner
from eval.reproduce_steps import Planner
from vlm_tsi.files import read_json

MODELS = {"tsi": TSI, "turn_based": TURN_BASED}
CAPABILITIES = {"soccernet": PERCEPTUAL, "holoassist": CONTINGENCY}
DEMO = "demo world, not comparable"
BY_DEFINITION = "a definition (Appendix {}), nothing to measure; ours has {}"
_STATS = {"size": "size", "utterances": "utterances", "gap_s": "gap"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the final table; `n` is what the value is over (its note says what)."""

    table: str
    row: str
    column: str
    paper: float | None
    measured: float | None
    difference: float | None
    n: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Found:
    """A measured value: what it is over, and what to know beside it."""

    value: float
    n: int | None
    note: str = ""


Values = Mapping[str, Found]


def row_of(cell: Cell, found: Found | None, reason: str) -> Row:
    """A cell of the paper beside what was measured, or the reason why nothing was."""
    if found is None:
        return Row(cell.table, cell.row, cell.column, cell.value, None, None, None, reason)
    gap = round(found.value - cell.value, 6)
    n, note = found.n, found.note
    return Row(cell.table, cell.row, cell.column, cell.value, found.value, gap, n, note)


@dataclass(frozen=True)
class Reader:
    """Reads the steps' files."""

    planner: Planner
    runner: Runner

    def rows(self) -> list[Row]:
        """All rows."""
        tables = self.planner.tables
        measured = {
            "table1": self._table1,
            "table2": self._table2,
            "table3": self._table3,
            "table4": self._table4,
        }
        found: list[Row] = []
        for table in tables:
            known = measured[table]()
            for cell in cells([table]):
                values = known.get(cell.row, {})
                reason = "" if cell.column in values else self.reason(cell)
                found.append(row_of(cell, values.get(cell.column), reason))
            found += self._beside(table)
        return found

    # What was not measured, and why.

    def reason(self, cell: Cell) -> str:
        """Why a cell was not measured: what is missing, or which step failed."""
        if cell.column == "members":
            return _definition(cell)
        lacking = self._lacking(cell)
        if lacking:
            return "needs " + ", ".join(lacking)
        failed = [self.runner.failed[s] for s in self._steps(cell) if s in self.runner.failed]
        return failed[-1] if failed else "nothing to measure in what is there"

    def _lacking(self, cell: Cell) -> list[str]:
        """The names of missing needs of a cell."""
        corpus, table1 = _corpus(cell), cell.table == "table1"
        if corpus == "soccernet":
            keys = ["labels"] if table1 else ["soccernet", "labels"]
            keys += ["actions"] if cell.table == "table3" else []
            keys += ["language"] if self.planner.has("echoes") else ["recogniser"]
        else:
            keys = ["holoassist"] if table1 else ["holoassist", "holoassist_videos"]
        if not table1:
            keys += [*(f"{corpus}_{s}" for s in _schemes(cell)), "embedder"]
        needs = self.planner.needs
        return [needs[k].name for k in keys if k in needs and not needs[k].is_there]

    def _steps(self, cell: Cell) -> list[str]:
        corpus = _corpus(cell)
        if cell.table == "table1":
            return (
                ["build", f"stats-{corpus}", "labelled", "stats-labelled"]
                if (corpus == "soccernet")
                else ["holoassist", "stats-holoassist"]
            )
        names = [f"{kind}-{corpus}-{s}" for s in _schemes(cell) for kind in ("stream", "score")]
        return ["build", "holoassist", *names, *([cell.table] if cell.table != "table2" else [])]

    def _file(self, name: str, step: str) -> Any:
        """A step's JSON file; None if the step was not planned, or failed."""
        if step not in self.runner.keys or step in self.runner.failed:
            return None
        return read_json(self.planner.settings.out / name)

    # Table 1.

    def _table1(self) -> dict[str, Values]:
        soccer = self._soccernet_stats() or self._labelled_stats()
        return {"SoccerNet": soccer, "HoloAssist": self._holoassist_stats("holoassist")}

    def _soccernet_stats(self) -> Values:
        names = {"echoes": "public transcripts", "soccernet": "the videos, transcribed"}
        source = next((names[k] for k in names if self.planner.has(k)), "")
        return self._halves("soccernet", "soccernet/timelines/report.json", source)

    def _labelled_stats(self) -> Values:
        return self._halves("labelled", "labelled/report.json", "the hand-labelled halves alone")

    def _halves(self, name: str, report: str, source: str) -> Values:
        stats = self._file(f"stats-{name}.json", f"stats-{name}")
        if stats is None:
            return {}
        segments = read_json(self.planner.settings.out / report)
        kept, said = segments["also"]["file"]["kept"], segments["kept"]
        note = f"n: halves; {source}, {said:,} of the paper's {UTTERANCES:,} utterances"
        return _stats(stats, "window", "tokens", kept, note, UTTERANCES / said if said else 0.0)

    def _holoassist_stats(self, name: str) -> Values:
        stats = self._file(f"stats-{name}.json", f"stats-{name}")
        if stats is None:
            return {}
        path, limit = self.planner.given.holoassist, self.planner.settings.limit
        assert path is not None, "its statistics are there"
        n = min(len(read_records(path)), limit or HOLOASSIST_VIDEOS)
        note = f"n={n:,} of {HOLOASSIST_VIDEOS:,} videos; tokens with the turn's marks"
        return _stats(stats, "history", "tokens_with_marks", n, note, HOLOASSIST_VIDEOS / n)

    # Table 2.

    def _table2(self) -> dict[str, Values]:
        return {
            f"{CAPABILITIES[corpus]}, {MODELS[scheme]}": self._scores(corpus, scheme)
            for corpus in CAPABILITIES
            for scheme in SCHEMES
        }

    def _scores(self, corpus: str, scheme: str) -> Values:
        name = f"{corpus}-{scheme}"
        report = self._file(f"scores/{name}.json", f"score-{name}")
        if report is None:
            return {}
        note = f"n: scored utterances in {report['counts']['videos']:,} datapoints"
        note += self._unstreamed([name]) + _embedder(report["embedder"])
        spans, n = report["intervals"]["micro"], report["counts"]["references"]
        return {
            column: Found(report["micro"][column], n, f"{_interval(spans[column])}; {note}")
            for column, _ in COLUMNS["table2"]
        }

    def _unstreamed(self, names: Sequence[str]) -> str:
        """What could not be streamed counts as silence: it must be told."""
        out = self.planner.settings.out
        failed = sum(len(read_json(out / "said" / n / "run.json")["failed"]) for n in names)
        return (
            f"; {failed:,} datapoint(s) could not be streamed and count as silence"
            if failed
            else ""
        )

    # Tables 3 and 4.

    def _table3(self) -> dict[str, Values]:
        return self._groups("table3", "soccernet", list(ACTIONS))

    def _table4(self) -> dict[str, Values]:
        return self._groups("table4", "holoassist", list(dict.fromkeys(TASK_GROUPS.values())))

    def _groups(self, table: str, corpus: str, names: Sequence[str]) -> dict[str, Values]:
        report = self._file(f"{table}.json", table)
        if report is None:
            return {}
        told = self._unstreamed([f"{corpus}-{s}" for s in SCHEMES])
        return {n: _differences(report, n, told) for n in names if n in report["groups"]}

    # Rows of our own.

    def _beside(self, table: str) -> Iterator[Row]:
        if table == "table1":
            yield from self._other_counts()
        if not self.planner.stands_in(table):
            return
        if "demo" in self.runner.failed:
            yield Row(
                table, "demo worlds", "all", None, None, None, None, self.runner.failed["demo"]
            )
        elif table == "table1":
            yield from self._demo_stats()
        elif table == "table2":
            yield from self._demo_scores()
        else:
            yield from self._demo_kinds(table)

    def _other_counts(self) -> Iterator[Row]:
        """Other sources and rules of the paper's rows."""
        others = {
            "HoloAssist": ("released code's rules", self._holoassist_stats("holoassist-released"))
        }
        if self._soccernet_stats():
            others["SoccerNet"] = ("hand-labelled halves", self._labelled_stats())
        for cell in cells(["table1"]):
            name, values = others.get(cell.row, ("", {}))
            if cell.column in values:
                found = row_of(cell, values[cell.column], "")
                yield Row("table1", f"{cell.row}, {name}", *_tail(found))

    def _demo_stats(self) -> Iterator[Row]:
        for world, count in zip(WORLDS, ("window", "history"), strict=True):
            stats = self._file(f"stats-{world}.json", f"stats-{world}")
            note = f"{DEMO}; {CAPABILITY[world].lower()}; n: datapoints"
            values = {} if stats is None else _stats(stats, count, "tokens", None, note, 0.0)
            failed = self.runner.failed.get(f"stats-{world}", "no datapoint in it")
            for column, _ in COLUMNS["table1"]:
                found = values.get(column)
                n = None if found is None else int(values["size"].value)
                measured = None if found is None else found.value
                said = f"{DEMO}; {failed}" if found is None else note
                yield Row("table1", f"{world} (demo)", column, None, measured, None, n, said)

    def _demo_scores(self) -> Iterator[Row]:
        """Both models on both worlds, and the sign of their difference beside the paper's."""
        result = read_json(self.planner.settings.demo / "result.json")
        told = _embedder(result["embedder"])
        for world, corpus in zip(WORLDS, CAPABILITIES, strict=True):
            n = result["datapoints"][world]
            for scheme in SCHEMES:
                name = f"{world} (demo), {'TSI' if scheme == 'tsi' else 'turn-based'}"
                for column, _ in COLUMNS["table2"]:
                    measured = result[world][scheme][column]
                    note = f"{DEMO}; n: datapoints{told}"
                    yield Row("table2", name, column, None, measured, None, n, note)
            for column, _ in COLUMNS["table2"]:
                found = result["difference"][world][column]
                sides = (f"{CAPABILITIES[corpus]}, {MODELS[s]}" for s in SCHEMES)
                first, second = (value("table2", side, column) for side in sides)
                same = (found["value"] > 0) == (first - second > 0)
                sign = f"{'same' if same else 'other'} sign as in the paper"
                note = f"{DEMO}; {sign}; {_interval(found)}; n: datapoints{told}"
                name = f"{world} (demo), TSI less turn-based"
                yield Row("table2", name, column, None, found["value"], None, n, note)

    def _demo_kinds(self, table: str) -> Iterator[Row]:
        world = "signals" if table == "table3" else "assembly"
        report = self._file(f"{table}-demo.json", f"{table}-demo")
        if report is None:
            why = self.runner.failed.get(f"{table}-demo", "needs a sentence embedder")
            yield Row(table, f"{world} (demo)", "all", None, None, None, None, f"{DEMO}; {why}")
            return
        for name in report["groups"]:
            for column, found in _differences(report, name, "").items():
                note = f"{DEMO}; TSI less turn-based; {found.note}"
                label = f"{world} (demo), {name}"
                yield Row(table, label, column, None, found.value, None, found.n, note)


def _definition(cell: Cell) -> str:
    """The number of actions or tasks in a group is how the group is defined."""
    ours = (
        len(ACTIONS[cell.row])
        if cell.table == "table3"
        else list(TASK_GROUPS.values()).count(cell.row)
    )
    return BY_DEFINITION.format("C" if cell.table == "table3" else "D", ours)


def _tail(row: Row) -> tuple[Any, ...]:
    return row.column, row.paper, row.measured, row.difference, row.n, row.note


def _corpus(cell: Cell) -> str:
    if cell.table == "table2":
        return "soccernet" if cell.row.startswith(PERCEPTUAL) else "holoassist"
    if cell.table == "table1":
        return cell.row.lower()
    return "soccernet" if cell.table == "table3" else "holoassist"


def _schemes(cell: Cell) -> list[str]:
    """The models that a cell needs."""
    if cell.table == "table2":
        return ["tsi" if cell.row.endswith(TSI) else "turn_based"]
    return list(SCHEMES)


def _stats(
    stats: Mapping[str, Any], count: str, tokens: str, n: int | None, note: str, whole: float
) -> dict[str, Found]:
    """Table 1's columns of a statistics file; {} where it holds no datapoint.

    Args:
        stats: what `data_prep.stats --out` wrote.
        count: which of its two counts.
        tokens: which of its two token columns.
        n: videos behind them.
        note: of all columns.
        whole: how many times as large the whole corpus is (0: not told).
    """
    found = next(r for r in stats["rows"] if r["count"] == count)
    if not found["size"]:
        return {}
    scaled = round(found["size"] * whole)
    size = f"{note}; in proportion {scaled:,}" if abs(whole - 1) > 0.01 and whole else note
    values = {name: Found(found[key], n, note) for name, key in _STATS.items()}
    values["tokens"] = Found(found[tokens], n, note)
    return values | {"size": Found(found["size"], n, size)}


def _differences(report: Mapping[str, Any], name: str, told: str) -> dict[str, Found]:
    """A group's differences as shares (Tables 3 and 4), n the scored utterances in it."""
    n, found = report["groups"][name]["references"], report["differences"]["groups"][name]
    note = f"n: scored utterances{told}{_embedder(report['embedder'])}"
    columns = [c for c, _ in COLUMNS["table3"] if c != "members"]
    return {
        c: Found(found[c]["value"] / 100, n, f"{_interval(found[c], 100)}; {note}")
        for c in columns
        if c in found
    }


def _interval(found: Mapping[str, float], over: float = 1) -> str:
    digits = 1 if over == 1 else 2
    return f"95% {found['low'] / over:.{digits}f} to {found['high'] / over:.{digits}f}"


def _embedder(name: str) -> str:
    papers = name.rsplit("/", 1)[-1] == "all-mpnet-base-v2"
    return "" if papers else f"; embedder {name}, not the paper's"
