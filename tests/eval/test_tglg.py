"""The scoring command, from files to files."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from eval import tglg
from tests.reference.hash_embedder import hash_embed
from vlm_tsi.published import write_annotations, write_prediction_csv
from vlm_tsi.scoring.trace_score import SCORES
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_generated, write_timelines

ROOT = Path(__file__).resolve().parents[2]


class HashEmbedder:
    name = "hash"

    def __call__(self, texts):
        return hash_embed(texts)


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    monkeypatch.setattr(tglg, "find_embedder", lambda preferred, cache: HashEmbedder())


def timeline(video_id: str, *, marked: bool = True) -> Timeline:
    said = (
        Utterance("assistant", "watch the lamps", 0.0, 1.0),
        Utterance("user", "which one?", 1.5, 2.0),
        Utterance("assistant", "red left", 3.0, 4.0, eval=marked, meta={"kind": "none"}),
        Utterance("assistant", "blue right", 8.0, 9.0, eval=marked, meta={"kind": "bent"}),
    )
    return Timeline(video_id, "", 12.0, said)


SAID = [
    Generated("a", 3.0, 4.0, "red left"),
    Generated("a", 8.0, 9.0, "green right"),
    Generated("b", 3.5, 4.5, "red left", end_is_estimated=True),
    Generated("x", 0.0, 1.0, ""),
]


@pytest.fixture
def files(tmp_path):
    write_timelines(tmp_path / "r.jsonl", [timeline("a"), timeline("b")])
    write_generated(tmp_path / "p.jsonl", SAID)
    return tmp_path


def run(folder, *extra, ref="r.jsonl", pred="p.jsonl"):
    paths = ["--ref", folder / ref, "--pred", folder / pred, "--out", folder / "s.json"]
    return tglg.main([str(x) for x in (*paths, "--resamples", 50, *extra)])


def test_writes_and_prints_everything(files, capsys):
    assert run(files, "--content-words", "red, blue,green,left,right") == 0
    report = json.loads((files / "s.json").read_text())
    assert list(report["micro"]) == list(report["macro"]) == list(SCORES)
    assert report["micro"]["precision"] == 75 and report["micro"]["recall"] == 75
    assert report["embedder"] == "hash" and report["params"]["tau_win"] == 5.0
    assert report["content_accuracy"]["f1"] == pytest.approx(100 * 5 / 6)
    assert report["by_kind"]["bent"]["recall"] == 50
    assert list(report["per_video"]) == ["a", "b", "x"]
    assert report["per_video"]["a"]["n_match"] == 2 and report["per_video"]["x"]["trace"] == 0
    assert report["pairs"][1]["gen_text"] == "green right" and len(report["pairs"]) == 3
    low, high = (report["intervals"]["micro"]["trace"][k] for k in ("low", "high"))
    assert low <= report["micro"]["trace"] <= high
    counts = report["counts"]
    assert (counts["references"], counts["context_utterances"]) == (4, 4)
    assert (counts["ends_estimated"], counts["unknown_video_utterances"]) == (1, 1)
    assert counts["generated_without_text"] == 1 and counts["ignored_utterances"] == 0
    out, err = capsys.readouterr()
    for heading in ("TRACE", "S_a", "S_t", "S_start", "S_end", "S_overlap", "F1", "75.0", "hash"):
        assert heading in out
    assert "no references for 1 generated video(s): x" in err
    assert "not the paper's all-mpnet-base-v2" in err


def test_published_formats_give_the_same_scores(files, capsys):
    assert run(files) == 0
    first = json.loads((files / "s.json").read_text())
    write_annotations(files / "r.json", [timeline("a"), timeline("b")])
    write_prediction_csv(files / "p.csv", SAID)
    assert run(files, ref="r.json", pred="p.csv") == 0
    assert json.loads((files / "s.json").read_text())["micro"] == first["micro"]


def test_parameters_reach_the_metric(files, capsys):
    options = ["--overlap", "matched", "--swap-rule", "new_pairs", "--unknown-videos", "ignore"]
    assert run(files, *options, "--max-passes", "5", "--alpha", "1") == 0
    report = json.loads((files / "s.json").read_text())
    assert report["params"]["swap_rule"] == "new_pairs" and report["params"]["max_passes"] == 5
    assert report["micro"]["precision"] == 100
    assert report["micro"]["trace"] == report["micro"]["s_a"]
    assert report["counts"]["ignored_utterances"] == 1
    assert "are ignored" in capsys.readouterr().err


def test_the_released_codes_choices_are_one_switch(files, capsys):
    assert run(files, "--released") == 0
    report = json.loads((files / "s.json").read_text())
    wanted = {"overlap": "matched", "swap_rule": "new_pairs", "unknown_videos": "ignore"}
    assert report["not_the_papers"] == {**wanted, "max_passes": 5}
    assert "not the paper's: overlap matched, swap_rule new_pairs" in capsys.readouterr().out
    assert run(files, "--released", "--max-passes", "7") == 2
    assert "--max-passes 7" in capsys.readouterr().err


def test_several_files_are_one_set(files, capsys):
    assert run(files) == 0
    whole = json.loads((files / "s.json").read_text())
    write_timelines(files / "r2.jsonl", [timeline("b")])
    write_timelines(files / "r.jsonl", [timeline("a")])
    write_generated(files / "p.jsonl", SAID[:1])
    write_generated(files / "p2.jsonl", SAID[1:])
    paths = {"--ref": ("r.jsonl", "r2.jsonl"), "--pred": ("p.jsonl", "p2.jsonl")}
    words = [w for flag, names in paths.items() for w in (flag, *(str(files / n) for n in names))]
    assert tglg.main([*words, "--out", str(files / "s.json"), "--resamples", "50"]) == 0
    parts = json.loads((files / "s.json").read_text())
    assert parts["counts"].pop("videos_in_several_files") == 1
    assert whole["counts"].pop("videos_in_several_files") == 0
    for name in ("command", "references", "predictions"):
        assert parts.pop(name) != whole.pop(name)
    assert parts == whole
    assert "1 video(s) are in several --pred files" in capsys.readouterr().err
    words[words.index(str(files / "r2.jsonl"))] = str(files / "r.jsonl")
    write_timelines(files / "r3.jsonl", [timeline("a")])
    words[words.index(str(files / "r.jsonl"))] = str(files / "r3.jsonl")
    assert tglg.main([*words, "--out", str(files / "s.json")]) == 2
    told = capsys.readouterr().err
    assert "video 'a' is in" in told and "r3.jsonl as well" in told


def test_datapoints_of_one_video_are_drawn_together(files, capsys):
    write_timelines(files / "r.jsonl", [timeline("a#0"), timeline("a#1"), timeline("b")])
    write_generated(files / "p.jsonl", [replace(SAID[0], video_id="a#0")])
    assert run(files) == 0
    report = json.loads((files / "s.json").read_text())
    assert report["whole_videos"] == 2 and report["sources"] == {"a#0": "a", "a#1": "a"}
    assert "50 resamples of 2 whole video(s)" in capsys.readouterr().out
    assert report["counts"]["videos_without_predictions"] == 2


def test_repeated_utterances_are_scored_and_told(files, capsys):
    write_generated(files / "p.jsonl", [*SAID, SAID[0]])
    assert run(files) == 0
    report = json.loads((files / "s.json").read_text())
    assert report["counts"]["repeated"] == 1 and report["micro"]["precision"] == 60
    assert "repeat another of the same video" in capsys.readouterr().err


def test_silence_is_zero(files, capsys):
    (files / "p.jsonl").write_text("")
    assert run(files, "--content-words", "red") == 0
    report = json.loads((files / "s.json").read_text())
    assert set(report["micro"].values()) == {0.0}
    assert report["content_accuracy"]["f1"] is None


def test_nothing_marked_eval_names_the_option(files, capsys):
    write_timelines(files / "r.jsonl", [timeline("a", marked=False)])
    assert run(files) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "eval true" in err and "--all-assistant" in err
    assert not (files / "s.json").exists()
    assert run(files, "--all-assistant") == 0
    assert json.loads((files / "s.json").read_text())["counts"]["references"] == 3


@pytest.mark.parametrize(
    "extra, words",
    [
        (["--tau-win", "-1"], "tau_win is -1.0; use seconds above 0"),
        (["--alpha-start", "0.9"], "alpha_end is 0.4; use at most 1 - alpha_start"),
        (["--resamples", "0"], "--resamples: it is 0; use a whole number from 1 on"),
        (["--seed", "-1"], "--seed: it is -1; use a whole number from 0 on"),
    ],
)
def test_bad_options_are_one_line(files, capsys, extra, words):
    assert run(files, *extra) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "start, end, text, words",
    [
        ("NaN", "1", "x", "start is nan"),
        ("-1", "1", "x", "start is -1"),
        ("2", "1", "x", "end is 1"),
        ("1", "2", "", "text is ''"),
    ],
)
def test_bad_records_are_one_line(files, capsys, start, end, text, words):
    said = f'{{"role":"assistant","text":"{text}","start":{start},"end":{end},"eval":true}}'
    line = f'{{"video_id":"v","video_path":"","duration":9,"utterances":[{said}]}}\n'
    (files / "r.jsonl").write_text(line)
    assert run(files) == 2
    err = capsys.readouterr().err
    assert "r.jsonl:1" in err and words in err and err.count("\n") == 1


def test_out_of_order_and_missing_files(files, capsys):
    said = '{{"role":"assistant","text":"x","start":{0},"end":9,"eval":true}}'
    two = ",".join(said.format(s) for s in (5, 4))
    (files / "r.jsonl").write_text(
        f'{{"video_id":"v","video_path":"","duration":9,"utterances":[{two}]}}'
    )
    assert run(files) == 2
    assert "sort utterances by start" in capsys.readouterr().err
    assert run(files, ref="nowhere.jsonl") == 2
    assert "check the path" in capsys.readouterr().err


def test_unwritable_output(files, capsys):
    (files / "s.json").mkdir()
    assert run(files) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_ends_with_2(tmp_path):
    command = [sys.executable, "-m", "eval.tglg", "--ref", "no.jsonl", "--pred", "no.csv"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "s.json")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (
        done.returncode == 2
        and done.stderr == "error: no.jsonl: No such file or directory; check the path\n"
    )


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit) as end:
        tglg.main(["--help"])
    assert end.value.code == 0
    assert "examples:" in capsys.readouterr().out
