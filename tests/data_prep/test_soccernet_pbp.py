"""`train-filter` and `filter` as commands."""

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest

from data_prep.soccernet import __main__ as cli
from data_prep.soccernet import pbp_filter, pbp_train
from data_prep.soccernet.transcript import read_transcript
from tests.data_prep.killed import start
from tests.data_prep.pbp_halves import MATCHES, put, put_embedder, put_labels, sentences
from tests.data_prep.pbp_tiny import TINY, MadeUpEmbedder
from vlm_tsi.files import read_json
from vlm_tsi.timeline import read_timelines

HALF = f"{MATCHES[0]}/1_224p"


@pytest.fixture(autouse=True)
def made_up_embedder(monkeypatch):
    for module in (pbp_train, pbp_filter):
        monkeypatch.setattr(module, "find_embedder", MadeUpEmbedder)
    pbp_filter._loaded.cache_clear()


def train(labels, out, *more):
    parser = cli.parser_of("train-filter")
    args = ["--labels", str(labels), "--out", str(out), "--workers", "1", *more]
    return pbp_train.run(parser.parse_args(args), TINY)


def mark(transcripts, classifier, out, *more):
    words = ["filter", "--transcripts", transcripts, "--filter", classifier, "--out", out]
    return cli.main([*map(str, words), *more])


def bytes_below(folder):
    """All files but locks and temporary ones."""
    shown = (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    return {str(p.relative_to(folder)): p.read_bytes() for p in shown}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pbp_train, "find_embedder", MadeUpEmbedder)
        assert train(put_labels(root / "labels"), root / "filter") == 0
    return root


def test_training_leaves_classifier_metrics_timelines_and_report(trained):
    found = read_json(trained / "filter/metrics.json")
    assert found["leave_one_match_out"]["accuracy"] > 0.9 > found["majority_class"]["accuracy"]
    assert set(found["leave_one_match_out"]["by_match"]) == set(MATCHES)
    assert found["random_split"]["accuracy"] > 0.9 and found["random_split"]["seed"] == 42
    assert found["random_split"]["sentences"] == 36 and found["random_split"]["trained_on"] == 204
    assert 0 <= found["paper_recipe"]["random_split"]["accuracy"] <= 1
    report = read_json(trained / "filter/report.json")
    assert report["read"] == report["kept"] == 240 and report["dropped"] == {}
    timelines = list(read_timelines(trained / "filter/timelines.jsonl"))
    labels = [s["is_pbp"] for s in sentences(1)]
    assert len(timelines) == 6 and [bool(u.eval) for u in timelines[0].utterances] == labels


def test_the_papers_classifier_is_an_option(trained, tmp_path):
    assert train(trained / "labels", tmp_path, "--classifier", "lstm") == 0
    found = read_json(tmp_path / "metrics.json")
    assert found["classifier"] == "lstm" and found["random_split"]["trained_on"] == 168
    assert found["paper_recipe"]["leave_one_match_out"] == found["leave_one_match_out"]
    assert mark(trained / "labels", tmp_path, tmp_path / "out") == 0


def test_the_papers_classifier_is_compared_match_by_match(trained, tmp_path, capsys):
    assert train(trained / "labels", tmp_path, "--against-paper") == 0
    shown, found = capsys.readouterr(), read_json(tmp_path / "metrics.json")
    papers, ours = found["paper_recipe"]["leave_one_match_out"], found["leave_one_match_out"]
    assert ours == read_json(trained / "filter/metrics.json")["leave_one_match_out"]
    for match, difference in found["against_paper"]["by_match"].items():
        both = [side["by_match"][match]["accuracy"] for side in (ours, papers)]
        assert difference == pytest.approx(both[0] - both[1], abs=1e-6)
    assert found["against_paper"]["mean"] == pytest.approx(
        ours["accuracy"] - papers["accuracy"], abs=1e-5
    )
    assert "less the paper's lstm, match by match" in shown.out


def test_an_embedder_that_is_not_the_papers_is_named(trained, tmp_path, capsys):
    assert train(trained / "labels", tmp_path) == 0
    assert read_json(tmp_path / "metrics.json")["embedder"] == "made-up"
    assert "note: the embedder is made-up, not the paper's all-mpnet" in capsys.readouterr().err


@pytest.mark.slow
def test_two_workers_and_resumed_work_leave_the_same_bytes(trained, tmp_path):
    assert train(trained / "labels", tmp_path, "--workers", "2") == 0
    wanted = bytes_below(trained / "filter")
    assert bytes_below(tmp_path) == wanted
    for name in ("folds/context-match1.json", "folds/context-all/classifier.safetensors"):
        (tmp_path / name).unlink()
    kept = tmp_path / "folds/context-match0.json"
    before = kept.stat().st_mtime_ns
    assert train(trained / "labels", tmp_path, "--resume") == 0
    assert bytes_below(tmp_path) == wanted and kept.stat().st_mtime_ns == before


def test_changed_labels_are_not_mistaken_for_the_old_ones(trained, tmp_path):
    labels = put_labels(tmp_path / "labels")
    assert train(labels, tmp_path / "out") == 0
    changed = sentences(1)
    changed[0]["is_pbp"] = not changed[0]["is_pbp"]
    put(labels, HALF, {"segments": changed})
    before = (tmp_path / "out/folds/context-match1.json").read_bytes()
    assert train(labels, tmp_path / "out", "--resume") == 0
    assert (tmp_path / "out/folds/context-match1.json").read_bytes() != before


def spoiled(root, how):
    labels = put_labels(root, 1 if how == "one match" else 3, 10 if how == "few" else 40)
    record = {"segments": sentences(1)}
    first = record["segments"][0]
    if how == "no label":
        del first["is_pbp"]
    elif how == "wrong type":
        first["is_pbp"] = 1
    elif how == "one class":
        record["segments"] = [s | {"is_pbp": False} for s in record["segments"]]
        put(labels, f"{MATCHES[0]}/2_224p", record)
    if how not in ("few", "one match"):
        put(labels, HALF, "[" if how == "no JSON" else record)
    if how == "no JSON":
        (labels / f"{HALF}.json").write_text("[", encoding="utf-8")
    return labels


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("no label", "segments[0]: is_pbp is missing"),
        ("wrong type", "is_pbp is 1"),
        ("one class", "has no play-by-play"),
        ("one match", "labels of 1 match only"),
        ("few", "60 labelled sentences"),
        ("no JSON", "1_224p.json"),
    ],
)
def test_labels_that_nothing_can_be_learned_from_are_one_line(tmp_path, capsys, how, told):
    labels = spoiled(tmp_path / "labels", how)
    words = ["train-filter", "--labels", str(labels), "--out", str(tmp_path / "out")]
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1 and not (tmp_path / "out").exists()


def test_options_out_of_range_are_one_line(trained, tmp_path, capsys):
    labels, out = str(trained / "labels"), str(tmp_path / "out")
    for words in (
        ["train-filter", "--labels", str(tmp_path / "none"), "--out", out],
        ["train-filter", "--labels", labels, "--out", out, "--seed", "-1"],
        ["train-filter", "--labels", labels, "--out", out, "--limit", "2"],
        ["filter", "--transcripts", labels, "--filter", out, "--out", out],
        ["filter", "--transcripts", labels, "--filter", labels, "--out", out, "--threshold", "0"],
        ["filter", "--transcripts", labels, "--filter", str(trained / "filter"),
         "--out", f"{labels}/marked"],
        ["filter", "--transcripts", labels, "--filter", str(trained / "filter"),
         "--out", out, "--embedder", "another"],
    ):  # fmt: skip
        assert cli.main(words) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_segments_keep_order_times_and_words_and_gain_a_mark(trained, tmp_path):
    told = [{k: s[k] for k in ("start", "end", "text")} for s in sentences(77)]
    told[3]["words"] = [{"text": "x", "start": told[3]["start"], "end": told[3]["end"]}]
    told[5]["text"] = " … "
    told[8], told[9] = told[9], told[8]
    path = put(tmp_path / "in", HALF, {"segments": told, "language": "en", "duration": 99})
    assert mark(tmp_path / "in", trained / "filter", tmp_path / "out") == 0
    before, after = (read_transcript(p, HALF) for p in (path, tmp_path / f"out/{HALF}.json"))
    for old, new in zip(before.segments, after.segments, strict=True):
        assert (new.start, new.end, new.text, new.words) == (
            old.start,
            old.end,
            old.text,
            old.words,
        )
        assert new.is_pbp == (new.pbp_score >= 0.5)
    assert after.segments[5].pbp_score == 0 and not after.segments[5].is_pbp
    truth = [s["is_pbp"] for s in sentences(77)]
    truth[8], truth[9] = truth[9], truth[8]
    assert np.mean([s.is_pbp == t for s, t in zip(after.segments, truth, strict=True)]) > 0.85
    report = read_json(tmp_path / "out/report.json")
    assert json.dumps(report).count("without words") == 1
    assert mark(tmp_path / "in", trained / "filter", tmp_path / "high", "--threshold", ".9") == 0
    strict = read_transcript(tmp_path / f"high/{HALF}.json", HALF).segments
    assert [s.is_pbp for s in strict] == [s.pbp_score >= 0.9 for s in after.segments]


def test_what_is_no_commentary_passes_and_what_cannot_be_read_is_counted(trained, tmp_path):
    halves = [f"l/s/match {i}/1_224p" for i in range(4)]
    put(tmp_path / "in", halves[0], {"segments": []})
    put(tmp_path / "in", halves[1], {"segments": [], "status": "no_speech"})
    put(tmp_path / "in", halves[2], {"pieces": []})
    put(tmp_path / "in", halves[3], {"segments": [{"start": 1, "end": 2, "text": "Abel."}]})
    assert mark(tmp_path / "in", trained / "filter", tmp_path / "out") == 0
    assert read_transcript(tmp_path / f"out/{halves[1]}.json", halves[1]).status == "no_speech"
    assert not (tmp_path / f"out/{halves[2]}.json").exists()
    text = (tmp_path / "out/report.json").read_text()
    assert "no speech: passed through" in text and "cannot be read" in text
    assert str(tmp_path) not in text


def test_nothing_readable_is_an_error(trained, tmp_path, capsys):
    put(tmp_path / "in", HALF, [])
    assert mark(tmp_path / "in", trained / "filter", tmp_path / "out") == 2
    assert "no transcript could be read" in capsys.readouterr().err


def test_a_changed_transcript_is_marked_again(trained, tmp_path):
    put(tmp_path / "in", HALF, {"segments": sentences(5)})
    assert mark(tmp_path / "in", trained / "filter", tmp_path / "out") == 0
    put(tmp_path / "in", HALF, {"segments": sentences(6)})
    assert mark(tmp_path / "in", trained / "filter", tmp_path / "out", "--resume") == 0
    found = read_transcript(tmp_path / f"out/{HALF}.json", HALF)
    assert [s.text for s in found.segments] == [s["text"] for s in sentences(6)]


def interrupted(args, out, delay):
    """Kill a run after its first sign of life, then let one go on to the end."""
    run = start(args, out)
    while not out.exists() and run.poll() is None:
        time.sleep(0.005)
    time.sleep(delay)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait(timeout=60) == -signal.SIGKILL
    assert start([*args, "--resume"], out).wait(timeout=300) == 0
    return bytes_below(out)


@pytest.mark.slow
def test_training_killed_and_resumed_ends_with_the_same_bytes(trained, tmp_path):
    step = ["tests.data_prep.pbp_tiny", "train-filter", "--labels", str(trained / "labels")]
    wanted = bytes_below(trained / "filter")
    assert "folds/context-all/classifier.safetensors" in wanted
    assert interrupted([*step, "--workers", "1"], tmp_path / "out", 0.3) == wanted


def test_marking_killed_and_resumed_ends_with_the_same_bytes(trained, tmp_path):
    assert mark(trained / "labels", trained / "filter", tmp_path / "calm") == 0
    step = ["tests.data_prep.pbp_tiny", "filter", "--transcripts", str(trained / "labels"),
            "--filter", str(trained / "filter")]  # fmt: skip
    assert interrupted(step, tmp_path / "out", 0.05) == bytes_below(tmp_path / "calm")


@pytest.mark.slow
def test_two_workers_of_ray_mark_with_the_same_bytes(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray (extra `cluster`) is not installed")
    monkeypatch.undo()  # other processes know the real embedder only
    pbp_filter._loaded.cache_clear()
    labels, real = put_labels(tmp_path / "labels", 2), str(put_embedder(tmp_path / "embedder"))
    assert train(labels, tmp_path / "filter", "--embedder", real) == 0
    folders = {}
    for how in ((), ("--workers", "2", "--executor", "ray")):
        out = tmp_path / f"out{len(how)}"
        assert mark(labels, tmp_path / "filter", out, "--embedder", real, *how) == 0
        folders[how] = bytes_below(out)
    assert len({str(sorted(f.items())) for f in folders.values()}) == 1


def test_weights_of_another_run_are_refused(trained, tmp_path, capsys):
    other = tmp_path / "filter"
    shutil.copytree(trained / "filter", other)
    weights = other / "classifier.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    assert mark(trained / "labels", other, tmp_path / "out") == 2
    assert "is not what classifier.json was written for" in capsys.readouterr().err


def test_a_broken_character_stops_no_half(trained, tmp_path):
    said = sentences(5)
    said[0]["text"] = "\ud83d goal"
    put(tmp_path / "in", HALF, {"segments": said})
    assert mark(tmp_path / "in", trained / "filter", tmp_path / "out") == 0
