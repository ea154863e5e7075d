"""all: every step, with the options of each, as a process and as a plan."""

from pathlib import Path

import pytest

from data_prep.common.tasks import GONE
from data_prep.soccernet import __main__ as cli
from data_prep.soccernet import everything
from data_prep.soccernet.transcript import UNUSABLE, find_transcripts, read_transcript
from tests.data_prep.killed import files, start
from tests.data_prep.pbp_halves import put, put_labels
from tests.data_prep.test_soccernet_transcribe import pulses, stand_in, write_video
from vlm_tsi.files import read_json
from vlm_tsi.timeline import read_timelines

HALVES = [f"l/s/m{m}/{h}_224p" for m in range(5) for h in (1, 2)]


def planned(*words: str) -> dict[str, dict[str, object]]:
    named = ["--videos", "V", "--out", "O", *words]
    args = cli.parser_of("all").parse_args(named)
    return {step: vars(given) for step, given in everything.plan(args)}


@pytest.mark.parametrize("source", [["--labels", "L"], ["--filter", "F"]])
def test_the_steps_stand_in_order_and_hand_their_folders_on(source):
    steps = planned(*source, "--resume", "--workers", "3", "--limit", "2", "--seed", "7")
    trains = ["train-filter"] if source[0] == "--labels" else []
    assert list(steps) == [*trains, "transcribe", "filter", "build"]
    assert all(given["resume"] and given["workers"] == 3 for given in steps.values())
    assert [given["limit"] for given in steps.values()][-3:] == [2, 2, 2]
    assert steps["transcribe"]["out"] == steps["filter"]["transcripts"] == "O/transcripts"
    assert steps["filter"]["out"] == steps["build"]["transcripts"] == "O/filtered"
    assert steps["filter"]["filter"] == ("F" if source[0] == "--filter" else "O/filter")
    assert steps["build"]["seed"] == 7 and steps["build"]["videos"] == "V"
    if trains:
        assert steps["train-filter"]["limit"] is None and steps["train-filter"]["seed"] == 7


def test_every_option_of_every_step_is_taken_and_what_is_not_given_is_left_to_it():
    folders = {"help", "labels", "transcripts", "filter", "videos", "out"}
    offered = {a.dest for a in cli.parser_of("all")._actions}
    for step in everything.STEPS:
        own = {a.dest for a in cli.parser_of(step)._actions}
        assert own - folders <= offered, step
    steps = planned("--labels", "L")
    for step, given in steps.items():
        words = [f"--{n}=x" for n in folders - {"help"} if n in given]
        alone = vars(cli.parser_of(step).parse_args(words))
        ours = folders | {"workers"}
        assert {n: v for n, v in given.items() if n not in ours} == {
            n: v for n, v in alone.items() if n not in ours
        }


def test_an_option_goes_to_its_step():
    steps = planned("--labels", "L", "--asr-model", "tiny", "--threshold", "0.7", "--split-by",
                    "half", "--official-splits", "a", "b", "c", "--classifier", "lstm")  # fmt: skip
    assert steps["transcribe"]["model"] == "tiny" and steps["filter"]["threshold"] == 0.7
    assert steps["build"]["split_by"] == "half" and steps["train-filter"]["classifier"] == "lstm"
    assert steps["build"]["official_splits"] == ["a", "b", "c"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("all")
    for k, half in enumerate(HALVES):
        write_video(root / f"videos/{half}.mkv", pulses(1.0 + k / 16, 2.0, 3.0))
    put_labels(root / "labels")
    return root


def words(corpus: Path, python: Path, *more: str) -> list[str]:
    named = ["--videos", str(corpus / "videos"), "--labels", str(corpus / "labels")]
    return ["all", *named, "--backend", "whisperx", "--whisperx-python", str(python), *more]


@pytest.mark.slow
def test_from_labels_and_videos_to_datapoints(corpus, tmp_path):
    given = ("--threshold", "0.001", "--cluster-rule", "run", "--classifier", "lstm",
             "--seed", "3", "--compute-type", "float32")  # fmt: skip
    step = ["tests.data_prep.pbp_tiny", *words(corpus, stand_in(tmp_path / "asr"), *given)]
    assert start(step, tmp_path / "out").wait(timeout=300) == 0
    out = tmp_path / "out"
    reports = {
        part: read_json(out / part / "report.json")
        for part in ("filter", "transcripts", "filtered", "timelines")
    }
    assert reports["filter"]["settings"]["classifier"] == "lstm"
    assert reports["filter"]["settings"]["seed"] == 3
    assert reports["transcripts"]["settings"]["compute_type"] == "float32"
    assert reports["filtered"]["settings"] == {"classifier": "lstm", "threshold": 0.001}
    assert reports["timelines"]["settings"]["cluster_rule"] == "run"
    assert reports["timelines"]["settings"]["splits"] == {"by": "match", "seed": 3}
    heard = reports["transcripts"]["also"]["segment"]["kept"]
    assert heard == reports["filtered"]["kept"] == reports["timelines"]["read"] == 30
    assert [t.video_id for t in read_timelines(out / "timelines/timelines.jsonl")] == HALVES
    parts = [len(read_timelines(out / f"timelines/{p}.jsonl")) for p in ("train", "val", "test")]
    assert parts == [6, 2, 2]
    assert len(read_timelines(out / "timelines/test_datapoints.jsonl")) > 0
    assert 0 <= read_json(out / "filter/metrics.json")["leave_one_match_out"]["accuracy"] <= 1
    before = files(out)
    assert start([*step, "--resume"], out).wait(timeout=300) == 0
    assert files(out) == before


@pytest.mark.slow
def test_the_filter_loses_a_bad_segment_and_what_is_gone_alone(corpus, tmp_path):
    labels = corpus / "labels"
    step = ["tests.data_prep.pbp_tiny", "train-filter", "--labels", str(labels)]
    assert start([*step, "--workers", "1"], tmp_path / "filter").wait(timeout=300) == 0
    good = {"start": 1.0, "end": 2.0, "text": "Abel shoots"}
    for half in HALVES[:2]:
        put(tmp_path / "in", half, {"segments": [good, {**good, "end": "x"}, 3, good]})
    filters = ["tests.data_prep.pbp_tiny", "filter", "--transcripts", str(tmp_path / "in")]
    filters += ["--filter", str(tmp_path / "filter"), "--resume"]
    out = tmp_path / "out"
    assert start(filters, out).wait(timeout=300) == 0
    report = read_json(out / "report.json")
    assert (report["read"], report["kept"], report["dropped"]) == (8, 4, {UNUSABLE: 4})
    assert f"{HALVES[0]}: segments[1]: end is 'x'" in report["examples"][UNUSABLE]
    assert len(read_transcript(out / f"{HALVES[0]}.json", HALVES[0]).segments) == 2
    (tmp_path / f"in/{HALVES[1]}.json").unlink()
    assert start(filters, out).wait(timeout=300) == 0
    assert [half for half, _ in find_transcripts(out)] == HALVES[:1]
    assert read_json(out / "report.json")["also"]["file"]["noted"] == {GONE: 1}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--threshold", "2"], "--threshold: is 2.0"),
        (["--cluster-seconds", "nan"], "--cluster-seconds: is nan"),
        (["--batch-size", "0"], "--batch-size: is 0"),
        (["--language", "english"], "--language: is 'english'"),
        (["--official-splits", "a", "b", "c"], "a: No such file"),
        (["--videos", "EMPTY"], "holds no half"),
        (["--labels", "gone"], "--labels: gone is no folder"),
        (["--cluster-rule", "none"], "invalid choice: 'none'"),
    ],
)
def test_what_a_later_step_would_refuse_shows_before_the_first(
    more, told, corpus, tmp_path, capsys
):
    (tmp_path / "empty").mkdir()
    more = [str(tmp_path / "empty") if word == "EMPTY" else word for word in more]
    argv = words(corpus, stand_in(tmp_path / "asr"), "--out", str(tmp_path / "out"))
    assert cli.main([*argv, *more]) == 2
    assert told in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_training_options_are_refused_where_nothing_is_trained(corpus, tmp_path, capsys):
    argv = words(corpus, stand_in(tmp_path / "asr"), "--out", str(tmp_path / "out"))
    at = argv.index("--labels")
    argv[at] = "--filter"
    assert cli.main([*argv, "--classifier", "lstm"]) == 2
    assert "--classifier: is for training" in capsys.readouterr().err
