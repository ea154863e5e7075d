"""Comparing score files: from `eval.tglg`'s output to a table, and what must always hold."""

import argparse
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval import compare, tglg
from eval.score_files import check_alike, read_scores
from tests.reference.hash_embedder import hash_embed
from vlm_tsi.scoring.groups import StoredSums, intervals
from vlm_tsi.scoring.trace_score import SCORES
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_generated, write_timelines


class HashEmbedder:
    name = "hash"

    def __call__(self, texts):
        return hash_embed(texts)


REFS = [(2.0, 4.0, "red left"), (9.0, 11.0, "blue right"), (15.0, 16.0, "green lamp")]
VIDEOS = [f"v{k}" for k in range(12)]


def spoken(seed: int, videos: list[str]) -> list[Generated]:
    """Now and then nothing, else the reference said a little off, sometimes in other words."""
    rng = np.random.default_rng(seed)
    said = []
    for video in videos:
        for start, end, text in REFS:
            off, longer = rng.uniform(0, 2, 2)
            if rng.random() < 0.8:
                words = text if rng.random() < 0.6 else "green left"
                said.append(Generated(video, start + off, end + off + longer, words))
    return said


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Score files `a` and `b` of two systems over twelve videos, `c` over ten and two others."""
    folder = tmp_path_factory.mktemp("scores")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tglg, "find_embedder", lambda preferred, cache: HashEmbedder())
        for name, seed, videos in (
            ("a", 1, VIDEOS),
            ("b", 2, VIDEOS),
            ("c", 3, VIDEOS[2:] + ["x", "y"]),
        ):
            turns = tuple(Utterance("assistant", t, s, e, eval=True) for s, e, t in REFS)
            write_timelines(folder / "r.jsonl", [Timeline(v, "", 20.0, turns) for v in videos])
            write_generated(folder / "p.jsonl", spoken(seed, videos))
            options = ["--ref", folder / "r.jsonl", "--pred", folder / "p.jsonl"]
            options += ["--out", folder / f"{name}.json", "--resamples", "20"]
            assert tglg.main([str(x) for x in options]) == 0
    return folder


def built(a, b, **options):
    check_alike(a, b)
    settings_ = {"resamples": 200, "seed": 0, "changes": 20, **options}
    return compare.build(a, b, argparse.Namespace(**settings_))


def files_of(folder, *names):
    return [read_scores(folder / f"{name}.json") for name in names]


def test_prints_and_writes_everything(made, tmp_path, capsys):
    out = tmp_path / "cmp.json"
    paths = [str(made / "a.json"), str(made / "b.json")]
    assert compare.main([*paths, "--out", str(out), "--resamples", "100"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "A wins",
        "ties",
        "S_overlap",
        "95% interval",
        "A better on",
        "B better on",
        "missed",
    ):
        assert words in printed
    report = json.loads(out.read_text())
    stored = {x: json.loads((made / f"{x}.json").read_text()) for x in "ab"}
    for pool in ("micro", "macro"):
        for name in SCORES:
            sides = [report[x][pool][name] for x in "ab"]
            assert sides == pytest.approx([stored[x][pool][name] for x in "ab"])
            found = report["differences"][pool][name]
            assert found["value"] == pytest.approx(sides[0] - sides[1])
            assert found["low"] <= found["value"] + 1e-9 and found["value"] <= found["high"] + 1e-9
    assert report["videos"] == {"shared": 12, "whole": 12, "only_a": [], "only_b": []}
    assert report["embedder"] == "hash" and report["params"]["tau_win"] == 5.0
    assert str(made) not in out.read_text(), "no paths of the machine"


def test_wins_are_counted_video_by_video(made):
    report = built(*files_of(made, "a", "b"))
    stored = [json.loads((made / f"{x}.json").read_text())["per_video"] for x in "ab"]
    for name in SCORES:
        gaps = [stored[0][v][name] - stored[1][v][name] for v in VIDEOS]
        wins = report["wins"][name]
        assert wins["a"] == sum(g > 1e-9 for g in gaps)
        assert wins["b"] == sum(g < -1e-9 for g in gaps)
        assert wins["a"] + wins["b"] + wins["ties"] == 12
        assert wins["a_share"] == pytest.approx(100 * wins["a"] / 12)


def test_changes_are_the_largest_with_both_texts(made):
    a, b = files_of(made, "a", "b")
    report, everything = built(a, b, changes=3), built(a, b, changes=99)
    for way, sign in (("a_better", 1), ("b_better", -1)):
        listed = report["changes"][way]
        assert listed == everything["changes"][way][:3] and len(listed) == 3
        sizes = [sign * c["change"] for c in listed]
        assert sizes == sorted(sizes, reverse=True) and min(sizes) > 0
        assert report["references"][way] == len(everything["changes"][way])
    for change in everything["changes"]["a_better"] + everything["changes"]["b_better"]:
        key = (change["video_id"], change["ref_idx"])
        assert change["ref_text"] == REFS[key[1]][2]
        scores = []
        for side, file in (("a", a), ("b", b)):
            pair = file.pairs.get(key)
            assert (change[side] is None) == (pair is None)
            scores.append(0 if pair is None else 0.5 * pair.semantic + 0.5 * pair.timing)
            assert pair is None or change[side]["text"] == pair.gen_text
        assert change["change"] == pytest.approx(scores[0] - scores[1])


def test_a_against_itself_differs_by_exactly_0_and_wins_nothing(made, capsys):
    (a,) = files_of(made, "a")
    report = built(a, a)
    for pool in ("micro", "macro"):
        for found in report["differences"][pool].values():
            assert (found["value"], found["low"], found["high"]) == (0.0, 0.0, 0.0)
    assert all((w["a"], w["b"], w["ties"]) == (0, 0, 12) for w in report["wins"].values())
    assert report["changes"] == {"a_better": [], "b_better": []}
    assert compare.main([str(made / "a.json")] * 2) == 0
    assert "better on" not in capsys.readouterr().out


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_swapping_negates_and_order_does_not_matter(made, seed, random):
    a, b = files_of(made, "a", "b")
    there, back = built(a, b, seed=seed), built(b, a, seed=seed)
    for pool in ("micro", "macro"):
        for name in SCORES:
            one, other = there["differences"][pool][name], back["differences"][pool][name]
            assert one["value"] == -other["value"]
            assert one["low"] == pytest.approx(-other["high"], abs=1e-9)
            assert one["high"] == pytest.approx(-other["low"], abs=1e-9)
    for name in SCORES:
        one, other = there["wins"][name], back["wins"][name]
        assert (one["a"], one["b"], one["ties"]) == (other["b"], other["a"], other["ties"])
    for change, same in zip(there["changes"]["a_better"], back["changes"]["b_better"], strict=True):
        assert change == {**same, "change": -same["change"], "a": same["b"], "b": same["a"]}
    assert built(shuffled(made, "a", random), b, seed=seed) == there


def test_intervals_of_one_system_do_not_depend_on_the_order(made):
    (a,) = files_of(made, "a")
    turned = StoredSums(a.sums.params, dict(reversed(a.sums.per_video.items())))
    for pool in ("micro", "macro"):
        assert intervals(turned, pool=pool) == intervals(a.sums, pool=pool)


def shuffled(folder, name, random):
    stored = json.loads((folder / f"{name}.json").read_text())
    videos = list(stored["per_video"].items())
    stored["per_video"] = dict(random.sample(videos, len(videos)))
    random.shuffle(stored["pairs"])
    mixed = folder / "mixed" / f"{name}.json"
    mixed.parent.mkdir(exist_ok=True)
    mixed.write_text(json.dumps(stored))
    return read_scores(mixed)


def test_videos_of_one_side_are_counted_and_named(made, capsys):
    assert compare.main([str(made / "a.json"), str(made / "c.json")]) == 0
    err = capsys.readouterr().err
    assert "2 video(s) only in A, left out: v0, v1" in err
    assert "2 video(s) only in B, left out: x, y" in err
    report = built(*files_of(made, "a", "c"))
    sides = {"only_a": ["v0", "v1"], "only_b": ["x", "y"]}
    assert report["videos"] == {"shared": 10, "whole": 10, **sides}
    seen = {c["video_id"] for way in report["changes"].values() for c in way}
    assert not seen & {"v0", "v1", "x", "y"}


def altered(folder, tmp_path, change):
    stored = json.loads((folder / "b.json").read_text())
    stored = change(stored)
    path = tmp_path / "bad.json"
    path.write_text(stored if isinstance(stored, str) else json.dumps(stored))
    return path


def put(*keys):
    """A change that stores the last of the keys under the others."""

    def change(stored):
        *way, name, value = keys
        inner = stored
        for key in way:
            inner = inner[key]
        inner[name] = value
        return stored

    return change


def drop(*keys):
    def change(stored):
        inner = stored
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        return stored

    return change


def alone(stored):
    stored["per_video"] = {"other": {**stored["per_video"]["v0"], "n_match": 0}}
    stored["pairs"] = []
    return stored


def other_references(stored):
    for pair in stored["pairs"]:
        pair["ref_text"] = "another"
    return stored


def twice(stored):
    stored["pairs"].append(stored["pairs"][0])
    return stored


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda s: "{", "not JSON"),
        (lambda s: "[]", "not a JSON object"),
        (lambda s: {}, "no score file (params is not there"),
        (put("per_video", []), "no score file (per_video is not there or of another type)"),
        (put("embedder", "other"), "its embedder is other, but hash in"),
        (put("params", "tau_win", 4.0), "tau_win is 4.0, but 5.0 in"),
        (put("params", "overlap", "matched"), "overlap is 'matched', but 'all' in"),
        (put("params", "overlap", "some"), "overlap is 'some'; use one of all, matched"),
        (put("params", "alpha", float("nan")), "alpha is nan"),
        (drop("params", "alpha"), "alpha is missing"),
        (put("per_video", "v3", 7), "per_video['v3']: not a JSON object"),
        (put("per_video", "v3", "start", float("nan")), "per_video['v3']: start is nan"),
        (put("per_video", "v3", "n_gen", -1), "per_video['v3']: n_gen is -1"),
        (put("per_video", "v3", "n_ref", 2.5), "per_video['v3']: n_ref is 2.5"),
        (put("per_video", "v3", "n_ref", True), "per_video['v3']: n_ref is True"),
        (put("per_video", "v3", "n_match", 99), "99 matched of 3 and"),
        (put("per_video", "v3", "n_ref", 8), "8 reference(s) for video 'v3', 3 in"),
        (put("pairs", 0, "gen_text", None), "pairs[0]: gen_text is None"),
        (put("pairs", 0, "semantic", "1"), "pairs[0]: semantic is '1'"),
        (put("pairs", 0, 3), "pairs[0]: not a JSON object"),
        (other_references, "is another one than in"),
        (put("pairs", 0, "video_id", "nowhere"), "in its sums"),
        (put("pairs", []), "0 pair(s) of video"),
        (twice, "a reference stands in two pairs"),
        (alone, "the two share no video; score both on the same videos"),
    ],
)
def test_bad_files_are_one_line(made, tmp_path, capsys, change, words):
    bad = altered(made, tmp_path, change)
    out = tmp_path / "cmp.json"
    assert compare.main([str(made / "a.json"), str(bad), "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and err.startswith("error: ")
    assert not out.exists()


@pytest.mark.parametrize(
    "extra, words",
    [
        (["--resamples", "0"], "--resamples: it is 0; use a whole number from 1 on"),
        (["--seed", "-1"], "--seed: it is -1"),
        (["--changes", "-1"], "--changes: it is -1"),
        (["--changes", "x"], "--changes"),
    ],
)
def test_bad_options_are_one_line(made, capsys, extra, words):
    assert compare.main([str(made / "a.json"), str(made / "b.json"), *extra]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_bad_paths_are_one_line(made, tmp_path, capsys):
    a = str(made / "a.json")
    for paths, words in (
        ([a, "nowhere.json"], "nowhere.json: No such file"),
        ([a, a, "--out", a], "is an input of this command"),
        ([a, a, "--out", str(tmp_path)], "is a folder; name a file"),
        ([a], "eval.compare --help"),
    ):
        assert compare.main(paths) == 2
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1


def test_few_videos_are_said_to_be_few(made, tmp_path, capsys):
    def one(stored):
        stored["per_video"] = {"v0": stored["per_video"]["v0"]}
        stored["pairs"] = [p for p in stored["pairs"] if p["video_id"] == "v0"]
        return stored

    assert compare.main([str(made / "a.json"), str(altered(made, tmp_path, one))]) == 0
    assert "1 shared video(s) are too few" in capsys.readouterr().err


def test_odd_texts_are_printed_as_they_are(made, tmp_path, capsys):
    def odd(stored):
        for pair in stored["pairs"]:
            pair["gen_text"], pair["semantic"] = "[bold]¿qué?\n[/x] 東京", 0.0
        return stored

    assert compare.main([str(made / "a.json"), str(altered(made, tmp_path, odd))]) == 0
    assert '"[bold]¿qué? [/x] 東京"' in capsys.readouterr().out


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit) as end:
        compare.main(["--help"])
    assert end.value.code == 0 and "examples:" in capsys.readouterr().out
