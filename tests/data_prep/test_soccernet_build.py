"""build: repairs, clusters, splits, datapoints, videos."""

import itertools
import json
import os
import random
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_prep.common.report import Tally
from data_prep.soccernet import __main__ as cli
from data_prep.soccernet import build, repair
from data_prep.soccernet.clusters import cluster_datapoints, clusters
from data_prep.soccernet.halves import find_video, match_of, video_file
from data_prep.soccernet.splits import PARTS, official, official_lists, shared_out
from data_prep.soccernet.transcript import UNUSABLE, Segment
from tests.data_prep.killed import files
from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Timeline, Utterance, Word, read_timelines
from vlm_tsi.video.writer import write_mp4


def repaired(*segments):
    tally = Tally("segment")
    return repair.repair(segments, "h", tally), tally.to_dict()


def test_one_that_ends_before_it_starts_joins_the_one_before():
    before = Segment(1.0, 2.0, "he shoots", (Word("he", 1.0, 1.4), Word("shoots", 1.5, 2.0)))
    after = Segment(4.0, 3.0, "and scores", (Word("and", 2.1, 2.4), Word("scores", 2.5, 3.2)))
    (joined,), told = repaired(before, after)
    assert (joined.text, joined.start, joined.end) == ("he shoots and scores", 1.0, 3.2)
    assert [w.text for w in joined.words] == ["he", "shoots", "and", "scores"]
    assert told["read"] == 2 and told["kept"] == 1 and told["dropped"] == {repair.JOINED: 1}


def test_the_first_one_has_none_before_it_and_exchanges_its_times():
    (only,), told = repaired(Segment(4.0, 3.0, "goal"))
    assert (only.start, only.end) == (3.0, 4.0) and told["repaired"] == {repair.EXCHANGED: 1}


def test_the_label_of_the_one_before_stays():
    (one,), _ = repaired(
        Segment(1, 2, "a", is_pbp=True, pbp_score=0.9), Segment(4, 3, "b", is_pbp=False)
    )
    assert one.is_pbp is True and one.pbp_score == 0.9


def test_each_other_oddity_is_mended_or_dropped_by_name():
    kept, told = repaired(
        Segment(5.0, 6.0, " b \n b "),
        Segment(-1.0, 2.0, "a"),
        Segment(-3.0, -2.0, "x"),
        Segment(7.0, 8.0, "c c", (Word("c", 8.0, 8.5), Word("c", 6.5, 7.2))),
        Segment(9.0, 9.0, "…"),
        Segment(9.0, 9.0, ""),
    )
    assert [(s.start, s.end, s.text) for s in kept] == [
        (0.0, 2.0, "a"), (5.0, 6.0, "b b"), (6.5, 8.5, "c c"),
    ]  # fmt: skip
    assert set(told["dropped"]) == {
        "ends before the video begins",
        repair.WORDLESS,
        "text is empty",
    }
    assert set(told["repaired"]) == {
        "white space tidied", "start below 0 set to 0", repair.UNSORTED,
        repair.UNSORTED_WORDS, repair.WIDENED,
    }  # fmt: skip


def test_a_reversed_one_far_away_does_not_stretch_the_one_before():
    """Its words take two seconds and a half; 2,000 s are what its times say."""
    far = Segment(4000.0, 2000.0, "a b c d e")
    (joined,), told = repaired(Segment(1.0, 2.0, "he shoots"), far)
    assert joined.end == pytest.approx(4.0) and told["repaired"][repair.TOO_LONG] == 1
    assert told["repaired_records"] == 1
    (alone,), told = repaired(far)
    assert (alone.start, alone.end) == (2000.0, 2002.0)
    near = Segment(20.0, 15.0, "a b c d e")
    (joined,), told = repaired(Segment(1.0, 2.0, "he shoots"), near)
    assert joined.end == 15.0 and repair.TOO_LONG not in told["repaired"]


def test_a_word_that_reaches_further_is_held_all_the_same():
    spoken = (Word("goal", 50.0, 51.0),)
    (joined,), _ = repaired(Segment(1.0, 2.0, "a"), Segment(60.0, 49.0, "goal", spoken))
    assert joined.end == 51.0


times = st.floats(-5, 50).map(lambda t: round(t, 1))
raw = st.builds(
    Segment, times, times, st.sampled_from(["a", " b", "", "…"]),
    speaker=st.sampled_from([None, "S0", " ", "S\ud83d"]),
)  # fmt: skip


@given(st.lists(raw, max_size=12))
def test_whatever_comes_a_timeline_accepts_what_is_left(segments):
    kept, told = repaired(*segments)
    assert told["read"] == len(segments) and told["kept"] == len(kept)
    assert told["read"] == told["kept"] + sum(told["dropped"].values())
    most = max(told["repaired"].values(), default=0)
    assert most <= told["repaired_records"] <= told["kept"]
    longest = max([repair.LONGEST, *(s.end - s.start for s in segments)])
    assert all(s.end - s.start <= longest + len(segments) / 2.5 for s in kept)
    Timeline("h", "", 60.0, tuple(repair.utterance(s, False) for s in kept))
    words = [s.text.split() for s in segments if max(s.start, s.end) >= 0]
    said = sorted(w for spoken in words for w in spoken if w.isalnum())
    assert sorted(" ".join(s.text for s in kept).split()) == said


def span(start, end):
    return Segment(start, end, "x")


TURNS = [span(0, 2), span(3, 4), span(8, 9), span(15, 16), span(17, 18), span(40, 41)]
SCORED = [True, False, True, True, True, False]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("pause", [[0, 2], [3, 4]]),  # the unscored turn bridges 0 and 2
        ("scored-pause", [[0], [2], [3, 4]]),
        ("span", [[0], [2], [3, 4]]),
        ("run", [[0], [2, 3, 4]]),
    ],
)
def test_each_rule_cuts_where_it_says(rule, wanted):
    assert clusters(TURNS, SCORED, rule) == wanted


def test_five_seconds_are_within_and_a_long_turn_reaches_over_a_short_one():
    assert clusters([span(0, 1), span(6, 7)], [True] * 2) == [[0, 1]]
    assert clusters([span(0, 1), span(6.01, 7)], [True] * 2) == [[0], [1]]
    assert clusters([span(0, 9), span(1, 2), span(13, 14)], [True] * 3) == [[0, 1, 2]]
    inside = [span(0, 9), span(1, 2), span(3, 4)]
    assert clusters(inside, [True] * 3, "span") == [[0], [1, 2]]  # (0, 9) is longer than 5 s


def slow_clusters(turns, scored, seconds):
    """Two scored turns belong together if silence between them never lasts too long."""

    def silent(a, b):
        marks = sorted([(t.start, t.end) for t in turns])
        latest = max(e for s, e in marks[: a + 1])
        for s, e in marks[a + 1 : b + 1]:
            if s - latest > seconds:
                return True
            latest = max(latest, e)
        return False

    chosen = [i for i, s in enumerate(scored) if s]
    groups = [[i] for i in chosen[:1]]
    for a, b in itertools.pairwise(chosen):
        groups[-1].append(b) if not silent(a, b) else groups.append([b])
    return groups


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.booleans()), max_size=15))
def test_the_pause_rule_agrees_with_a_slow_reference(rows):
    rows.sort(key=lambda r: r[0])
    turns, scored = [span(s, s + d) for s, d, _ in rows], [m for _, _, m in rows]
    assert clusters(turns, scored) == slow_clusters(turns, scored, 5.0)


@given(
    st.lists(st.booleans(), max_size=12), st.sampled_from(["pause", "scored-pause", "span", "run"])
)
def test_every_scored_turn_is_in_one_cluster(scored, rule):
    turns = [span(3 * i, 3 * i + 1) for i in range(len(scored))]
    found = [i for group in clusters(turns, scored, rule) for i in group]
    assert found == [i for i, s in enumerate(scored) if s]


def test_a_datapoint_has_all_that_was_said_before_and_its_window():
    said = [
        Utterance("assistant", "t", u.start, u.end, s, meta={"cluster": k} if s else {})
        for u, s, k in zip(TURNS, SCORED, [0, 0, 0, 1, 1, 0], strict=True)
    ]
    whole = Timeline("h", "h.mkv", 60.0, tuple(said))
    first, second = cluster_datapoints(whole)
    assert (first.video_id, first.meta["window"]) == ("h#0", [0, 9])
    assert [u.eval for u in first.utterances] == [True, False, True]
    assert [u.eval for u in second.utterances] == [False] * 3 + [True] * 2
    assert second.meta == {"window": [15, 18], "source": "h"}
    short = list(cluster_datapoints(whole, context_seconds=7.0))[1]
    assert [u.start for u in short.utterances] == [8, 15, 17]


def test_names_of_halves():
    half = "whisper_v2/england_epl/2014-2015/2015 A 1 - 0 B/2_224p"
    assert (
        match_of(half)
        == match_of(half.replace("v2", "v3"))
        == "england_epl/2014-2015/2015 A 1 - 0 B"
    )
    assert video_file(half) == "england_epl/2014-2015/2015 A 1 - 0 B/2_224p.mkv"
    assert video_file("m/1_224p") == "m/1_224p.mkv"


HALVES = [f"l/s/m{k:02}/{h}_224p" for k in range(25) for h in (1, 2)]


def test_splits_are_80_20_twice_by_match_and_seeded():
    parts = shared_out(HALVES, "match", 0)
    sizes = [list(parts.values()).count(p) for p in ("train", "val", "test")]
    assert sizes == [32, 8, 10]
    assert all(parts[a] == parts[b] for a, b in zip(HALVES[::2], HALVES[1::2], strict=True))
    assert parts == shared_out(random.Random(1).sample(HALVES, 50), "match", 0)
    assert parts != shared_out(HALVES, "match", 1)


def test_splits_by_half_part_a_match():
    parts = shared_out(HALVES, "half", 0)
    assert any(parts[a] != parts[b] for a, b in zip(HALVES[::2], HALVES[1::2], strict=True))


def test_official_lists_give_the_parts(tmp_path):
    lists = [{"l": {"s": ["m00"]}}, {"l": {"s": ["m01"]}}, {"l": {"s": ["m02"]}}]
    names = [str(tmp_path / f"{k}.json") for k in range(3)]
    for name, value in zip(names, lists, strict=True):
        with open(name, "w") as out:
            json.dump(value, out)
    parts = official(HALVES[:8], official_lists(names))
    assert parts["l/s/m01/2_224p"] == "val" and "l/s/m03/1_224p" not in parts
    with pytest.raises(UserError, match="already"):
        official_lists([names[0], names[0], names[2]])
    (tmp_path / "2.json").write_text("[1]")
    with pytest.raises(UserError, match="no list of matches"):
        official_lists(names)


def half_record(seed, marked=True):
    rng = random.Random(seed)
    t, segments = 0.0, []
    for i in range(30):
        start, end = round(t + rng.choice([0.2, 1.0, 8.0]), 2), 0.0
        t = end = round(start + 2.0, 2)
        words = [
            {"text": w, "start": start + k, "end": start + k + 0.5}
            for k, w in enumerate(["so", f"w{i}"])
        ]
        segments.append({"start": start, "end": end, "text": f"so w{i}", "words": words})
        if marked:
            segments[-1] |= {"is_pbp": rng.random() < 0.5, "pbp_score": 0.5}
    return {"status": "ok", "language": "en", "duration": 200.0, "segments": segments}


def folder(root, halves, **more):
    for k, half in enumerate(halves):
        path = root / f"{half}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(half_record(k, **more)))
    return root


def built(tmp_path, source, *more):
    out = tmp_path / "out"
    code = cli.main(["build", "--transcripts", str(source), "--out", str(out), *more])
    return code, out


def test_build_leaves_timelines_parts_and_datapoints(tmp_path):
    code, out = built(tmp_path, folder(tmp_path / "in", HALVES[:20]))
    assert code == 0
    timelines = read_timelines(out / "timelines.jsonl")
    parts = {p: read_timelines(out / f"{p}.jsonl") for p in ("train", "val", "test")}
    assert sorted(t.video_id for p in parts.values() for t in p) == [t.video_id for t in timelines]
    assert {p: len(t) for p, t in parts.items()} == {"train": 12, "val": 4, "test": 4}
    first = timelines[0]
    assert first.duration == 200.0 and all(len(u.words) == 2 for u in first.utterances)
    assert all(("cluster" in u.meta) == u.eval for u in first.utterances)
    points = read_timelines(out / "test_datapoints.jsonl")
    wanted = [p for t in parts["test"] for p in cluster_datapoints(t)]
    assert points == wanted and len(points) > 4
    report = json.loads((out / "report.json").read_text())
    assert report["read"] == report["kept"] == 600 and report["also"]["file"]["kept"] == 20
    (window, _) = json.loads((out / "statistics.json").read_text())["rows"]
    assert window["count"] == "window" and window["tokens"] == 2.6


def test_unmarked_transcripts_are_sent_to_the_filter_unless_all_is_kept(tmp_path, capsys):
    source = folder(tmp_path / "in", HALVES[:2], marked=False)
    code, out = built(tmp_path, source)
    assert code == 2 and "run the step filter first, or give --keep-all" in capsys.readouterr().err
    code, out = built(tmp_path, source, "--keep-all")
    assert code == 0
    assert all(u.eval for t in read_timelines(out / "timelines.jsonl") for u in t.utterances)


def test_halves_that_cannot_be_kept_have_their_reason(tmp_path):
    source = folder(tmp_path / "in", HALVES[:2])
    others = {"broken": "{", "silent": {"status": "no_speech", "segments": []},
              "mute": {"status": "no_audio", "segments": []},
              "foreign": {"status": "other_language", "language": "de", "segments": []},
              "void": {"segments": []}}  # fmt: skip
    for name, value in others.items():
        path = source / name / "1_224p.json"
        path.parent.mkdir()
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    code, out = built(tmp_path, source)
    told = json.loads((out / "report.json").read_text())["also"]["file"]
    assert code == 0 and told["dropped"] == {
        "cannot be read": 1, "no speech": 1, "no audio": 1, "other language": 1, build.SILENT: 1,
    }  # fmt: skip
    assert "not JSON" in told["examples"]["cannot be read"][0]
    assert str(tmp_path) not in json.dumps(told)


def put_half(source, half, segments, **more):
    path = source / f"{half}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"segments": segments, **more}))


GOOD = {"start": 1.0, "end": 2.0, "text": "he shoots", "is_pbp": True}
BAD = [
    {"start": "1"}, {"end": float("nan")}, {"text": None}, {"words": [{"text": "x"}]},
    {"is_pbp": "yes"}, {"is_pbp": None},
]  # fmt: skip


def test_a_bad_value_loses_its_segment_and_not_the_half(tmp_path):
    put_half(tmp_path / "in", HALVES[0], [GOOD, *(GOOD | bad for bad in BAD), "text", GOOD])
    code, out = built(tmp_path, tmp_path / "in")
    report = json.loads((out / "report.json").read_text())
    assert code == 0 and (report["read"], report["kept"]) == (9, 2)
    assert report["dropped"] == {UNUSABLE: 6, build.UNMARKED: 1}
    assert f"{HALVES[0]}: segments[1]: start is '1'" in report["examples"][UNUSABLE]
    (timeline,) = read_timelines(out / "timelines.jsonl")
    assert len(timeline.utterances) == 2


said = st.fixed_dictionaries(
    {"start": st.one_of(times, st.just("x")), "end": times},
    optional={
        "text": st.sampled_from(["a b", " c ", "", "…", None, "d\ud800"]),
        "is_pbp": st.sampled_from([True, False, None, 1]),
        "speaker": st.sampled_from(["S0", "S\ud83d", 3]),
        "words": st.sampled_from([None, [], [{"text": "a", "start": 1, "end": 2}], "x"]),
    },
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.one_of(said, st.just(GOOD), st.integers()), max_size=5), max_size=4))
def test_whatever_the_transcripts_hold_the_report_adds_up(tmp_path, capsys, halves):
    source = tmp_path / "in"
    shutil.rmtree(source, ignore_errors=True)
    for name, segments in zip(HALVES, [[GOOD], *halves], strict=False):
        put_half(source, name, segments)
    code, out = built(tmp_path, source)
    if code:  # a half that no filter has seen stops the run
        assert "run the step filter first" in capsys.readouterr().err
        return
    report = json.loads((out / "report.json").read_text())
    timelines = read_timelines(out / "timelines.jsonl")
    assert report["read"] == 1 + sum(map(len, halves))
    assert report["kept"] == sum(len(t.utterances) for t in timelines)
    for tally in (report, report["also"]["file"]):
        assert tally["read"] == tally["kept"] + sum(tally["dropped"].values())
        most = max(tally["repaired"].values(), default=0)
        assert most <= tally["repaired_records"] <= tally["kept"]


def test_a_name_that_is_no_utf8_is_a_line_of_the_report(tmp_path):
    put_half(tmp_path / "in", HALVES[0], [GOOD])
    try:
        put_half(tmp_path / "in", "l/s/M\udce1laga/1_224p", [GOOD])
    except OSError:
        pytest.skip("this file system takes no such name")
    code, out = built(tmp_path, tmp_path / "in")
    told = json.loads((out / "report.json").read_text())["also"]["file"]
    assert code == 0 and told["dropped"] == {"cannot be read": 1}
    assert "its name is not UTF-8" in told["examples"]["cannot be read"][0]


def test_parts_are_dealt_out_among_the_halves_that_are_kept(tmp_path):
    """Five matches of ten are silent: of the other five one is for the test, one for validation."""
    source = folder(tmp_path / "in", HALVES[:20])
    for half in HALVES[:10]:
        put_half(source, half, [], status="no_speech")
    _, out = built(tmp_path, source)
    parts = {p: {t.video_id for t in read_timelines(out / f"{p}.jsonl")} for p in PARTS}
    assert {p: len(halves) for p, halves in parts.items()} == {"train": 6, "val": 2, "test": 2}
    assert parts["train"] | parts["val"] | parts["test"] == set(HALVES[10:20])
    alone = tmp_path / "alone"
    assert built(alone, folder(tmp_path / "kept", []))[0] == 2  # nothing there
    for half in HALVES[10:20]:
        put_half(tmp_path / "kept", half, **json.loads((source / f"{half}.json").read_text()))
    _, again = built(alone, tmp_path / "kept")
    assert {p: {t.video_id for t in read_timelines(again / f"{p}.jsonl")} for p in PARTS} == parts


@pytest.mark.parametrize("by_lists", [False, True])
def test_an_empty_part_is_told(by_lists, tmp_path, capsys):
    more = []
    if by_lists:
        more = ["--official-splits", *(str(tmp_path / f"{k}.json") for k in range(3))]
        for path, match in zip(more[1:], ("m00", "m09", "m01"), strict=True):
            with open(path, "w") as out:
                json.dump({"l": {"s": [match]}}, out)
    code, out = built(tmp_path, folder(tmp_path / "in", HALVES[: 6 if by_lists else 2]), *more)
    told = capsys.readouterr().err
    noted = json.loads((out / "report.json").read_text())["also"]["file"]["noted"]
    empty = ["val"] if by_lists else ["val", "test"]
    for part in empty:
        assert noted[build.EMPTY_PART.format(part)] == 1
        assert f"note: no half for {part}: its files are empty" in told
        assert (out / f"{part}.jsonl").read_bytes() == b""
    assert len([line for line in told.splitlines() if line.startswith("note:")]) == len(empty)
    assert noted.get(build.NO_PART, 0) == (2 if by_lists else 0)  # m02's halves


def test_where_nothing_is_kept_earlier_timelines_stay(tmp_path, capsys):
    source = folder(tmp_path / "in", HALVES[:2])
    _, out = built(tmp_path, source)
    before = files(out)
    for half in HALVES[:2]:
        put_half(source, half, [])
    assert built(tmp_path, source)[0] == 2
    assert "no half could be kept; see report.json" in capsys.readouterr().err
    after = files(out)
    assert after.pop("report.json") != before.pop("report.json") and after == before


def test_lengths_come_from_the_videos_and_paths_are_seen_from_the_output(tmp_path):
    source, root = folder(tmp_path / "in", HALVES[:3]), tmp_path / "corpus"
    (root / "l/s/m00").mkdir(parents=True)
    (root / "l/s/m01").mkdir(parents=True)
    frames = [np.zeros((32, 32, 3), np.uint8)] * 10
    write_mp4(root / "l/s/m00/1_224p.mp4", frames, fps=5.0)
    (root / "l/s/m00/2_224p.mkv").write_bytes(b"no video")
    code, out = built(tmp_path, source, "--videos", str(root))
    told = json.loads((out / "report.json").read_text())["also"]["file"]["noted"]
    first, second, third = read_timelines(out / "timelines.jsonl")
    assert code == 0 and abs(first.duration - 2.0) < 0.3
    assert first.video_path == "../corpus/l/s/m00/1_224p.mp4"
    assert (out / first.video_path).resolve() == find_video(root, HALVES[0]).resolve()
    assert second.duration == third.duration == 200.0
    wanted = {build.PAST_END: 1, "video cannot be read": 1, build.NO_VIDEO: 1}
    assert told.items() >= wanted.items()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--cluster-seconds", "nan"], "--cluster-seconds: is nan"),
        (["--context-seconds", "-1"], "--context-seconds: is -1.0"),
        (["--seed", "-1"], "--seed: is -1"),
        (["--videos", "nowhere"], "--videos: nowhere is no folder"),
        (["--official-splits", "a", "b", "c"], "a: No such file"),
        (["--workers", "0"], "--workers: is 0"),
    ],
)
def test_bad_options_are_one_line_before_any_work(tmp_path, capsys, more, told):
    code, out = built(tmp_path, folder(tmp_path / "in", HALVES[:1]), *more)
    assert code == 2 and told in capsys.readouterr().err and not out.exists()


def test_two_workers_leave_the_same_bytes(tmp_path):
    args = ["build", "--transcripts", str(folder(tmp_path / "in", HALVES[:20]))]
    assert cli.main([*args, "--out", str(tmp_path / "one")]) == 0
    assert cli.main([*args, "--out", str(tmp_path / "two"), "--workers", "2"]) == 0
    assert files(tmp_path / "two") == files(tmp_path / "one")


def test_the_ten_labelled_halves_give_the_papers_table(shared_data, tmp_path):
    code, out = built(tmp_path, shared_data / "soccernet_pbp")
    assert code == 0
    window, history = json.loads((out / "statistics.json").read_text())["rows"]
    assert window["size"] == history["size"] == 523
    scaled = window["size"] * 148_533 / 4630
    assert abs(scaled / 16_487 - 1) < 0.05
    assert abs(window["utterances"] - 5.67) < 0.3 and abs(window["tokens"] - 10.98) < 0.3
    assert abs(window["gap"] - 1.13) < 0.25
    assert os.path.getsize(out / "test_datapoints.jsonl") > 0
