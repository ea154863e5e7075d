"""Failure kinds and the sensitivity table in the scoring command's output."""

import json

import pytest

from eval import tglg
from tests.reference.hash_embedder import hash_embed
from vlm_tsi.scoring.failures import KINDS
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_generated, write_timelines


class HashEmbedder:
    name = "hash"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, texts):
        self.seen += texts
        return hash_embed(texts)


@pytest.fixture
def embedder(monkeypatch):
    one = HashEmbedder()
    monkeypatch.setattr(tglg, "find_embedder", lambda preferred, cache: one)
    return one


REFS = [(2.0, 4.0, "red"), (9.0, 11.0, "blue"), (20.0, 21.0, "green"), (30.0, 31.0, "off")]
SAID = [(4.0, 6.0, "red"), (9.0, 14.0, "blue"), (13.0, 14.0, "left"), (20.0, 21.0, "green")]


@pytest.fixture
def files(tmp_path, embedder):
    turns = tuple(Utterance("assistant", t, s, e, eval=True) for s, e, t in REFS)
    write_timelines(tmp_path / "r.jsonl", [Timeline("v", "", 40.0, turns)])
    write_generated(tmp_path / "p.jsonl", [Generated("v", s, e, t) for s, e, t in SAID])
    return tmp_path


def run(folder, *extra):
    paths = ["--ref", folder / "r.jsonl", "--pred", folder / "p.jsonl", "--out", folder / "s.json"]
    return tglg.main([str(x) for x in (*paths, "--resamples", 20, *extra)])


def test_kinds_stand_in_each_pair_and_are_counted(files, capsys):
    assert run(files) == 0
    report = json.loads((files / "s.json").read_text())
    assert [p["failures"] for p in report["pairs"]] == [
        ["delayed_start"],
        ["over_extended", "overlap"],
        [],
    ]
    assert [(u["text"], u["side"], u["failures"]) for u in report["unmatched"]] == [
        ("off", "reference", ["missed"]),
        ("left", "generated", ["overlap", "extra"]),
    ]
    counts = report["failures"]["counts"]
    assert list(counts) == list(KINDS)
    assert list(counts.values()) == [1, 0, 1, 2, 1, 1]
    assert report["failures"]["rules"]["delayed_start"] == 1.5
    out = capsys.readouterr().out
    assert "delayed start (> 1.5 s) 1, premature cut-off (> 2 s) 0, over-extended (> 2 s) 1" in out
    assert "sensitivity" not in report and "one parameter moved" not in out


def test_thresholds_can_be_set(files, capsys):
    options = ["--failure-delayed-start", "2", "--failure-over-extended", "3"]
    assert run(files, *options, "--failure-overlap", "1") == 0
    report = json.loads((files / "s.json").read_text())
    assert list(report["failures"]["counts"].values()) == [0, 0, 0, 0, 1, 1]
    assert "delayed start (> 2 s) 0" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_bad_thresholds_are_one_line(files, capsys, value):
    assert run(files, f"--failure-premature-cutoff={value}") == 2
    err = capsys.readouterr().err
    assert "premature_cutoff is" in err and "use seconds from 0 on" in err
    assert err.count("\n") == 1 and not (files / "s.json").exists()


def test_sensitivity_is_printed_and_stored_and_embeds_nothing_again(files, embedder, capsys):
    assert run(files, "--sensitivity", "--alpha", "0.4") == 0
    report = json.loads((files / "s.json").read_text())
    found = report["sensitivity"]
    assert found["axes"]["tau_win"] == [2.5, 5.0, 10.0] and 0.4 in found["axes"]["alpha"]
    (here,) = (
        p
        for p in found["points"]
        if all(p[axis] == report["params"][axis] for axis in found["axes"])
    )
    assert here["trace"] == pytest.approx(report["micro"]["trace"], abs=1e-9)
    out = capsys.readouterr().out
    assert f"[0.4: {here['trace']:.1f}]" in out and "lowest of 162" in out
    assert len(embedder.seen) == len(set(embedder.seen)) == 5


def test_silence_is_all_missed(files, capsys):
    (files / "p.jsonl").write_text("")
    assert run(files, "--sensitivity") == 0
    report = json.loads((files / "s.json").read_text())
    assert report["failures"]["counts"] == {**dict.fromkeys(KINDS, 0), "missed": 4}
    assert {p["trace"] for p in report["sensitivity"]["points"]} == {0.0}
