"""The paper's numbers: every cell once, as printed."""

import math
import re

import pytest

from data_prep import stats
from data_prep.holoassist.videos import TASK_GROUPS
from eval.group_events import ACTIONS
from eval.paper_tables import CELLS, COLUMNS, TABLES, cells, value


def test_every_cell_of_the_four_tables_is_there_once():
    counts = {table: len(cells([table])) for table in TABLES}
    assert counts == {"table1": 2 * 4, "table2": 4 * 7, "table3": 6 * 4, "table4": 5 * 4}
    assert len({(c.table, c.row, c.column) for c in CELLS}) == len(CELLS) == 80
    for cell in CELLS:
        assert math.isfinite(cell.value) and cell.source.startswith(f"Table {cell.table[-1]},")
        assert round(cell.value, cell.digits) == cell.value


def test_trace_is_the_mean_of_its_two_halves_as_printed():
    for cell in CELLS:
        if cell.column == "trace":
            halves = [value(cell.table, cell.row, c) for c in ("s_a", "s_t")]
            assert sum(halves) / 2 == pytest.approx(cell.value, abs=1.51 * 10**-cell.digits)


def test_groups_and_their_sizes_are_those_that_we_score_by():
    tasks = list(TASK_GROUPS.values())
    ours = {
        "table3": {name: len(labels) for name, labels in ACTIONS.items()},
        "table4": {name: tasks.count(name) for name in tasks},
    }
    for table, sizes in ours.items():
        assert {c.row: c.value for c in cells([table]) if c.column == "members"} == sizes


def test_the_table_that_statistics_print_beside_theirs_has_the_same_numbers():
    for name, *printed in stats.TABLE_1:
        row = name.removeprefix("paper, ")
        ours = [value("table1", row, column) for column, _ in COLUMNS["table1"]]
        assert [float(text.replace(",", "")) for text in printed] == ours


def test_all_cells_stand_in_the_paper_in_their_order(shared_data):
    file = shared_data.parent / "papers/tglg_vlm_tsi.txt"
    if not file.is_file():
        pytest.skip("the paper's text is not there")
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    printed = [
        [float(cell) for cell in line if re.fullmatch(r"-?\d*\.?\d+", cell)]
        for line in lines
        if len(line) >= 5
    ]
    rows: dict[tuple[str, str], list[float]] = {}
    for cell in CELLS:
        rows.setdefault((cell.table, cell.row), []).append(cell.value)
    assert [row for row in printed if row] == list(rows.values())
