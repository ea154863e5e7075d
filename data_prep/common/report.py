"""What a step read, kept, repaired and dropped, and why.

Input: records, counted one by one. Output: `report.json` and a table on the terminal.
Invariant: read = kept + dropped in every unit, what is repaired is kept, or the report is not
written; nothing in it depends on the time, the machine or the number of workers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vlm_tsi.files import write_json

EXAMPLES = 3


@dataclass
class Tally:
    """Counts of one unit (`"segment"`, `"video"`).

    Attributes:
        unit: what is counted.
        read: how many there were.
        kept: how many went on, repaired ones among them.
        mended: how many of the kept were changed, each counted once (`repaired_records`).
        repaired: reason -> how many of the kept were changed for it; a record may have several.
        dropped: reason -> how many were left out for it; each record has one reason.
        noted: oddity -> how many had it, whatever became of them.
        examples: reason or oddity -> the first few places.
    """

    unit: str
    read: int = 0
    kept: int = 0
    mended: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def keep(self, count: int = 1) -> None:
        """Records that were read and go on."""
        self.read += count
        self.kept += count

    def keep_mended(self, reasons: Iterable[str], where: str = "") -> None:
        """A record that was read and goes on, changed for these reasons (none: as it was)."""
        self.keep()
        found = dict.fromkeys(reasons)
        self.mended += bool(found)
        for reason in found:
            self.repaired[reason] += 1
            self._show(reason, where)

    def drop(self, reason: str, where: str = "") -> None:
        """A record that was read and is left out."""
        self.read += 1
        self.dropped[reason] += 1
        self._show(reason, where)

    def note(self, oddity: str, where: str = "") -> None:
        """Something odd that neither changes nor drops the record."""
        self.noted[oddity] += 1
        self._show(oddity, where)

    def add(self, other: "Tally") -> None:
        """Take over another tally of the same unit (from another file or worker)."""
        assert other.unit == self.unit, f"{other.unit} counted as {self.unit}"
        self.read += other.read
        self.kept += other.kept
        self.mended += other.mended
        for mine, theirs in zip(self._reasons(), other._reasons(), strict=True):
            mine.update(theirs)
        for reason, places in other.examples.items():
            for where in places:
                self._show(reason, where)

    def to_dict(self) -> dict[str, Any]:
        """JSON form: counts, then reasons by frequency."""
        assert self.read == self.kept + self.dropped.total(), f"{self.unit}: counts do not add up"
        assert self.mended <= self.kept, f"{self.unit}: more repaired than kept"
        reasons = {n: _sorted(c) for n, c in zip(_REASONS, self._reasons(), strict=True)}
        examples = {r: self.examples[r] for r in sorted(self.examples)}
        counts = {"read": self.read, "kept": self.kept, "repaired_records": self.mended}
        return {"unit": self.unit, **counts, **reasons} | (
            {"examples": examples} if examples else {}
        )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Tally":
        """Read back `to_dict`."""
        reasons = {n: Counter(record[n]) for n in _REASONS}
        examples = {r: list(p) for r, p in record.get("examples", {}).items()}
        mended = record["repaired_records"]
        return cls(
            record["unit"], record["read"], record["kept"], mended, **reasons, examples=examples
        )

    def _reasons(self) -> tuple[Counter[str], ...]:
        return self.repaired, self.dropped, self.noted

    def _show(self, reason: str, where: str) -> None:
        places = self.examples.setdefault(reason, []) if where else []
        if where and len(places) < EXAMPLES:
            places.append(where)


_REASONS = ("repaired", "dropped", "noted")


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def write_report(
    path: str | Path, step: str, tallies: list[Tally], settings: Mapping[str, Any]
) -> None:
    """Write `report.json`: the first tally's counts on top, the others under `also`."""
    main, *others = [t.to_dict() for t in tallies]
    also = {t.pop("unit"): t for t in others}
    record = {"step": step, **main} | ({"also": also} if also else {})
    write_json(path, record | {"settings": dict(settings)})


def print_report(tallies: list[Tally], console: Console | None = None) -> None:
    """One table: a row for each unit, then one for each reason."""
    table = Table(box=None, pad_edge=False)
    for head in ("", "read", "kept", "repaired", "dropped"):
        table.add_column(head, justify="left" if not head else "right")
    for tally in tallies:
        totals = (tally.read, tally.kept, tally.mended, tally.dropped.total())
        table.add_row(f"{tally.unit}s", *[f"{n:,}" for n in totals], style="bold")
        for reason, count in _sorted(tally.repaired).items():
            table.add_row(f"  {reason}", "", "", f"{count:,}", "")
        for reason, count in _sorted(tally.dropped).items():
            table.add_row(f"  {reason}", "", "", "", f"{count:,}")
        for oddity, count in _sorted(tally.noted).items():
            table.add_row(f"  {oddity} (noted)", f"{count:,}", "", "", "")
    (console or Console()).print(table)
