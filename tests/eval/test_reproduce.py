"""The paper's tables rerun: needs told, steps resumed, failures kept apart, rows that add up."""

import json
import math
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from eval import reproduce_needs, reproduce_run
from eval.paper_tables import TABLES, cells, value
from eval.reproduce import figures, main
from eval.reproduce_needs import Given, find_needs
from eval.reproduce_rows import Row
from eval.reproduce_run import Runner, Step, fingerprint
from tests.data_prep.pbp_halves import put, sentences
from tests.eval.reproduce_house import (
    InProcess,
    embedder,
    put_holoassist,
    put_models,
    put_soccernet,
    stream,
)
from vlm_tsi.timeline import Timeline, Utterance, write_timelines

SCHEMES = ("tsi", "turn_based")
PAPERS = {(c.table, c.row, c.column) for c in cells()}


@pytest.fixture
def ran(monkeypatch):
    """The commands that were run, in this process; any folder is a checkpoint."""
    runner = InProcess()
    monkeypatch.setattr(reproduce_run, "run_command", runner)
    monkeypatch.setattr(reproduce_needs, "_look_at_model", lambda folder: "a model")
    return runner


def result(out: Path) -> dict:
    def refuse(name):
        raise AssertionError(f"{name} in result.json")

    return json.loads((out / "result.json").read_text(), parse_constant=refuse)


def by_cell(out: Path) -> dict:
    return {(r["table"], r["row"], r["column"]): r for r in result(out)["rows"]}


def add_up(out: Path, *tables: str) -> None:
    """Each of the paper's cells stands once; a row has a value or a reason; differences fit."""
    rows = result(out)["rows"]
    keys = [(r["table"], r["row"], r["column"]) for r in rows]
    assert len(set(keys)) == len(keys)
    assert {k for k in keys if k in PAPERS} == {k for k in PAPERS if k[0] in tables}
    for row in rows:
        assert row["note"]
        if row["measured"] is None:
            assert row["difference"] is None
        elif row["paper"] is None:
            assert row["difference"] is None and "demo" in row["row"]
        else:
            gap = row["measured"] - row["paper"]
            assert row["difference"] == pytest.approx(gap, abs=1e-5)
        if tuple(keys[rows.index(row)]) in PAPERS:
            assert row["paper"] == value(row["table"], row["row"], row["column"])


# Needs.


def test_every_missing_need_is_told_with_its_reason_and_a_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce_needs.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("vlm_tsi.scoring.embed._places", lambda name: [])
    needs = find_needs(Given(), TABLES)
    assert {f.name for f in fields(Given)} - needs.keys() == set()
    for need in needs.values():
        assert not need.is_there and need.why and len(need.how) > 8 and need.tables
        assert "://" not in need.how


def test_a_need_is_there_only_if_its_folder_holds_what_it_should(tmp_path):
    put_soccernet(tmp_path)
    put_holoassist(tmp_path)
    names = ("soccernet", "labels", "echoes")
    full = {name: tmp_path / name for name in names}
    full |= {
        "holoassist": tmp_path / "annotations.json",
        "holoassist_videos": tmp_path / "holoassist",
    }
    found = find_needs(Given(**full), TABLES)
    told = {key: found[key].found for key in (*full, "actions")}
    assert told == {
        "soccernet": "6 halves", "labels": "6 halves", "echoes": "6 files",
        "holoassist": "3 of 1,758 videos", "holoassist_videos": "3 videos", "actions": "3 matches",
    }  # fmt: skip
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "a.json").write_text("{}")
    wrong = dict.fromkeys(full, empty) | {"holoassist": empty / "a.json", "soccernet_tsi": empty}
    found = find_needs(Given(**wrong), TABLES)
    for key in (*wrong, "actions"):
        assert not found[key].is_there and str(empty) in found[key].why and found[key].how


def test_labels_without_is_pbp_are_no_labels_and_versions_of_a_half_are_told(tmp_path):
    record = {"segments": [{k: v for k, v in s.items() if k != "is_pbp"} for s in sentences(1)]}
    put(tmp_path / "labels", "a/1_224p", record)
    for version in ("v1", "v2"):
        put(tmp_path / "echoes", f"{version}/league/season/match/1_asr", {"segments": {}})
    found = find_needs(Given(labels=tmp_path / "labels", echoes=tmp_path / "echoes"), ["table1"])
    assert "is_pbp" in found["labels"].why
    assert "1 of them other versions of a half" in found["echoes"].found


@pytest.mark.parametrize("option", ["--soccernet", "--labels", "--holoassist", "--holoassist-tsi"])
def test_a_path_that_is_named_and_not_there_is_the_users_mistake(tmp_path, capsys, option):
    assert main(["all", option, str(tmp_path / "no"), "--out", str(tmp_path / "out")]) == 2
    assert option in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [["--limit", "0"], ["--workers", "0"], ["--demo", "D", "--out", "D"]]
)
def test_values_out_of_range_are_refused(tmp_path, monkeypatch, words):
    monkeypatch.setattr("eval.reproduce.find_needs", lambda *args: pytest.fail("looked already"))
    assert main(["all", *words]) == 2


def test_a_dry_run_tells_needs_and_commands_and_leaves_nothing(tmp_path, ran, capsys):
    words = [*put_soccernet(tmp_path), *put_holoassist(tmp_path), *embedder(tmp_path)]
    words += put_models(tmp_path, "holoassist", *SCHEMES)
    out = tmp_path / "out"
    assert main(["all", *words, "--dry-run", "--out", str(out)]) == 0
    assert not ran.ran and not out.exists()
    said = " ".join(capsys.readouterr().out.split())
    assert "missing VLM-TSI checkpoint for SoccerNet" in said
    for command in ("import-echoes --echoes", "infer_stream.py --timeline", "eval.groups --ref"):
        assert command in said
    assert "--threshold 0.8" in said and "--fps 2 " in said and "/holoassist-tsi " in said


# Rows.


def test_holoassist_alone_gives_its_rows_of_tables_1_2_and_4(tmp_path, ran):
    words = [*put_holoassist(tmp_path), *embedder(tmp_path)]
    words += put_models(tmp_path, "holoassist", *SCHEMES)
    out = tmp_path / "out"
    for table in ("table1", "table2", "table4"):
        assert main([table, *words, "--out", str(out / table)]) == 0
        add_up(out / table, table)
    size = by_cell(out / "table1")["table1", "HoloAssist", "size"]
    assert (size["measured"], size["n"]) == (3, 3)
    assert "n=3 of 1,758 videos" in size["note"] and "in proportion 1,758" in size["note"]
    scores = by_cell(out / "table2")
    for scheme, model in zip(SCHEMES, ("VLM-TSI", "VideoLLM-Online"), strict=True):
        stored = json.loads((out / f"table2/scores/holoassist-{scheme}.json").read_text())
        row = scores["table2", f"Contingency Awareness, {model}", "trace"]
        assert row["measured"] == stored["micro"]["trace"] > 0 and row["n"] == 6
        assert "embedder" in row["note"] and "not the paper's" in row["note"]
    missing = scores["table2", "Perceptual Updating, VLM-TSI", "trace"]
    assert missing["measured"] is None and "needs SoccerNet videos" in missing["note"]
    groups = by_cell(out / "table4")
    stored = json.loads((out / "table4/table4.json").read_text())["differences"]["groups"]
    row = groups["table4", "Setup Electronics", "trace"]
    assert row["measured"] == stored["Setup Electronics"]["trace"]["value"] / 100 > 0
    assert groups["table4", "Make Coffee", "trace"]["measured"] is None  # no such task in it
    assert groups["table4", "Make Coffee", "trace"]["note"] == "nothing to measure in what is there"


def test_soccernet_gives_its_rows_of_tables_1_2_and_3(tmp_path, ran):
    words = [*put_soccernet(tmp_path), *embedder(tmp_path)]
    words += put_models(tmp_path, "soccernet", *SCHEMES)
    out = tmp_path / "out"
    assert main(["table1", *words, "--out", str(out)]) == 0
    add_up(out, "table1")
    rows = by_cell(out)
    assert rows["table1", "SoccerNet", "size"]["n"] == 6
    beside = rows["table1", "SoccerNet, hand-labelled halves", "size"]
    assert beside["measured"] == rows["table1", "SoccerNet", "size"]["measured"] > 0
    assert rows["table1", "HoloAssist", "size"]["note"] == "needs HoloAssist annotations"
    assert main(["table2", *words, "--out", str(out)]) == 0
    assert by_cell(out)["table2", "Perceptual Updating, VLM-TSI", "trace"]["measured"] > 0
    assert main(["table3", *words, "--out", str(out)]) == 0
    add_up(out, "table3")
    rows = by_cell(out)
    assert rows["table3", "Goal/Penalty", "trace"]["measured"] > 0
    assert rows["table3", "Attempts", "trace"]["measured"] is None
    assert ran.ran.count("build") == ran.ran.count("stream-soccernet-tsi") == 1  # shared


def test_one_checkpoint_gives_its_own_rows_and_the_other_is_told(tmp_path, ran):
    words = [*put_holoassist(tmp_path), *embedder(tmp_path)]
    words += put_models(tmp_path, "holoassist", "tsi")
    assert main(["table2", *words, "--out", str(tmp_path / "out")]) == 0
    rows = by_cell(tmp_path / "out")
    assert rows["table2", "Contingency Awareness, VLM-TSI", "f1"]["measured"] == 100
    other = rows["table2", "Contingency Awareness, VideoLLM-Online", "f1"]
    assert other["measured"] is None
    assert other["note"] == "needs turn-based checkpoint for HoloAssist"


def test_what_could_not_be_streamed_is_told_beside_the_score(tmp_path, ran, monkeypatch):
    words = [*put_holoassist(tmp_path), *embedder(tmp_path)]
    words += put_models(tmp_path, "holoassist", "tsi")
    out = tmp_path / "out"
    main(["table2", *words, "--out", str(out)])
    facts = out / "said/holoassist-tsi/run.json"
    facts.write_text(json.dumps({"failed": [{"video_id": "a", "error": "b"}]}))
    main(["table2", *words, "--out", str(out)])
    note = by_cell(out)["table2", "Contingency Awareness, VLM-TSI", "f1"]["note"]
    assert "1 datapoint(s) could not be streamed" in note


def test_no_value_is_shown_as_a_dash_and_never_as_0():
    row = Row("table2", "Perceptual Updating, VLM-TSI", "trace", 39.1, None, None, None, "why")
    assert figures(row)[3:] == ["39.1", "–", "–", "–", "why"]
    row = Row("table3", "Attempts", "trace", 0.12, 0.1, -0.02, 1200, "n: scored utterances")
    assert figures(row)[3:7] == ["0.12", "0.10", "-0.02", "1,200"]


# Runs.


def test_a_second_run_runs_no_step_and_a_changed_input_runs_again(tmp_path, ran):
    words = [*put_holoassist(tmp_path), *embedder(tmp_path)]
    words += put_models(tmp_path, "holoassist", *SCHEMES)
    words = ["table2", *words, "--out", str(tmp_path / "out")]
    assert main(words) == 0
    first, rows = list(ran.ran), result(tmp_path / "out")["rows"]
    assert main([*words, "--workers", "2"]) == 0
    assert ran.ran == first and result(tmp_path / "out")["rows"] == rows
    (tmp_path / "holoassist-tsi/model.safetensors").write_bytes(b"other weights")
    assert main(words) == 0
    again = ["stream-holoassist-tsi", "score-holoassist-tsi", "compare-holoassist"]
    assert ran.ran == [*first, *again]
    (tmp_path / "out/scores/holoassist-tsi.json").unlink()  # an output that is gone is made again
    assert main(words) == 0
    assert ran.ran == [*first, *again, "score-holoassist-tsi"]
    annotations = tmp_path / "annotations.json"
    annotations.write_text(annotations.read_text().replace("Corner, taken", "Corner kick, taken"))
    ran.ran.clear()
    assert main(words) == 0
    assert ran.ran == first


def test_a_failing_step_is_reported_with_its_log_and_the_rest_runs(tmp_path, ran, capsys):
    words = [*put_soccernet(tmp_path), *put_holoassist(tmp_path), *embedder(tmp_path)]
    ran.broken = {"labelled", "build", "holoassist"}
    out = tmp_path / "out"
    assert main(["table1", *words, "--out", str(out)]) == 1
    assert "holoassist-released" in ran.ran and "stats-holoassist" not in ran.ran
    row = by_cell(out)["table1", "HoloAssist", "size"]
    assert row["measured"] is None
    assert row["note"] == "stats-holoassist not run: holoassist failed"
    assert by_cell(out)["table1", "HoloAssist, released code's rules", "size"]["measured"] == 3
    failed = result(out)["failed"]
    assert str(out / "logs/build.log") in failed["build"]
    ran.broken = set()
    ran.ran.clear()
    assert main(["table1", *words, "--out", str(out)]) == 0
    again = ["build", "stats-soccernet", "labelled", "stats-labelled"]
    assert ran.ran == [*again, "holoassist", "stats-holoassist"]


def test_a_step_killed_under_new_settings_is_not_taken_for_done_under_the_old_ones(
    tmp_path, monkeypatch
):
    made = []

    def step(word, *, dies=False):
        def run(command, log):
            made.append(word)
            (tmp_path / "x").write_text(word)
            if dies:
                raise KeyboardInterrupt

        monkeypatch.setattr(reproduce_run, "run_command", run)
        one = Step(
            name="a", tables=("table1",), command=[sys.executable, word], outputs=(tmp_path / "x",)
        )
        Runner(tmp_path / "out", 1).run(one)

    step("old")
    with pytest.raises(KeyboardInterrupt):
        step("new", dies=True)
    step("old")
    assert made == ["old", "new", "old"] and (tmp_path / "x").read_text() == "old"


def test_a_step_that_leaves_no_output_has_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce_run, "run_command", lambda command, log: None)
    runner = Runner(tmp_path, 2)
    runner.run(Step(name="a", tables=(), command=["x"], outputs=(tmp_path / "gone",)))
    runner.run(Step(name="b", tables=(), command=["x"], after=("a",)))
    assert "left no" in runner.failed["a"] and runner.failed["b"] == "b not run: a failed"
    assert not (tmp_path / ".steps/a.json").exists()


def test_an_input_is_known_by_its_content_and_a_folder_by_its_files(tmp_path):
    (tmp_path / "a.json").write_text("1")
    before = fingerprint(tmp_path)
    (tmp_path / "b.json").write_text("1")
    assert fingerprint(tmp_path) != before
    (tmp_path / "b.json").unlink()
    (tmp_path / "a.json").write_text("2")
    assert fingerprint(tmp_path) != before
    (tmp_path / "a.json").write_text("1")
    assert fingerprint(tmp_path) == before
    assert fingerprint(tmp_path / "no") == []


@pytest.fixture
def demo(tmp_path):
    """What a finished demo leaves, made up: two clips a world, the baseline a second late."""
    folder, scores = tmp_path / "demo", {}
    for world in ("signals", "assembly"):
        points = folder / f"data/{world}-test/datapoints.jsonl"
        turns = [
            Utterance("assistant", "now red", 2.0 + 10 * k, 4.0 + 10 * k, eval=True,
                      meta={"kind": kind})
            for k, kind in enumerate(("none", "broken"))
        ]  # fmt: skip
        write_timelines(
            points, [Timeline(f"{world}-{k}", "v.mp4", 30.0, tuple(turns)) for k in (0, 1)]
        )
        for scheme in SCHEMES:
            out = folder / "spoken" / f"{world}-test-{scheme}"
            stream({"--timeline": points, "--policy": scheme, "--out": out})
        columns = [c.column for c in cells(["table2"])]
        scores[world] = {s: dict.fromkeys(columns, 70.0 - 10 * (s != "tsi")) for s in SCHEMES}
        gap = {"value": 10.0, "low": 8.0, "high": 12.0}
        scores.setdefault("difference", {})[world] = dict.fromkeys(columns, gap)
    thresholds = {"chosen": {"signals": 0.9, "assembly": 0.9}, "sweep": {}}
    scores |= {"thresholds": thresholds, "embedder": "all-mpnet-base-v2"}
    scores["datapoints"] = {"signals": 2, "assembly": 2}
    scores["difference"]["assembly"]["f1"] = {"value": -1.0, "low": -2.0, "high": 0.5}
    (folder / "thresholds.json").write_text(json.dumps(thresholds))
    (folder / "result.json").write_text(json.dumps(scores))
    return folder


def test_with_nothing_at_hand_the_demos_worlds_stand_in_marked_and_without_difference(
    tmp_path, ran, demo
):
    out = tmp_path / "out"
    words = ["all", "--demo", str(demo), "--out", str(out), *embedder(tmp_path)]
    assert main(words) == 0
    add_up(out, *TABLES)
    assert "demo" not in ran.ran  # it is finished
    rows = by_cell(out)
    ours = [row for key, row in rows.items() if key not in PAPERS]
    assert all("demo world, not comparable" in row["note"] for row in ours)
    assert {row["table"] for row in ours} == set(TABLES)
    assert all(row["measured"] is None for key, row in rows.items() if key in PAPERS)
    assert rows["table1", "signals (demo)", "size"]["measured"] == 2
    gap = rows["table2", "assembly (demo), TSI less turn-based", "trace"]
    assert gap["measured"] == 10 and "same sign as in the paper; 95% 8.0 to 12.0" in gap["note"]
    assert "other sign" in rows["table2", "assembly (demo), TSI less turn-based", "f1"]["note"]
    for table, world in (("table3", "signals"), ("table4", "assembly")):
        row = rows[table, f"{world} (demo), mid-sentence: broken", "s_t"]
        assert row["measured"] > 0 and row["n"] == 2
    ran.ran.clear()
    assert main(words) == 0 and ran.ran == []


def test_a_demo_that_has_no_result_is_run_first_and_only_where_nothing_else_is_there(
    tmp_path, ran, demo
):
    (demo / "result.json").rename(tmp_path / "kept")
    out = tmp_path / "out"
    words = ["table1", "--demo", str(demo), "--preset", "smoke", "--out", str(out)]
    ran.broken = {"demo"}
    assert main(words) == 1 and ran.ran == ["demo"]
    assert by_cell(out)["table1", "demo worlds", "all"]["measured"] is None
    assert "--preset smoke --out" in result(out)["commands"][0]
    ran.ran.clear()
    assert main([*words, *put_holoassist(tmp_path)[:2]]) == 0
    assert "demo" not in ran.ran and "stats-signals" not in ran.ran


def test_another_commands_result_is_not_taken_for_the_demos(tmp_path, ran, demo, capsys):
    (demo / "result.json").write_text("{}")
    assert main(["table1", "--demo", str(demo), "--out", str(tmp_path / "out")]) == 2
    assert "is no result of the demo" in capsys.readouterr().err and ran.ran == []


def test_table_1_through_the_real_commands(tmp_path):
    """The one test that starts processes."""
    words = put_holoassist(tmp_path)[:2]
    assert main(["table1", *words, "--out", str(tmp_path / "out")]) == 0
    add_up(tmp_path / "out", "table1")
    rows = by_cell(tmp_path / "out")
    values = {
        c: rows["table1", "HoloAssist", c]["measured"] for c in ("size", "utterances", "gap_s")
    }
    assert values == {"size": 3, "utterances": 2, "gap_s": 3}
    tokens = rows["table1", "HoloAssist", "tokens"]["measured"]
    assert tokens == pytest.approx(1.3 * 4 + 4)  # words x 1.3, and the turn's marks
    assert all(math.isfinite(r["measured"]) for r in rows.values() if r["measured"] is not None)
    text = (tmp_path / "out/tables.md").read_text()
    assert "| table1 | HoloAssist | size | 1,761 | 3 | -1,758 | 3 |" in text
