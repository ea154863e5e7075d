"""import-echoes: every oddity of the ASR release, by name."""

import itertools
import json
import shutil
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_prep.common.report import Tally
from data_prep.common.tasks import GONE
from data_prep.soccernet import __main__ as cli
from data_prep.soccernet import echo_file, echoes, language, loops, repair
from data_prep.soccernet.loops import repeats
from data_prep.soccernet.transcript import find_transcripts, read_transcript
from tests.data_prep.killed import files
from vlm_tsi.timeline import read_timelines

LINES = (
    "the ball comes in from the left and is cleared",
    "now they are under pressure in their own half",
    "a free kick in a dangerous place for the home side",
    "he looks up and waits for somebody to move forward",
)
GERMAN = (
    "der Ball kommt von der linken Seite herein und wird geklärt",
    "jetzt stehen sie in der eigenen Hälfte mächtig unter Druck",
)


def plain(texts, step=3.0):
    return {str(i): [i * step, i * step + 2.0, text] for i, text in enumerate(texts)}


def release(root, files):
    for name, value in files.items():
        path = root / name / "1_asr.json"
        path.parent.mkdir(parents=True)
        text = value if isinstance(value, str) else json.dumps({"segments": value})
        path.write_text(text, encoding="utf-8")
    return root


def imported(tmp_path, files, *more):
    out = tmp_path / "out"
    code = cli.main(
        [
            "import-echoes",
            "--echoes",
            str(release(tmp_path / "in", files)),
            "--out",
            str(out),
            *more,
        ]
    )
    return code, out, json.loads((out / "report.json").read_text())


ODD = {
    **plain(LINES),
    "eleven": [20, 22.5, "and so it goes on and on"],
    "3. 4": [24, 23, "which ends before it starts"],
    " 470": [30, 31, " "],
    "5": [33, 34, "♪ …"],
    "6": [35, "36", "text with a time of text"],
    "7": [35, 36, None],
    "8": [35, 36],
    "11": [26, 27, "and comes back once more"],
    "9": [-3, -1, "before the video"],
    "10": [-1, 1, "at the very beginning"],
}


def test_every_oddity_is_counted_by_name(tmp_path):
    entries = ", ".join(f'"0": [{k}, {k + 1}, "{text}"]' for k, text in enumerate(LINES[:2]))
    again = f'{{"segments": {{{entries}}}}}'
    code, out, report = imported(tmp_path, {"v1/odd": ODD, "v1/twice": again})
    assert code == 0 and report["read"] == report["kept"] + sum(report["dropped"].values())
    assert report["dropped"] == {
        echo_file.NO_TEXT: 1,
        echo_file.NO_TIME: 1,
        echo_file.NO_ENTRY: 1,
        repair.JOINED: 1,
        repair.WORDLESS: 1,
        repair.BEFORE_ZERO: 1,
        "text is empty": 1,
    }
    assert report["noted"][echo_file.ODD_KEY] == 3
    assert report["noted"][echo_file.SAME_KEY] == 1
    assert report["repaired"][repair.UNSORTED] == 1
    assert report["repaired"][repair.NEGATIVE_START] == 1


def test_an_object_of_segments_that_stands_twice_loses_nothing(tmp_path):
    first, second = (json.dumps(plain(LINES[k : k + 2])) for k in (0, 2))
    text = f'{{"segments": {first}, "segments": {second}}}'
    _, out, report = imported(tmp_path, {"v/m": text})
    assert report["read"] == report["kept"] == 4
    assert report["noted"][echo_file.SAME_OBJECT] == 1 and report["noted"][echo_file.SAME_KEY] == 2
    odd = {"w/m": f'{{"segments": {first}, "segments": 3}}'}
    assert imported(tmp_path / "odd", odd | {"v/m": plain(LINES)})[2]["also"]["file"][
        "dropped"
    ] == {echoes.UNREADABLE: 1}


def test_links_to_folders_are_followed_and_a_circle_ends(tmp_path):
    real = release(tmp_path / "real", {"l/s/m": plain(LINES), "l/s/.old": plain(LINES)})
    (tmp_path / "in").mkdir()
    (tmp_path / "in/v1").symlink_to(real)
    (real / "l/up").symlink_to(tmp_path / "in")
    assert [half for half, _ in echoes.echo_files(tmp_path / "in")] == ["v1/l/s/m/1_224p"]


def test_a_file_that_is_gone_leaves_nothing_for_the_filter(tmp_path):
    _, out, _ = imported(tmp_path, {"v/a": plain(LINES), "v/b": plain(LINES)})
    (tmp_path / "in/v/b/1_asr.json").unlink()
    argv = ["import-echoes", "--echoes", str(tmp_path / "in"), "--out", str(out), "--resume"]
    assert cli.main(argv) == 0
    assert [half for half, _ in find_transcripts(out / "transcripts")] == ["v/a/1_224p"]
    report = json.loads((out / "report.json").read_text())
    assert report["also"]["file"]["noted"] == {"language en": 1, GONE: 1}


def test_a_language_the_detector_never_tells_is_refused_before_any_work(tmp_path, capsys):
    source = str(release(tmp_path / "in", {"v/a": plain(LINES)}))
    argv = ["import-echoes", "--echoes", source, "--out", str(tmp_path / "out")]
    assert cli.main([*argv, "--languages", "en", "english"]) == 2
    told = capsys.readouterr().err
    assert "--languages: 'english' is no code" in told and not (tmp_path / "out").exists()


moments = st.one_of(st.floats(-5, 50), st.just("x"), st.none())
lines = st.sampled_from([*LINES[:2], *GERMAN[:1], " ", "…", "a\ud800 b", 3])
values = st.one_of(st.tuples(moments, moments, lines).map(list), st.integers(), st.just({}))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(values, max_size=8), min_size=1, max_size=3))
def test_whatever_the_files_hold_the_report_adds_up(tmp_path, files):
    for folder in ("in", "out"):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)
    rows = [{str(k): value for k, value in enumerate(file)} for file in files]
    named = {f"v/{k}": row for k, row in enumerate([plain(LINES), *rows])}
    code, out, report = imported(tmp_path, named)
    assert code == 0 and report["read"] == 4 + sum(map(len, files))
    timelines = read_timelines(out / "timelines.jsonl")
    assert report["kept"] == sum(len(t.utterances) for t in timelines)
    for tally in (report, report["also"]["file"]):
        assert tally["read"] == tally["kept"] + sum(tally["dropped"].values())
        most = max(tally["repaired"].values(), default=0)
        assert most <= tally["repaired_records"] <= tally["kept"]


def test_the_order_of_the_file_is_kept_not_that_of_its_keys(tmp_path):
    entries = {"9": [0, 1, LINES[0]], "1": [0, 1, LINES[1]], "eleven": [0, 1, LINES[2]]}
    _, out, report = imported(tmp_path, {"v/m": entries})
    (timeline,) = read_timelines(out / "timelines.jsonl")
    assert [u.text for u in timeline.utterances] == list(LINES[:3])
    assert report["noted"][echo_file.KEY_BACK] == 1
    assert report["noted"][repair.OVERLAP] == 2


def test_versions_of_one_half_do_not_collide_and_nothing_is_scored(tmp_path):
    name = "england_epl/2014-2015/m"
    _, out, _ = imported(tmp_path, {f"v1/{name}": plain(LINES), f"v2_en/{name}": plain(LINES)})
    assert [h for h, _ in find_transcripts(out / "transcripts")] == [
        f"v1/{name}/1_224p",
        f"v2_en/{name}/1_224p",
    ]
    first, second = read_timelines(out / "timelines.jsonl")
    assert first.video_path == second.video_path == f"{name}/1_224p.mkv"
    assert all(u.role == "assistant" and not u.eval for u in first.utterances)


def test_files_that_cannot_be_kept_are_lines_of_the_report(tmp_path):
    files = {
        "a/good": plain(LINES),
        "a/void": {},
        "a/blank": plain(["", " "]),
        "a/german": plain(GERMAN),
        "a/names": plain(["Messi", "Suarez"]),
        "b/broken": '{"segments": {',
        "b/zero": "",
        "b/list": "[]",
        "b/deep": "[" * 100_000,
        "b/flat": '{"segments": []}',
    }
    code, out, report = imported(tmp_path, files)
    told = report["also"]["file"]
    assert code == 0 and told["kept"] == 1 and told["read"] == 10
    assert told["dropped"] == {
        echoes.UNREADABLE: 5,
        echoes.NO_SEGMENTS: 1,
        echoes.NOTHING_LEFT: 1,
        "other language: de": 1,
        "too little text to tell its language": 1,
    }
    lines = told["examples"][echoes.UNREADABLE]
    assert len(lines) == 5 and not any(str(tmp_path) in line for line in lines)
    german = out / "transcripts/a/german/1_224p.json"
    assert read_transcript(german, "x").status == "other_language"
    assert report["dropped"][echoes.OTHER] == 2


def test_other_languages_on_demand(tmp_path):
    _, out, report = imported(tmp_path, {"a/g": plain(GERMAN)}, "--languages", "en", "de")
    assert report["also"]["file"]["kept"] == 1


def test_nothing_to_import_is_said_in_one_line(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    argv = ["import-echoes", "--echoes", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert cli.main(argv) == 2 and "no file of the ASR release" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_detector_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(Exception, match=r"vlm-tsi\[data\]"):
        language.need_detector()


def test_most_of_the_text_gives_the_language_not_most_of_the_lines():
    text = [*GERMAN[:1] * 3, *LINES * 20]
    assert language.detect(text).language == "en"
    assert language.detect(["Messi"]) is None


@pytest.mark.parametrize(
    ("texts", "marks"),
    [
        (["Goal!", "goal"], [0, 0]),
        (["Goal!", "goal", "GOAL"], [0, 1, 1]),
        (["he will play at the very top"] * 2, [0, 1]),
        (["a", "b", "a", "b"], [0, 0, 0, 0]),
        (["a", "b", "a", "b", "a", "b", "a"], [0, 0, 2, 2, 2, 2, 2]),
        (["a", "b", "c"] * 3 + ["d"], [0, 0, 0, 3, 3, 3, 3, 3, 3, 0]),
        (["a", "b", "c", "d"] * 3, [0] * 12),
        ([], []),
    ],
)
def test_loops_are_cut_to_their_first_round(texts, marks):
    assert repeats(texts) == marks


@given(st.lists(st.sampled_from("ab"), max_size=24))
def test_what_is_marked_repeats_what_stands_one_period_before(texts):
    marks = repeats(texts)
    assert all(texts[i] == texts[i - p] for i, p in enumerate(marks) if p)
    rest = [t for t, p in zip(texts, marks, strict=True) if not p]
    assert set(rest) == set(texts)
    runs = [len(list(g)) for _, g in itertools.groupby(texts)]
    assert any(marks) or max(runs, default=0) < 3


def test_a_loops_first_round_keeps_its_own_end():
    segments = [repair.Draft(repair.Segment(float(i), i + 0.5, LINES[0])) for i in range(4)]
    assert echoes.collapsed(segments, "h", Tally("segment")) == segments[:1]
    assert loops.normalised(" He's — ON!") == "he s on"


def test_two_workers_leave_the_same_bytes(tmp_path):
    source = release(tmp_path / "in", {f"v/m{i}": plain(LINES * (20 + i)) for i in range(9)})
    args = ["import-echoes", "--echoes", str(source)]
    assert cli.main([*args, "--out", str(tmp_path / "one")]) == 0
    assert cli.main([*args, "--out", str(tmp_path / "two"), "--workers", "2"]) == 0
    assert files(tmp_path / "two") == files(tmp_path / "one")


def test_every_real_file_is_read_and_its_oddities_are_named(shared_data, tmp_path):
    out = tmp_path / "out"
    real = shared_data / "sn_echoes"
    assert cli.main(["import-echoes", "--echoes", str(real), "--out", str(out)]) == 0
    report = json.loads((out / "report.json").read_text())
    files = report["also"]["file"]
    assert files["read"] == len(list(real.rglob("*_asr.json")))
    assert echoes.UNREADABLE not in files["dropped"]
    values = [json.loads(p.read_text())["segments"] for p in real.rglob("*_asr.json")]
    assert report["read"] == sum(map(len, values))
    odd = sum(not key.isdigit() for keys in values for key in keys)
    assert report["noted"][echo_file.ODD_KEY] == odd > 0
    assert report["dropped"][echoes.LOOP] > 0 and report["dropped"]["text is empty"] > 0
    assert any(reason.startswith("other language") for reason in files["dropped"])
