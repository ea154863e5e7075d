"""The bench: its arithmetic, and that every section runs at its smallest."""

import json
from pathlib import Path

import pytest

from eval import bench, bench_timing
from eval.bench_timing import Row, p95, rate_row, time_sides


def row(ratio: float, target: float | None) -> Row:
    return Row("a / b", 2.0, 1.0, 2.0, 1.0, "frames/s", ratio, target)


def test_every_section_runs_and_tells_of_it_in_json(tmp_path: Path, capsys) -> None:
    assert bench.main(["--smoke", "--out", str(tmp_path / "b.json")]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told == json.loads((tmp_path / "b.json").read_text())
    assert list(told["sections"]) == ["decode", "store", "scoring", "datapoints"]
    names = [r["name"] for r in told["sections"]["decode"]]
    for kind in ("398x224", "1280x720"):
        assert {f"{kind} / decoding only", f"{kind} / each frame preprocessed"} <= set(names)
    rows = [r for section in told["sections"].values() for r in section]
    assert all(r["ours"] > 0 and r["peer"] > 0 and r["ratio"] > 0 for r in rows)
    assert all(r["ours"] >= r["ours_p95"] and r["peer"] >= r["peer_p95"] for r in rows)
    assert {r["target"] for r in rows} == {0.9, 5.0, 50.0, 12.0, 2.5, 2.0, 1.0, None}


def test_a_missed_target_fails_only_where_it_is_checked(monkeypatch, capsys) -> None:
    module = type("Section", (), {"rows": staticmethod(lambda bench: [row(0.8, 0.9)])})
    monkeypatch.setattr(bench, "import_module", lambda name: module)
    assert bench.main(["decode"]) == 0
    assert bench.main(["decode", "--check"]) == 1
    assert "missed: a / b" in capsys.readouterr().err
    module.rows = staticmethod(lambda bench: [row(0.9, 0.9), row(0.1, None)])
    assert bench.main(["decode", "--check"]) == 0


def test_an_unknown_section_is_one_line(capsys) -> None:
    assert bench.main(["decoding"]) == 2
    assert (
        "no such section; use one of decode, store, scoring, datapoints" in capsys.readouterr().err
    )


def test_each_round_runs_every_side_in_turning_order(monkeypatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(bench_timing.time, "perf_counter", lambda: next(clock))
    ran: list[str] = []
    seconds = time_sides({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, 3)
    assert ran == list("abbaabba")
    assert seconds == {"a": [1, 1, 1], "b": [1, 1, 1]}


def test_a_ratio_is_the_median_of_paired_rounds() -> None:
    seconds = {"ours": [1.0, 2.0, 4.0], "peer": [3.0, 2.0, 40.0]}
    found = rate_row("x", "frames/s", seconds, "peer", amount=8)
    assert (found.ours, found.peer, found.ratio) == (4.0, 8 / 3, 3.0)
    assert (found.ours_p95, found.peer_p95) == (2.0, 0.2)
    other = rate_row("x", "frames/s", seconds, "peer", amount=8, peer_amount=4)
    assert (other.peer, other.ratio) == (4 / 3, 6.0)


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (10, 10), (20, 19), (100, 95)])
def test_p95(count: int, expected: int) -> None:
    assert p95([float(n) for n in range(count, 0, -1)]) == expected
