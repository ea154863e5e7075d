"""The command that scores by group, from files to files."""

import json
import math
import random

import pytest

from data_prep.holoassist.videos import TASK_GROUPS
from eval import groups, tglg
from eval.group_events import ACTIONS
from tests.reference.hash_embedder import hash_embed
from vlm_tsi.published import write_annotations, write_prediction_csv
from vlm_tsi.scoring.trace_score import SCORES
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_generated, write_timelines

MATCHES = [f"2015-01-0{k} - 20-00 Reds {k} - 1 Blues" for k in range(1, 4)]
LEAGUE = "england_epl/2014-2015"
TASKS = ("assemble stool", "change belt", "setup gopro")


class HashEmbedder:
    name, texts = "hash", []

    def __call__(self, texts):
        self.texts.extend(texts)
        return hash_embed(texts)


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    HashEmbedder.texts.clear()
    for module in (groups, tglg):
        monkeypatch.setattr(module, "find_embedder", lambda preferred, cache: HashEmbedder())


def half(k: int, number: int) -> Timeline:
    """Seven scored turns, one every ten seconds, as two datapoints would have them."""
    said = tuple(
        Utterance("assistant", f"kick {i % 3} of {k}", 10.0 * i, 10.0 * i + 2, eval=True)
        for i in range(7)
    )
    source = f"{LEAGUE}/{MATCHES[k]}/{number}_224p"
    meta = {"source": source, "task_type": TASKS[k]}
    return Timeline(f"{source}#0", "", 70.0, said, meta=meta)


TIMELINES = [half(k, number) for k in range(3) for number in (1, 2)]
SAME = [Generated(t.video_id, u.start, u.end, u.text) for t in TIMELINES for u in t.utterances]
LATE = [Generated(g.video_id, g.start + 1, g.end + 2, "kick 0") for g in SAME[::2]]
EXTRA = [Generated(TIMELINES[0].video_id, 66.0, 67.0, "no"), Generated("x", 1.0, 2.0, "no")]

CROWD = [
    Generated(t.video_id, 3.1 + i * 0.0137, 3.3 + i * 0.0291, "no")
    for t in TIMELINES
    for i in range(12)
]


@pytest.fixture
def files(tmp_path):
    """References, predictions, and a group source of each kind."""
    write_timelines(tmp_path / "r.jsonl", TIMELINES)
    write_generated(tmp_path / "p.jsonl", LATE + EXTRA)
    write_generated(tmp_path / "same.jsonl", SAME)
    (tmp_path / "silent.jsonl").write_text("")
    every = [label for listed in ACTIONS.values() for label in listed]
    for k, match in enumerate(MATCHES):
        events = [
            {"gameTime": f"{h} - 0:{3 * i:02d}", "label": label, "position": str(3000 * i)}
            for h in (1, 2)
            for i, label in enumerate(every[k:])
        ]
        file = tmp_path / "SoccerNet" / LEAGUE / match / "Labels-v2.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"annotations": events}))
    names = [t.video_id for t in TIMELINES]
    (tmp_path / "v.csv").write_text("video_id,group\n" + "".join(f"{v},odd\n" for v in names[::2]))
    (tmp_path / "s.csv").write_text(
        "video_id,start,end,group\n"
        + "".join(f"{v},0,{5 + 9 * i},g{i % 2}\n" for i, v in enumerate(names))
    )
    return tmp_path


SOURCES = {
    "soccernet": ["--soccernet", "{}/SoccerNet"],
    "holoassist": ["--holoassist"],
    "videos": ["--csv", "{}/v.csv"],
    "stretches": ["--csv", "{}/s.csv"],
}


def run(folder, source, *extra, ref="r.jsonl", pred="p.jsonl", out="s.json"):
    paths = ["--ref", folder / ref, "--pred", folder / pred, "--out", folder / out]
    where = [x.format(folder) for x in SOURCES.get(source, ())]
    return groups.main([str(x) for x in (*paths, "--resamples", 50, *where, *extra)])


def report_of(folder, name="s.json"):
    return json.loads((folder / name).read_text(), parse_constant=lambda x: pytest.fail(x))


def rows_of(report):
    return [*report["groups"].values(), report["no_group"], report["all"]]


@pytest.mark.parametrize("source", SOURCES)
def test_a_reference_against_itself_is_100_in_every_group_and_silence_0(files, source):
    for pred, value in (("same.jsonl", 100.0), ("silent.jsonl", 0.0)):
        assert run(files, source, pred=pred) == 0
        report = report_of(files)
        assert report["groups"]
        for row in rows_of(report):
            expected = value if row["references"] else 0.0
            for name in SCORES:
                assert row["scores"][name] == dict.fromkeys(("value", "low", "high"), expected)


@pytest.mark.parametrize("source", SOURCES)
def test_the_row_of_all_is_what_the_scoring_command_gives(files, source):
    assert run(files, source) == 0
    paths = ["--ref", files / "r.jsonl", "--pred", files / "p.jsonl", "--out", files / "t.json"]
    assert tglg.main([str(x) for x in (*paths, "--resamples", 50)]) == 0
    whole, report = report_of(files, "t.json"), report_of(files)
    for name in SCORES:
        assert report["all"]["scores"][name]["value"] == pytest.approx(
            whole["micro"][name], abs=1e-9
        )
    assert report["counts"] == whole["counts"]
    for row in rows_of(report):
        assert row["matched"] <= min(row["references"], row["generated"])
        for found in row["scores"].values():
            assert all(math.isfinite(x) and 0 <= x <= 100 for x in found.values())


@pytest.mark.parametrize("source", SOURCES)
def test_the_order_of_the_records_does_not_matter(files, source):
    write_generated(files / "p.jsonl", LATE + EXTRA + CROWD)
    assert run(files, source, "--against", files / "same.jsonl") == 0
    rng = random.Random(3)
    mixed = [list(TIMELINES), LATE + EXTRA + CROWD]
    for some in mixed:
        rng.shuffle(some)
    write_timelines(files / "r.jsonl", mixed[0])
    write_generated(files / "p.jsonl", mixed[1])
    for file in files.glob("*.csv"):
        head, *lines = file.read_text().splitlines()
        file.write_text("\n".join([head, *reversed(lines)]) + "\n")
    for file in files.rglob("Labels-v2.json"):
        listed = json.loads(file.read_text())["annotations"]
        file.write_text(json.dumps({"annotations": listed[::-1]}))
    first = (files / "s.json").read_bytes()
    assert run(files, source, "--against", files / "same.jsonl") == 0
    assert (files / "s.json").read_bytes() == first


def test_table_3_counts_utterances_in_each_category_nearby_and_beside_them(files, capsys):
    assert run(files, "soccernet") == 0
    report = report_of(files)
    assert list(report["groups"]) == list(ACTIONS) and report["grouping"]["within_seconds"] == 5.0
    # 17, 16 and 15 events, three seconds apart: the turns at 60 s (and at 50 s of the last) are far
    beside, several = report["no_group"], report["in_several_groups"]
    assert beside["references"] == 8 and beside["videos"] == 7  # six halves, and x
    assert report["all"]["references"] == 42 and report["all"]["videos"] == 7
    listed = sum(row["references"] for row in report["groups"].values())
    assert listed > 42 - beside["references"] and several["references"] > 0
    assert report["in_videos_without_groups"] == {"references": 0, "generated": 1}
    events, videos = report["sources"]
    assert (events["read"], events["kept"]) == (96, 96) and videos["dropped"]
    out, err = capsys.readouterr()
    for words in (*ACTIONS, "(no group)", "TRACE", "S_overlap", "Recall", "hash"):
        assert words in out
    assert "belong to no group" in err and "count in each" in err and "does not know" in err
    assert "no references for 1 generated video(s): x" in err


def test_table_4_has_the_groups_of_the_tasks_and_names_those_without_utterances(files, capsys):
    assert run(files, "holoassist") == 0
    report = report_of(files)
    assert list(report["groups"]) == ["Assemble Furniture", "Repair Machinery", "Setup Electronics"]
    assert {row["references"] for row in report["groups"].values()} == {14}
    missing = report["groups_without_utterances"]
    assert sorted([*report["groups"], *missing]) == sorted(set(TASK_GROUPS.values()))
    assert f"no utterance in: {', '.join(missing)}" in capsys.readouterr().err
    assert report["no_group"]["generated"] == 1 and report["in_several_groups"]["references"] == 0
    records = [{"video_name": t.meta["source"], "taskType": TASKS[0]} for t in TIMELINES]
    (files / "a.json").write_text(json.dumps(records))
    write_annotations(files / "r.json", TIMELINES)  # has no room for meta
    assert run(files, "", "--holoassist", files / "a.json", ref="r.json") == 0
    assert list(report_of(files)["groups"]) == ["Assemble Furniture"]


def test_published_formats_give_the_same_groups(files):
    assert run(files, "soccernet") == 0
    first = report_of(files)
    write_annotations(files / "r.json", TIMELINES)
    write_prediction_csv(files / "p.csv", [g for g in LATE + EXTRA])
    assert run(files, "soccernet", ref="r.json", pred="p.csv") == 0
    assert report_of(files)["groups"] == first["groups"]


def test_against_shows_the_differences_of_the_tables(files, capsys):
    assert run(files, "soccernet", "--against", files / "same.jsonl") == 0
    report = report_of(files)
    assert len(HashEmbedder.texts) == len(set(HashEmbedder.texts))  # each once for both
    assert list(report["differences"]["groups"]) == list(report["groups"])
    for name, row in report["groups"].items():
        found, other = report["differences"]["groups"][name], report["against"]["groups"][name]
        for score in SCORES:
            value = row["scores"][score]["value"] - other["scores"][score]["value"]
            assert found[score]["value"] == pytest.approx(value, abs=1e-9)
            assert found[score]["low"] <= found[score]["high"]
    assert "difference: pred less against" in capsys.readouterr().out
    assert run(files, "soccernet", "--against", files / "p.jsonl") == 0
    found = report_of(files)["differences"]["groups"].values()
    assert {x for row in found for score in row.values() for x in score.values()} == {0.0}


def test_intervals_repeat_and_are_over_videos_not_datapoints(files):
    split = [
        Timeline(
            f"v#{k}",
            "",
            9.0,
            (Utterance("assistant", "a", 1.0, 2.0, eval=True),),
            meta={"source": "v"},
        )
        for k in range(4)
    ]
    write_timelines(files / "d.jsonl", split)
    write_generated(files / "q.jsonl", [Generated("v#0", 1.0, 2.0, "a")])
    (files / "d.csv").write_text("video_id,group\nv,g\n")
    assert run(files, "", "--csv", files / "d.csv", ref="d.jsonl", pred="q.jsonl") == 0
    row = report_of(files)["groups"]["g"]
    assert row["videos"] == 1 and row["scores"]["recall"] == {
        "value": 25.0,
        "low": 25.0,
        "high": 25.0,
    }
    assert run(files, "stretches") == 0
    first = (files / "s.json").read_bytes()
    assert run(files, "stretches") == 0 and (files / "s.json").read_bytes() == first
    assert run(files, "stretches", "--seed", 1) == 0 and (files / "s.json").read_bytes() != first


def test_parameters_reach_the_metric_and_ignored_videos_the_groups(files):
    assert run(files, "soccernet", "--unknown-videos", "ignore", "--tau-win", "0.5") == 0
    report = report_of(files)
    assert report["params"]["tau_win"] == 0.5 and report["all"]["matched"] == 0
    assert report["all"]["videos"] == 6 and not report["sources"][1]["dropped"]
    assert run(files, "soccernet", "--within", "0") == 0
    assert report_of(files)["no_group"]["references"] > 6


@pytest.mark.parametrize(
    "source, extra, words",
    [
        ("", [], "one of the arguments --soccernet --holoassist --csv is required"),
        ("videos", ["--holoassist"], "not allowed with argument"),
        ("holoassist", ["--within", "3"], "--within: a task is a whole video's"),
        ("soccernet", ["--within", "-1"], "--within: it is -1.0; use seconds, 0 or more"),
        ("soccernet", ["--within", "nan"], "--within: it is nan"),
        ("soccernet", ["--resamples", "0"], "--resamples: it is 0"),
        ("soccernet", ["--alpha", "2"], "alpha is 2.0; use a weight from 0 to 1"),
        ("soccernet", ["--against", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
        ("", ["--soccernet", "nowhere"], "nowhere: no such folder"),
        ("", ["--csv", "nowhere.csv"], "nowhere.csv: No such file"),
        ("", ["--holoassist", "nowhere.json"], "nowhere.json: No such file"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_embedded(files, capsys, source, extra, words):
    assert run(files, source, *extra) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    assert not HashEmbedder.texts and not (files / "s.json").exists()


def test_inputs_are_not_overwritten(files, capsys):
    assert run(files, "videos", out="v.csv") == 2
    assert "is an input of this command" in capsys.readouterr().err


def test_odd_group_names_are_shown_as_they_are(files, capsys):
    name = "[red]half[/red] "
    (files / "v.csv").write_text(f"video_id,group\n{TIMELINES[0].video_id},{name}\n")
    assert run(files, "videos") == 0
    assert name.strip() in capsys.readouterr().out


def test_help_says_that_an_utterance_may_count_in_several(capsys):
    with pytest.raises(SystemExit) as end:
        groups.main(["--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0 and "may count in several" in out and "examples:" in out
