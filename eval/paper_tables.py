"""The numbers of the paper's Tables 1 to 4: here and nowhere else in `eval/`.

Input: nothing. Output: `CELLS`, one value a cell, in the paper's own unit and order, each named
by where it stands. Invariant: nothing in here was measured by us; a (table, row, column) comes
once; columns of scores have the names that our score files give them.

Tables 1 and 2 print sizes, means and percentages; Tables 3 and 4 print differences of shares
(.12 is 12 points). What we know of the paper's run beside its tables is in `RUN`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TABLES = ("table1", "table2", "table3", "table4")
TSI, TURN_BASED = "VLM-TSI", "VideoLLM-Online"
PERCEPTUAL, CONTINGENCY = "Perceptual Updating", "Contingency Awareness"


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed number.

    Attributes:
        table: `table1` to `table4`.
        row: the row's name; in Table 2 capability and model.
        column: `size`, `utterances`, `tokens`, `gap_s`; or a score's name; or `members`, the
            number of actions or tasks in a group.
        value: as printed.
        digits: decimal places that the paper prints.
        source: where it stands.
    """

    table: str
    row: str
    column: str
    value: float
    digits: int
    source: str


COLUMNS: dict[str, tuple[tuple[str, int], ...]] = {
    "table1": (("size", 0), ("utterances", 2), ("tokens", 2), ("gap_s", 2)),
    "table2": tuple((n, 1) for n in ("trace", "s_a", "s_t", "s_start", "s_end", "s_overlap", "f1")),
    "table3": (("members", 0), ("trace", 2), ("s_a", 2), ("s_t", 2)),
    "table4": (("members", 0), ("trace", 2), ("s_a", 2), ("s_t", 2)),
}
SOURCES = {
    "table1": "Table 1, Section 4.1",
    "table2": "Table 2, Section 6.2",
    "table3": "Table 3, Section 6.2.2",
    "table4": "Table 4, Section 6.2.3",
}
_VALUES: dict[str, dict[str, tuple[float, ...]]] = {
    "table1": {
        "SoccerNet": (16487, 5.67, 10.98, 1.13),
        "HoloAssist": (1761, 15.84, 13.69, 7.94),
    },
    "table2": {
        f"{PERCEPTUAL}, {TSI}": (39.1, 45.7, 32.4, 29.1, 15.6, 72.8, 72.8),
        f"{PERCEPTUAL}, {TURN_BASED}": (27.1, 32.4, 21.8, 24.4, 11.1, 37.9, 51.0),
        f"{CONTINGENCY}, {TSI}": (18.8, 23.0, 14.5, 11.9, 6.0, 36.7, 36.7),
        f"{CONTINGENCY}, {TURN_BASED}": (9.6, 12.3, 6.8, 5.9, 4.0, 14.4, 18.2),
    },
    "table3": {
        "Attempts": (3, 0.12, 0.12, 0.12),
        "Discipline": (3, 0.10, 0.09, 0.10),
        "Goal/Penalty": (2, 0.06, 0.09, 0.03),
        "Infractions": (2, 0.11, 0.12, 0.11),
        "Restarts": (6, 0.14, 0.14, 0.13),
        "Substitution": (1, 0.12, 0.15, 0.08),
    },
    "table4": {
        "Assemble Furniture": (4, 0.13, 0.16, 0.10),
        "Disassemble Furniture": (4, 0.14, 0.16, 0.12),
        "Make Coffee": (2, 0.11, 0.13, 0.08),
        "Repair Machinery": (3, -0.01, -0.02, -0.01),
        "Setup Electronics": (7, 0.09, 0.11, 0.08),
    },
}
CELLS: tuple[Cell, ...] = tuple(
    Cell(table, row, column, value, digits, SOURCES[table])
    for table, rows in _VALUES.items()
    for row, values in rows.items()
    for (column, digits), value in zip(COLUMNS[table], values, strict=True)
)

UTTERANCES, PLAY_BY_PLAY = 148_533, 58_031
"""SoccerNet utterances in all, and those that the filter took for play-by-play (4.1.1)."""
FPS = 2.0
"""Frames a second (6.1)."""
THRESHOLDS = {"soccernet": 0.725, "holoassist": 0.8}
"""Of the turn-based model's silence (6.1)."""
RUN = (
    "the paper's models start from VideoLLM-online-8B-v1+ (LoRA 128/256); for contingency "
    "awareness VLM-TSI is fine-tuned on Goal-Step and VideoLLM-Online is not (Section 6.1)",
    "streamed at the paper's 2 frames a second, turn-based thresholds 0.725 (SoccerNet) and "
    "0.8 (HoloAssist) (Section 6.1)",
    "Table 3: an event counts within about 5 s of an utterance's start and end (Section 6.2.2); "
    "the 5-second window of clusters (Appendix A) is read as docs/data.md says",
    "the paper transcribes with WhisperX and filters with an LSTM (Section 4.1.1); another "
    "recogniser or filter gives other datapoints",
)


def cells(tables: Sequence[str] = TABLES) -> list[Cell]:
    """The cells of some tables, in the paper's order."""
    return [cell for cell in CELLS if cell.table in tables]


def value(table: str, row: str, column: str) -> float:
    """One cell's value; KeyError where the paper has none."""
    for cell in CELLS:
        if (cell.table, cell.row, cell.column) == (table, row, column):
            return cell.value
    raise KeyError(f"{table}, {row}, {column}")
