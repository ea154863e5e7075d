"""`python -m eval.report`: from score files to one page."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from eval import report, report_pairs, tglg
from eval.report_runs import groups_of, read_runs
from eval.report_views import MOST_SECONDS, views_of
from tests.eval.test_report import EVIL, Page
from tests.eval.test_tglg import HashEmbedder
from vlm_tsi.files import write_json
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_generated, write_timelines

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    monkeypatch.setattr(tglg, "find_embedder", lambda preferred, cache: HashEmbedder())


def told(video_id: str, count: int = 4, every: float = 5.0) -> Timeline:
    said = tuple(
        Utterance("assistant", f"red lamp {k}", every * k, every * k + 2, eval=True)
        for k in range(count)
    )
    return Timeline(video_id, f"{video_id}.mp4", every * count + 5, said)


def scores(folder: Path, name: str, timelines, said, *extra: str) -> Path:
    (folder / name).mkdir(exist_ok=True)
    write_timelines(folder / name / "r.jsonl", timelines)
    write_generated(folder / name / "p.jsonl", said)
    files = ["--ref", folder / name / "r.jsonl", "--pred", folder / name / "p.jsonl"]
    words = [*files, "--out", folder / f"{name}.json", "--resamples", 50, *extra]
    assert tglg.main([str(w) for w in words]) == 0
    return folder / f"{name}.json"


@pytest.fixture
def runs(tmp_path, capsys):
    """Two systems on the same two videos: one late, one that talks too much."""
    videos = [told("a"), told("b")]
    late = [Generated(v, 5.0 * k + 2, 5.0 * k + 3, "red lamp") for v in "ab" for k in range(3)]
    much = [Generated(v, 2.5 * k, 2.5 * k + 4, f"{EVIL} {k}") for v in "ab" for k in range(8)]
    found = scores(tmp_path, "late", videos, late, "--sensitivity"), scores(
        tmp_path, "much", videos, much
    )  # fmt: skip
    facts = {
        "frames": 40, "dropped_frames": 2, "real_time_factor": 0.4,
        "step_latency": {"p50": 0.01, "p95": 0.02, "max": 0.5},
        "latency_curve": [[1, 0.01, 0.5], [21, 0.012, 0.02]],
    }  # fmt: skip
    write_json(tmp_path / "late" / "run.json", facts)
    capsys.readouterr()
    return found


def page_of(tmp_path, *words) -> str:
    assert report.main([*map(str, words), "--out", str(tmp_path / "r.html")]) == 0
    return (tmp_path / "r.html").read_text("utf-8")


def test_every_part_stands_in_one_self_contained_page(runs, tmp_path, capsys):
    text = page_of(tmp_path, *runs)
    page = Page(re.sub(r"<script.*?</script>", "", text, flags=re.S))
    for heading in ("Quality and timing", "Timelines", "Failures", "Latency", "Sensitivity",
                    "Pairs", "Commands", "Versions"):  # fmt: skip
        assert page.says(heading)
    for words in ("2 videos, 8 references", "late", "much", "500.0 ms", "by more than 1.5 s",
                  "python -m eval.tglg", "python -m eval.report", "tau_time 3.0"):  # fmt: skip
        assert page.says(words), words
    assert not re.search(r"https?://|url\(|@import|<link|src=(?!\"data:)", text)
    stored = json.loads(runs[0].read_text())
    span = stored["intervals"]["micro"]["trace"]
    assert f"{span['low']:.1f} – {span['high']:.1f}" in text
    err = capsys.readouterr().err
    assert "much: no run.json" in err and "late: no run.json" not in err


def test_no_text_breaks_out_of_its_place(runs, tmp_path):
    text = page_of(tmp_path, *runs)
    assert text.count("<script") == 2 == text.count("</script>")
    data = re.search(r'id="pair-data">(.*?)</script>', text, re.S)[1]
    rows = json.loads(data)["rows"]
    assert any(EVIL in (row[4] or "") for row in rows) and "<" not in data
    assert len(rows) == sum(
        len(json.loads(r.read_text())["pairs"]) + len(json.loads(r.read_text())["unmatched"])
        for r in runs
    )


def test_rows_beyond_the_most_are_left_out_evenly_and_told(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(report_pairs, "MOST_ROWS", 5)
    text = page_of(tmp_path, *runs)
    assert re.search(r"\d+ of \d+ rows are left out", text)
    assert len(json.loads(re.search(r'"pair-data">(.*?)<', text)[1])["rows"]) == 5


def test_runs_on_other_videos_stand_apart(runs, tmp_path, capsys):
    other = scores(tmp_path, "other", [told("c")], [Generated("c", 0, 2, "red lamp")])
    groups = groups_of(read_runs([str(r) for r in (*runs, other)]))
    assert [[r.name for r in g] for g in groups.values()] == [["late", "much"], ["other"]]
    assert "compare within a set only" in page_of(tmp_path, *runs, other)


def test_a_folder_and_a_name_are_understood(runs, tmp_path):
    shutil.copy(runs[0], tmp_path / "late" / "scores.json")
    assert [r.name for r in read_runs([str(tmp_path / "late"), f"Ours={runs[1]}"])] == [
        "late", "Ours",
    ]  # fmt: skip


def test_pictures_go_from_the_best_to_the_worst(runs):
    groups = groups_of(read_runs([str(r) for r in runs]))
    views = views_of(groups, 2)
    assert [v.title.split("; ")[1].split()[0] for v in views] == ["best", "worst"]
    for view in views:
        assert len(view.reference) == 4 and set(view.lanes) == {"late", "much"}
        assert len(view.lanes["late"]) == 3 and len(view.lanes["much"]) == 8
    assert [v.video_id for v in views_of(groups, 2, ["b"])] == ["b"]


def test_of_a_long_video_the_fullest_stretch_is_shown(tmp_path):
    timeline = told("long", count=200, every=10.0)
    said = [Generated("long", 10.0 * k, 10.0 * k + 2, "red lamp") for k in range(200)]
    path = scores(tmp_path, "long", [timeline], said)
    (view,) = views_of(groups_of(read_runs([str(path)])), 1)
    assert view.duration - view.begin <= MOST_SECONDS
    assert 15 <= len(view.reference) <= 20 and "of 33:25" in view.title
    assert all(0 <= i < len(view.reference) for i, _ in view.pairs["long"])


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda s: s.pop("unmatched"), "unmatched is not there"),
        (lambda s: s["intervals"].pop("micro"), "damaged"),
        (lambda s: s["pairs"][0].update(start="x"), "start is 'x'"),
        (lambda s: s["failures"].update(counts=3), "damaged"),
        (lambda s: s.pop("per_video"), "no score file"),
        (lambda s: s["unmatched"].append(7), "damaged"),
    ],
)
def test_damaged_score_files_are_one_line(runs, tmp_path, capsys, change, words):
    stored = json.loads(runs[0].read_text())
    change(stored)
    runs[0].write_text(json.dumps(stored))
    assert report.main([str(runs[0]), "--out", str(tmp_path / "r.html")]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and not (tmp_path / "r.html").exists()


def test_bad_words_are_one_line(runs, tmp_path, capsys):
    out = ["--out", str(tmp_path / "r.html")]
    late = str(runs[0])
    for words, told_of in (
        ([str(tmp_path / "no.json"), *out], "no.json"),
        ([str(tmp_path), *out], "holds 2 score files"),
        ([str(tmp_path / "late"), *out], "holds no score file"),
        ([late, late, *out], "another RUN is named 'late'"),
        ([late, "--out", late], "late.json"),
        ([late, *out, "--pictures", "-1"], "use 0 or more"),
        ([late, *out, "--videos", "zz"], "is in none of the runs"),
        ([late, "--out", str(runs[0] / "r.html")], "late.json"),
    ):
        assert report.main(words) == 2
        err = capsys.readouterr().err
        assert told_of in err and err.count("\n") == 1, err


@pytest.mark.parametrize("facts", ["{", "{}", '{"step_latency": 3}', "[]"])
def test_a_run_json_that_is_none_is_a_note(runs, tmp_path, capsys, facts):
    (tmp_path / "late" / "run.json").write_text(facts)
    page_of(tmp_path, *runs)
    assert "late: no run.json" in capsys.readouterr().err


def browse(path: Path, width: int, fragment: str = "") -> str:
    """The page's DOM after its script ran, in a window of that width."""
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
         f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=2000", "--dump-dom",
         "--enable-logging=stderr", f"{path.as_uri()}{fragment}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert not re.search(r"CONSOLE.*(Error|Uncaught|refused)", done.stderr), done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
def test_in_a_browser_the_table_sorts_and_filters(runs, tmp_path):
    page_of(tmp_path, *runs)

    def rows(fragment: str) -> list[list[str]]:
        dom = browse(tmp_path / "r.html", 1400, fragment)
        body = re.search(r'<table class="pairs">.*?<tbody>(.*?)</tbody>', dom, re.S)[1]
        return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("<tr>")[1:]]

    everything = rows("")
    missed = rows("#kind=4")
    assert 0 < len(missed) < len(everything)
    assert all("missed" in row[-1] and row[4] == "–" for row in missed)
    alike = [float(row[5]) for row in rows("#sort=-5") if row[5] != "–"]
    assert len(alike) > 3 and alike == sorted(alike, reverse=True)
    assert {row[0] for row in rows("#run=0")} == {"late"}
    assert all("lamp 3" in row[3] for row in rows("#q=LAMP+3"))


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
@pytest.mark.parametrize("width", [1400, 390])
def test_in_a_browser_nothing_is_wider_than_the_window(runs, tmp_path, width):
    page_of(tmp_path, *runs)
    (tmp_path / "frame.html").write_text(
        f'<iframe src="r.html" style="width:{width}px;height:800px"></iframe><p id="told"></p>'
        "<script>addEventListener('message', e => { "
        "document.getElementById('told').textContent = e.data; });</script>"
    )
    text = (tmp_path / "r.html").read_text("utf-8")
    measure = "parent.postMessage(`${document.documentElement.scrollWidth} of ${innerWidth}`, '*')"
    (tmp_path / "r.html").write_text(text.replace("</main>", f"</main><script>{measure}</script>"))
    told = re.search(r'id="told">(\d+) of (\d+)<', browse(tmp_path / "frame.html", 1600))
    assert told and int(told[1]) <= int(told[2]) == width
