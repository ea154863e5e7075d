"""The word tokenizer's command: bad input is one line, its folder appears whole or not at all."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_prep.tokenizer import main
from vlm_tsi.timeline import Timeline, Utterance, write_timelines


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    turns = (Utterance("assistant", "red lamp on", 0.0, 1.0),)
    write_timelines(tmp_path / "t.jsonl", [Timeline("a", "a.mp4", 2.0, turns, "watch")])
    line = {"video_path": "a.mp4", "times": [0], "captions": ["a blue lamp"]}
    (tmp_path / "c.jsonl").write_text(json.dumps(line))
    return ["--timelines", str(tmp_path / "t.jsonl"), "--captions", str(tmp_path / "c.jsonl")]


def test_every_word_is_one_token_and_other_files_stay(texts: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("kept")
    assert main([*texts, "--out", str(out)]) == 0
    tokenizer = AutoTokenizer.from_pretrained(out)
    ids = tokenizer("watch red blue lamp")["input_ids"]
    assert len(set(ids)) == 4 and tokenizer.unk_token_id not in ids
    assert (out / "mine.txt").read_text() == "kept" and not (out / ".unfinished").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [("{}", "video_path is missing"), ('{"video_path": "a", "times": [0], "captions": 5}', "is 5")],
)
def test_bad_captions_are_one_line(line: str, told: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "bad.jsonl").write_text(line)
    words = ["--captions", str(tmp_path / "bad.jsonl"), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    [shown] = capsys.readouterr().err.splitlines()
    assert told in shown and not (tmp_path / "out").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left"), Exception("No space left (28)")])
def test_a_full_disk_leaves_no_half_tokenizer(
    error: Exception, texts: list[str], tmp_path: Path, capsys, monkeypatch
) -> None:
    def full(self: object, folder: Path) -> None:
        (Path(folder) / "tokenizer.json").write_text("{")
        raise error

    monkeypatch.setattr(PreTrainedTokenizerFast, "save_pretrained", full)
    assert main([*texts, "--out", str(tmp_path / "out")]) == 2
    [shown] = capsys.readouterr().err.splitlines()
    assert "No space left" in shown and list((tmp_path / "out").iterdir()) == []
