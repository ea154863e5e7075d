"""Building a split: same bytes however it is run, seeds apart, closed vocabulary."""

import os
import re
from pathlib import Path

import av
import pytest

from data_prep.worlds import WORLDS, build, clip_seed, main
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_jsonl
from vlm_tsi.timeline import read_timelines
from vlm_tsi.worlds.draw import blank, disc, moved


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module", params=sorted(WORLDS))
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    build(request.param, folder, 2, 5, "test", workers=1)
    return request.param, folder


def test_videos_decode_to_all_their_frames(built: tuple[str, Path]):
    _, folder = built
    for timeline in read_timelines(folder / "timelines.jsonl"):
        with av.open(str(folder / timeline.video_path)) as video:
            times = [float(f.pts * f.time_base) for f in video.decode(video=0)]
        assert len(times) == round(timeline.duration * 8)
        assert times == pytest.approx([k / 8 for k in range(len(times))], abs=1e-3)


def test_captions_stand_every_half_second(built: tuple[str, Path]):
    world, folder = built
    for _, record in read_jsonl(folder / "captions.jsonl"):
        assert record["times"][:3] == [0.0, 0.5, 1.0]
        assert len(record["times"]) == len(record["captions"])
    clip = WORLDS[world].clip(clip_seed(world, "test", 5, 1), record["video_id"])
    assert record["captions"] == [clip.caption(t) for t in record["times"]]


def test_two_workers_give_the_same_bytes(built: tuple[str, Path], tmp_path: Path):
    world, folder = built
    build(world, tmp_path, 2, 5, "test", workers=2)
    assert contents(tmp_path) == contents(folder)


def test_a_stopped_build_goes_on(built: tuple[str, Path], tmp_path: Path):
    world, folder = built
    first = build(world, tmp_path, 1, 5, "test")
    kept = next((tmp_path / "videos").iterdir())
    os.utime(kept, (1, 1))
    second = build(world, tmp_path, 2, 5, "test")
    assert (first.rendered, second.rendered) == (1, 1)
    assert kept.stat().st_mtime == 1
    assert contents(tmp_path) == contents(folder)


@pytest.mark.parametrize("change", [{"seed": 8}, {"split": "val"}, {"fps": 2}, {"world": "other"}])
def test_another_split_never_replaces_one(tmp_path: Path, change: dict[str, object]):
    settings = {"world": "signals", "count": 1, "seed": 7, "out": tmp_path}
    build(**settings)
    before = contents(tmp_path)
    if "world" in change:
        change = {"world": "assembly"}
    with pytest.raises(UserError, match="holds another split .*world signals.*seed 7"):
        build(**{**settings, **change})
    assert contents(tmp_path) == before


def test_timelines_that_were_not_made_here_are_left_alone(tmp_path: Path):
    (tmp_path / "timelines.jsonl").write_text("mine")
    with pytest.raises(UserError, match="not made here"):
        build("signals", tmp_path, 1, 0)
    assert (tmp_path / "timelines.jsonl").read_text() == "mine"


def test_what_older_code_drew_is_drawn_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("data_prep.worlds._code", lambda: "old")
    build("signals", tmp_path, 1, 0)
    monkeypatch.undo()
    assert build("signals", tmp_path, 1, 0).rendered == 1
    assert build("signals", tmp_path, 1, 0).rendered == 0


def test_seeds_never_collide():
    splits = ("train", "validation", "test")
    seeds = {
        clip_seed(w, s, n, i) for w in WORLDS for s in splits for n in (0, 1) for i in range(500)
    }
    assert len(seeds) == len(WORLDS) * len(splits) * 2 * 500


def test_vocabulary_is_closed_and_small():
    words: set[str] = set()
    for world in WORLDS.values():
        for seed in range(80):
            clip = world.clip(seed, "v")
            texts = [clip.timeline.system, *(u.text for u in clip.timeline.utterances)]
            texts += [clip.caption(t) for t in range(int(clip.timeline.duration))]
            assert all(re.fullmatch(r"[a-z]+( [a-z]+)*", text) for text in texts)
            words |= {word for text in texts for word in text.split()}
    assert 60 < len(words) < 120
    content = set().union(*(s for w in WORLDS.values() for s in w.content_words.values()))
    assert {word for phrase in content for word in phrase.split()} <= words


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"world": "lamps"}, "lamps"),
        ({"count": 0}, "--count 0"),
        ({"workers": 0}, "--workers 0"),
        ({"split": "a/b"}, "a/b"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, object], named: str):
    good = {
        "world": "signals",
        "out": tmp_path,
        "count": 1,
        "seed": 0,
        "split": "train",
        "workers": 1,
    }
    with pytest.raises(UserError, match=named):
        build(**{**good, **options})  # type: ignore[arg-type]


def test_a_file_in_the_way_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "out").write_text("")
    options = ["signals", "--out", str(tmp_path / "out"), "--count", "1", "--seed", "0"]
    assert main(options) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_the_command_says_how_long_a_clip_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    options = ["signals", "--out", str(tmp_path), "--count", "1", "--seed", "0"]
    assert main(options) == 0
    assert re.search(r"1 clips, 1 rendered now, \d+ ms a clip", capsys.readouterr().out)
    assert main(options) == 0
    assert capsys.readouterr().out.rstrip().endswith("1 clips, 0 rendered now")


def test_a_stamp_moved_out_of_view_paints_nothing():
    image = blank((10, 10, 10))
    moved(disc(64, 64, 5), 200, 0).paint(image, (255, 0, 0))
    assert (image == 10).all()
    moved(disc(64, 64, 5), -62, 0).paint(image, (255, 0, 0))
    assert tuple(image[64, 2]) == (255, 0, 0)
