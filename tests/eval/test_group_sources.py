"""Which groups utterances belong to: game events, task types, CSV; odd records counted."""

import gzip
import json

import pytest

from data_prep.holoassist.videos import TASK_GROUPS
from eval import group_events as events
from eval import group_sources as sources
from vlm_tsi.errors import UserError

MATCH = "2015-01-01 - 20-00 Reds 1 - 1 Blues"
HALF = f"england_epl/2014-2015/{MATCH}/1_224p"


def event(clock="1 - 00:20", label="Foul", position="20000", **more):
    return {"gameTime": clock, "label": label, "position": position, "team": "home", **more}


def labels(root, *annotations, match=MATCH, league="england_epl/2014-2015"):
    file = root / league / match / "Labels-v2.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"UrlLocal": "", "annotations": list(annotations)}))
    return file


def near(root, start, end, half=HALF, **options):
    return events.soccernet(root, {half: half}, **options).of(half, start, end)


def test_the_paper_has_six_categories_of_seventeen_labels():
    counts = [len(listed) for listed in events.ACTIONS.values()]
    assert counts == [3, 3, 2, 2, 6, 1]  # the column "# actions" of Table 3
    assert list(events.ACTIONS)[0] == "Attempts" and len(events._CATEGORY) == 17


def test_exactly_five_seconds_before_the_start_or_after_the_end_is_near(tmp_path):
    labels(tmp_path, event())
    for start, end, is_near in [
        (25.0, 26.0, True), (25.01, 26.0, False), (14.0, 15.0, True), (14.0, 14.99, False),
        (10.0, 30.0, True), (20.0, 20.0, True),
    ]:  # fmt: skip
        assert near(tmp_path, start, end) == (["Infractions"] if is_near else [])
    assert near(tmp_path, 25.1, 26.0, within=6.0) == ["Infractions"]
    assert near(tmp_path, 20.1, 26.0, within=0.0) == []


def test_an_utterance_belongs_to_every_category_nearby_in_the_papers_order(tmp_path):
    labels(
        tmp_path, event(label="Substitution"), event(label="Yellow->red card"), event(),
        event(label="Foul", position="21000"), event("2 - 00:20", label="Goal"),
    )  # fmt: skip
    assert near(tmp_path, 20.0, 21.0) == ["Discipline", "Infractions", "Substitution"]
    assert near(tmp_path, 20.0, 21.0, half=HALF[:-6] + "2_224p") == ["Goal/Penalty"]


def test_position_rules_and_the_clock_stands_in_for_it(tmp_path):
    labels(
        tmp_path,
        event("1 - 0:20", position="100500"),
        event("1 - 3:05", position=None, label="Goal"),
        event("1 - 105:00", position="no", label="Corner"),
        event("1 - 00:75", position=400000, label="Offside", visibility="not shown"),
    )
    grouping = events.soccernet(tmp_path, {HALF: HALF})
    assert [s.start for s in grouping.spans[HALF]] == [100.5, 185.0, 6300.0, 400.0]
    tally = grouping.tallies[0]
    assert (tally.read, tally.kept) == (4, 4)
    assert tally.repaired == {events.FROM_GAME_TIME: 2}
    assert tally.noted == {events.DIFFER: 1, events.UNSEEN: 1}


@pytest.mark.parametrize(
    "bad, reason",
    [
        ("text", events.NO_EVENT),
        ({}, events.NO_LABEL),
        (event(label=["Foul"]), events.NO_LABEL),
        (event(label="Coin toss"), events.NO_CATEGORY),
        (event(clock="00:20"), events.NO_HALF),
        (event(clock="3 - 00:20"), events.NO_HALF),
        (event(clock=20), events.NO_HALF),
        (event(clock="1 - ", position="-5"), events.NO_TIME),
        (event(clock="1 - x", position="NaN"), events.NO_TIME),
        (event(clock="1 - x", position="1e999"), events.NO_TIME),
        (event(clock="1 - x", position=True), events.NO_TIME),
        (event(clock="1 - x", position=10**400), events.NO_TIME),
        (event(clock="2 - 00:20"), events.HALF_NOT_SCORED),
    ],
)
def test_odd_events_are_counted_and_left_out(tmp_path, bad, reason):
    labels(tmp_path, bad, event())
    tally = events.soccernet(tmp_path, {HALF: HALF}).tallies[0]
    assert tally.to_dict()["dropped"] == {reason: 1} and tally.kept == 1


@pytest.mark.parametrize(
    "video_id, source",
    [
        (HALF, HALF),
        (f"{HALF}#7", HALF),
        (f"{MATCH}/1_224p", f"{MATCH}/1_224p"),
        ("x", f"release/{HALF}.mkv"),
        ("x", f"{MATCH}/1.mkv"),
    ],
)
def test_halves_are_found_under_any_of_their_names(tmp_path, video_id, source):
    labels(tmp_path, event())
    videos = {video_id: source, "other": "elsewhere/1_224p", "odd": f"{MATCH}/highlights"}
    grouping = events.soccernet(tmp_path, videos)
    assert grouping.of(video_id, 20, 21) == ["Infractions"] and grouping.of("other", 20, 21) == []
    tally = grouping.tallies[1].to_dict()
    assert tally["dropped"] == {events.NO_LABELS: 1, events.NO_HALF_ID: 1}
    assert tally["examples"] == {events.NO_LABELS: ["other"], events.NO_HALF_ID: ["odd"]}


def test_one_match_in_two_places_is_told_apart_by_its_league_or_refused(tmp_path):
    labels(tmp_path, event())
    labels(tmp_path, event(label="Goal"), league="copy/2014-2015")
    assert near(tmp_path, 20, 21) == ["Infractions"]
    with pytest.raises(UserError, match="2 Labels-v2.json for match"):
        near(tmp_path, 20, 21, half=f"{MATCH}/1_224p")


def test_a_folder_without_use_is_one_line(tmp_path):
    for root, words in [(tmp_path / "no", "no such folder"), (tmp_path, "no Labels-v2.json in it")]:
        with pytest.raises(UserError, match=words):
            near(root, 0, 1)
    file = labels(tmp_path, event(), match="another")
    with pytest.raises(UserError, match="belongs to any of the 1 video"):
        near(tmp_path, 0, 1)
    file = labels(tmp_path)
    for text in ("[]", '{"annotations": {}}', "{", ""):
        file.write_text(text)
        with pytest.raises(UserError, match="Labels-v2.json"):
            near(tmp_path, 0, 1)
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"annotations": [event()]}).encode())
    assert near(tmp_path, 20, 21) == ["Infractions"]


VIDEO = "R1-GoPro/Export_py/Video_pitchshift.mp4"


def test_tasks_are_read_from_the_timelines_or_the_annotation_file(tmp_path):
    videos = {f"{VIDEO}#0": VIDEO, "R2": "R2", "R3": "R3", "R4": "R4"}
    told = {f"{VIDEO}#0": " Setup  GoPro", "R3": "juggle"}
    grouping = sources.holoassist(videos, told, None)
    assert grouping.of(f"{VIDEO}#0", 1e6, 1e6) == ["Setup Electronics"]
    assert grouping.names == tuple(dict.fromkeys(TASK_GROUPS.values())) and len(grouping.names) == 5
    tally = grouping.tallies[-1].to_dict()
    assert tally["dropped"] == {sources.NO_TASK: 2, sources.NO_GROUP: 1}
    records = [
        {"video_name": "R1-GoPro", "taskType": "assemble stool"},
        {"video_name": "R1-GoPro", "taskType": "change belt"},
        {"video_name": "R2", "taskType": "change belt"},
        {"video_name": "R4", "taskType": None},
        {"video_name": "R9", "taskType": "change belt"},
        {"taskType": "change belt"},
        "text",
    ]
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(json.dumps(records).encode()))
    grouping = sources.holoassist(videos, {}, file)
    assert grouping.of(f"{VIDEO}#0", 0, 1) == ["Assemble Furniture"]
    assert grouping.of("R2", 0, 1) == ["Repair Machinery"] and grouping.of("R3", 0, 1) == []
    read = grouping.tallies[0].to_dict()
    assert (read["read"], read["kept"]) == (7, 2) and set(read["dropped"].values()) == {1}


def test_no_task_at_all_is_one_line(tmp_path):
    with pytest.raises(UserError, match="--holoassist FILE"):
        sources.holoassist({"v": "v"}, {}, None)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(UserError, match="no list of videos"):
        sources.holoassist({"v": "v"}, {}, tmp_path / "a.json")


def csv_of(tmp_path, text, videos=("v#0", "v#1", "w"), **options):
    (tmp_path / "g.csv").write_bytes(text.encode())
    named = {v: v.split("#")[0] for v in videos}
    return sources.from_csv(tmp_path / "g.csv", named, **options)


def test_a_csv_groups_videos_and_stretches_of_them(tmp_path):
    text = '\ufeffgroup,video_id,start,end\r\nb,v,0,10\r\na,v#1,5,8\r\n"a ""x"",\r\ny",w,,\r\nb,v,0,10\r\nb,no,0,1\r\n'
    grouping = csv_of(tmp_path, text)
    assert grouping.names == ("a", 'a "x", y', "b")
    assert grouping.of("v#0", 10.0, 11.0) == ["b"] and grouping.of("v#0", 10.1, 11.0) == []
    assert grouping.of("v#1", 4.0, 5.0) == ["a", "b"] and grouping.of("w", 1e9, 1e9) == ['a "x", y']
    rows = grouping.tallies[0].to_dict()
    assert rows["dropped"] == {sources.SAME_ROW: 1, sources.NOT_SCORED: 1} and rows["kept"] == 3
    assert csv_of(tmp_path, text, within=1.0).of("v#0", 10.1, 11.0) == ["b"]
    grouping = csv_of(tmp_path, "video_id,group\nv,x\nv,y\n")
    assert grouping.of("v#1", 0.0, 1.0) == ["x", "y"]
    assert grouping.tallies[1].to_dict()["dropped"] == {sources.NO_ROW: 1}


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "its columns are ''"),
        ("video,group\nv,a\n", "use video_id,group or video_id,start,end,group"),
        ("video_id,group,group\nv,a,b\n", "its columns are"),
        ("video_id,start,group\nv,1,a\n", "its columns are"),
        ("video_id,group\n", "holds no rows"),
        ("video_id,group\nv\n", "1 cells under 2 columns"),
        ("video_id,group\n,a\n", "video_id is empty"),
        ("video_id,group\nv, \n", "g.csv:2: group is empty"),
        ("video_id,group\nno,a\n", "none of its 1 row"),
        ('video_id,group\nv,"a\n', "not CSV"),
        ("video_id,start,end,group\nv,x,2,a\n", "start is 'x'"),
        ("video_id,start,end,group\nv,1,,a\n", "end is ''"),
        ("video_id,start,end,group\nv,3,2,a\n", "start is 3.0, end is 2.0"),
        ("video_id,start,end,group\nv,nan,2,a\n", "start is nan"),
        ("video_id,start,end,group\nv,-1,2,a\n", "start is -1.0"),
        ("video_id,start,end,group\nv,1,inf,a\n", "end is inf"),
    ],
)
def test_a_bad_csv_is_one_line(tmp_path, text, words):
    with pytest.raises(UserError) as told:
        csv_of(tmp_path, text)
    assert words in str(told.value) and "\n" not in str(told.value)


def test_every_task_of_the_real_sample_is_in_one_of_the_papers_groups(shared_data):
    file = shared_data / "holoassist" / "data-annotation-sample-v1_1.json.gz"
    with gzip.open(file) as stored:
        names = [r["video_name"] for r in json.load(stored)]
    grouping = sources.holoassist({n: n for n in names}, {}, file)
    assert len(grouping.spans) == len(set(names)) and not grouping.tallies[-1].dropped


def test_every_half_of_the_real_transcripts_is_named_so_that_labels_are_found(
    shared_data, tmp_path
):
    files = sorted((shared_data / "soccernet_pbp" / "SoccerNet").glob("*/*_224p.json"))
    halves = {f"{f.parent.name}/{f.stem}": f"{f.parent.name}/{f.stem}" for f in files}
    for match in {f.parent.name for f in files}:
        labels(tmp_path, event(), event("2 - 0:30", position="30000"), match=match)
    grouping = events.soccernet(tmp_path, halves)
    assert len(halves) > 1 and grouping.spans.keys() == halves.keys()
    for half in halves:
        at = 20 if "/1_" in half else 30
        assert [s.start for s in grouping.spans[half]] == [at]
