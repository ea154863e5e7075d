"""The transcript form, and the dispatcher of steps."""

import json

import pytest

from data_prep.soccernet import __main__ as cli
from data_prep.soccernet.transcript import (
    Segment,
    Transcript,
    find_transcripts,
    read_transcript,
    to_dict,
)
from vlm_tsi.errors import UserError
from vlm_tsi.files import write_json
from vlm_tsi.timeline import Word

HALF = "england_epl/2014-2015/2015-02-21 - 18-00 A 1 - 0 B/1_224p"


def written(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_a_transcript_survives_its_json(tmp_path):
    words = (Word("Goal", 1.0, 1.5),)
    raw = Segment(9.0, 8.0, "", speaker="S1")
    whole = Transcript(
        HALF, "ok", "en", 0.9, 2700.0, (Segment(1.0, 2.0, "Goal", words, None, True, 0.8), raw)
    )
    path = written(tmp_path / "x.json", to_dict(whole))
    assert read_transcript(path, HALF) == whole


def test_a_hand_labelled_file_is_read_whatever_the_order_of_its_keys(tmp_path):
    record = {"is_pbp": False, "text": " é", "end": 2, "speaker": "UNK", "start": 1}
    read = read_transcript(written(tmp_path / "x.json", {"segments": [record]}), HALF)
    assert read.status == "ok" and read.segments == (Segment(1.0, 2.0, " é", (), "UNK", False),)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"start": "1"}, "segments[0]: start is '1'; use a finite number"),
        ({"start": True}, "start is True"),
        ({"end": float("nan")}, "end is nan"),
        ({"end": 10**400}, "end is inf"),
        ({"end": None}, "end is missing"),
        ({"text": 3}, "text is 3; use a string"),
        ({"is_pbp": "yes"}, "is_pbp is 'yes'; use true or false"),
        ({"speaker": 1}, "speaker is 1"),
        ({"words": "Goal"}, "words is 'Goal'"),
        ({"words": ["Goal"]}, "words[0]: 'Goal' is not a JSON object"),
        ({"words": [{"text": "Goal", "start": 2, "end": 1}]}, "words[0]: end is 1"),
        ({"words": [{"text": "Goal", "start": 2}]}, "words[0]: end is None"),
    ],
)
def test_bad_types_are_refused_by_field_and_value(tmp_path, change, told):
    record = {"start": 1, "end": 2, "text": "Goal", **change}
    path = written(tmp_path / "x.json", {"segments": [record]})
    with pytest.raises(UserError) as caught:
        read_transcript(path, HALF)
    assert told in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("value", [[], {"segments": {}}, {"segments": [], "status": "fine"}, "{"])
def test_other_files_are_refused(tmp_path, value):
    with pytest.raises(UserError):
        read_transcript(written(tmp_path / "x.json", value), HALF)


def test_transcripts_are_found_at_any_depth_and_nothing_else(tmp_path):
    for name in (HALF, "m. 1/2_224p", ".old/m/1_224p", "1_224p"):
        written(tmp_path / f"{name}.json", "{}")
    for other in ("report.json", "a/metrics.json", "a/.1_224p.json", "a/3_224p.json"):
        written(tmp_path / other, "{}")
    assert [half for half, _ in find_transcripts(tmp_path)] == ["1_224p", HALF, "m. 1/2_224p"]
    with pytest.raises(UserError, match="no such folder"):
        find_transcripts(tmp_path / "none")


def test_help_names_every_step_and_an_unknown_one_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    told = capsys.readouterr().out
    assert all(step in told for step in cli.STEPS)
    assert cli.main(["fly"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "'fly'" in line


def test_a_segment_with_a_bad_value_is_left_out_and_named_where_that_is_asked_for(tmp_path):
    good = {"start": 1, "end": 2, "text": "Goal"}
    bad = [{**good, "end": "x"}, {"start": 1, "end": 2}, "Goal", {**good, "words": [3]}]
    path = written(tmp_path / "x.json", {"segments": [good, *bad, good]})
    unread = []
    assert read_transcript(path, HALF, unread).segments == (Segment(1.0, 2.0, "Goal"),) * 2
    assert unread == [
        "segments[1]: end is 'x'",
        "segments[2]: text is missing",
        "segments[3]: 'Goal' is not a JSON object",
        "segments[4].words[0]: 3 is not a JSON object",
    ]
    for value in ([], {"segments": {}}, {"segments": [], "status": "fine"}):
        with pytest.raises(UserError):  # the file as a whole
            read_transcript(written(tmp_path / "y.json", value), HALF, [])


def test_a_name_that_is_no_utf8_is_refused(tmp_path):
    path = written(tmp_path / "x.json", {"segments": []})
    with pytest.raises(UserError, match="its name is not UTF-8; rename"):
        read_transcript(path, "l/s/M\udce1laga/1_224p")


def test_links_are_followed_and_a_circle_ends(tmp_path):
    real = tmp_path / "elsewhere/match"
    write_json(real / "1_224p.json", {})
    (tmp_path / "root").mkdir()
    (tmp_path / "root/linked").symlink_to(real)
    (real / "up").symlink_to(tmp_path / "root")
    assert [half for half, _ in find_transcripts(tmp_path / "root")] == ["linked/1_224p"]
