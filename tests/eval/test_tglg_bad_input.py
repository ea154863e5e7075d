"""What people feed the scoring command by mistake: counted, repaired or refused, never NaN."""

import json
import math
import time

import pytest

from eval import tglg
from tests.eval.test_tglg import HashEmbedder, timeline
from vlm_tsi.published import write_annotations
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_generated, write_timelines


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    monkeypatch.setattr(tglg, "find_embedder", lambda preferred, cache: HashEmbedder())


@pytest.fixture
def folder(tmp_path):
    write_timelines(tmp_path / "r.jsonl", [timeline("a"), timeline("b")])
    return tmp_path


def scored(folder, pred: str, *extra: str, ref: str = "r.jsonl") -> dict:
    """The score file, every number of which is finite."""
    paths = ["--ref", str(folder / ref), "--pred", str(folder / pred)]
    assert tglg.main([*paths, "--out", str(folder / "s.json"), "--resamples", "20", *extra]) == 0

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in a result")

    return json.loads((folder / "s.json").read_text("utf-8"), parse_constant=refuse)


def refused(folder, capsys, pred: str, *extra: str, ref: str = "r.jsonl") -> str:
    paths = ["--ref", str(folder / ref), "--pred", str(folder / pred)]
    assert tglg.main([*paths, "--out", str(folder / "s.json"), *extra]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and err.startswith("error: ") and not out
    assert not (folder / "s.json").exists()
    return err


def say(folder, *said: Generated) -> str:
    write_generated(folder / "p.jsonl", said)
    return "p.jsonl"


def test_unknown_videos_are_counted_and_named(folder, capsys):
    pred = say(folder, Generated("a", 3, 4, "red left"), Generated("zz", 0, 1, "x"))
    report = scored(folder, pred)
    assert report["unknown_videos"] == ["zz"] and report["counts"]["unknown_video_utterances"] == 1
    assert report["micro"]["precision"] == 50 and "zz" in capsys.readouterr().err
    assert scored(folder, pred, "--unknown-videos", "ignore")["counts"]["ignored_utterances"] == 1


def test_videos_without_predictions_are_counted(folder, capsys):
    report = scored(folder, say(folder, Generated("a", 3, 4, "red left")))
    assert report["counts"]["videos_without_predictions"] == 1
    assert report["micro"]["recall"] == 25 and report["per_video"]["b"]["trace"] == 0
    assert "1 video(s) with references have no prediction" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rows",
    ["video_id,start,content\na,3,red left\n", "video_id,start,end,content\na,3,,red left\n"],
)
def test_missing_ends_are_estimated_and_counted(folder, capsys, rows):
    (folder / "p.csv").write_text(rows)
    report = scored(folder, "p.csv")
    assert report["counts"]["ends_estimated"] == 1
    assert "1 generated end(s) are estimates" in capsys.readouterr().err


def test_empty_text_is_scored_and_counted(folder, capsys):
    report = scored(folder, say(folder, Generated("a", 3, 4, ""), Generated("a", 8, 9, "  ")))
    assert report["counts"]["generated_without_text"] == 2 and report["counts"]["matched"] == 2
    assert "2 generated utterance(s) have no text" in capsys.readouterr().err


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["start", "end"])
def test_times_that_are_no_numbers_are_refused(folder, capsys, bad, field):
    times = {"start": "1.0", "end": "2.0"} | {field: bad}
    line = f'{{"video_id":"a","start":{times["start"]},"end":{times["end"]},"text":"x"}}\n'
    (folder / "p.jsonl").write_text(line)
    assert "p.jsonl:1" in refused(folder, capsys, "p.jsonl")
    (folder / "p.csv").write_text(
        f"video_id,start,end,content\na,{times['start']},{times['end']},x\n"
    )
    assert field in refused(folder, capsys, "p.csv")


def test_overlapping_utterances_cost_overlap_only(folder):
    apart = scored(folder, say(folder, Generated("a", 3, 4, "x"), Generated("a", 8, 9, "y")))
    over = scored(folder, say(folder, Generated("a", 3, 9, "x"), Generated("a", 8, 9, "y")))
    assert over["micro"]["s_overlap"] < apart["micro"]["s_overlap"]
    assert over["micro"]["s_start"] == pytest.approx(apart["micro"]["s_start"])


def test_duplicates_are_scored_against_precision_and_counted(folder, capsys):
    one = Generated("a", 3, 4, "red left")
    report = scored(folder, say(folder, one, one, one))
    assert report["counts"]["repeated"] == 2
    assert report["micro"]["precision"] == pytest.approx(100 / 3 * 2, abs=40)
    assert "repeat another" in capsys.readouterr().err


@pytest.mark.parametrize(
    "count, spread", [(4_000, 20_000.0), (2_000, 100.0)], ids=["a long video", "a hail of words"]
)
def test_thousands_of_utterances_for_one_video(folder, count, spread):
    moments = [k * spread / count for k in range(count)]
    told = tuple(Utterance("assistant", f"red {k % 9}", t, t + 1, eval=True)
                 for k, t in enumerate(moments))  # fmt: skip
    write_timelines(folder / "many.jsonl", [Timeline("m", "", spread + 2, told)])
    said = [Generated("m", t + 0.2, t + 1, f"red {k % 7}") for k, t in enumerate(moments)]
    began = time.monotonic()
    report = scored(folder, say(folder, *said), ref="many.jsonl")
    assert report["counts"]["matched"] > 0.99 * count
    assert time.monotonic() - began < 60


def test_a_csv_with_mark_crlf_and_quoted_newlines(folder):
    (folder / "p.csv").write_bytes(
        b'\xef\xbb\xbfvideo_id,start,end,content\r\na,3.0,4.0,"red\r\nleft"\r\nb,3.0,4.0,"a ""b"""\r\n'
    )
    report = scored(folder, "p.csv")
    assert [p["gen_text"] for p in report["pairs"]] == ["red\nleft", 'a "b"']


@pytest.mark.parametrize("text", ["Gól! Aguero přichází", "ゴール!アグエロ", "هدف", "⚽️👏🏽"])
def test_text_in_other_scripts_goes_through_every_format(folder, text):
    told = (Utterance("assistant", text, 3.0, 4.0, eval=True),)
    write_timelines(folder / "r.jsonl", [Timeline("a", "", 9.0, told)])
    write_annotations(folder / "r.json", [Timeline("a", "", 9.0, told)])
    (folder / "p.csv").write_text(f"video_id,start,end,content\na,3,4,{text}\n", "utf-8")
    pred = say(folder, Generated("a", 3, 4, text))
    for name, ref in ((pred, "r.jsonl"), ("p.csv", "r.json")):
        report = scored(folder, name, ref=ref)
        assert math.isclose(report["micro"]["trace"], 100)
        assert report["pairs"][0]["gen_text"] == text


def test_an_embedder_folder_that_is_not_there_is_named(folder, capsys, monkeypatch):
    monkeypatch.undo()
    pred = say(folder, Generated("a", 3, 4, "red left"))
    err = refused(folder, capsys, pred, "--embedder", str(folder / "nowhere"))
    assert "nowhere" in err
    (folder / "empty").mkdir()
    assert "empty" in refused(folder, capsys, pred, "--embedder", str(folder / "empty"))


def test_no_predictions_at_all_and_no_file(folder, capsys):
    assert set(scored(folder, say(folder))["micro"].values()) == {0.0}
    (folder / "s.json").unlink()
    capsys.readouterr()
    assert "nowhere.jsonl" in refused(folder, capsys, "nowhere.jsonl")
