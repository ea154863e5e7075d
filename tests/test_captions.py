"""Captions of single frames: what is read, and what is refused with file, line and field."""

import json
from pathlib import Path

import pytest

from vlm_tsi.captions import Captions, read_captions
from vlm_tsi.errors import UserError

GOOD = {"video_path": "a.mp4", "times": [0, 0.5], "captions": ["a red lamp", "no lamp"]}


def written(folder: Path, *records: object) -> Path:
    path = folder / "c.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_captions_are_read_and_limited(tmp_path: Path) -> None:
    one = Captions("a.mp4", (0, 0.5), ("a red lamp", "no lamp"))
    assert read_captions(written(tmp_path, GOOD, GOOD)) == [one, one]
    assert read_captions(tmp_path / "c.jsonl", limit=1) == [one]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"times": 5}, "times is 5"),
        ({"captions": "words"}, "captions is 'words'"),
        ({"video_path": 5}, "video_path is 5"),
        ({"video_path": "a\0b"}, "video_path is"),
        ({"times": [0]}, "times is '1 for 2 captions'"),
        ({"times": [0, "x"]}, "times[1] is 'x'"),
        ({"times": [0, -1]}, "times[1] is -1"),
        ({"captions": ["a", ""]}, "captions[1] is ''"),
        ({"captions": ["a", 3]}, "captions[1] is 3"),
    ],
)
def test_a_bad_record_is_refused(changes: dict, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"c\.jsonl:2") as caught:
        read_captions(written(tmp_path, GOOD, {**GOOD, **changes}))
    assert told in str(caught.value)


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_field_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{name} is missing"):
        read_captions(written(tmp_path, {k: v for k, v in GOOD.items() if k != name}))
