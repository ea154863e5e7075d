"""What tests of infer_stream.py share: a tiny model, clips, datapoints over them.

Input: pytest's folders. Output: fixtures `house` and `reference`, and `infer`, which runs the command.
Invariant: the same seeds give the same files.
"""

from pathlib import Path

import pytest

from infer_stream import main
from tests.tiny import save_tiny, tiny_video
from vlm_tsi.timeline import Timeline, Utterance, write_timelines

ROOT = Path(__file__).resolve().parents[1]
WARM = ["--temperature", "0.2", "--seed", "1", "--max-tokens", "9"]


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Path:
    """A model, two clips, six datapoints over them, and files that are no videos."""
    folder = tmp_path_factory.mktemp("house")
    save_tiny(folder / "model", talkative=True, seed=1)
    other = folder / "other"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "llama"}')
    clips = [tiny_video(folder / f"clip{i}.mp4", 4.0, 4.0, seed=i) for i in range(2)]
    tiny_video(folder / "short.mp4", 1.0, 4.0)
    (folder / "zero.mp4").touch()
    (folder / "corrupt.mp4").write_bytes(b"no video" * 99)
    (folder / "cut.mp4").write_bytes(clips[0].read_bytes()[:300])
    write_timelines(folder / "points.jsonl", [point(k) for k in range(6)])
    return folder


def point(k: int, video: str | None = None) -> Timeline:
    turns = (
        Utterance("user", "take the red part", 0.1, 0.9),
        Utterance("assistant", "no the blue lamp", 1.1, 2.0, eval=True),
    )
    name = video or f"clip{k // 3}.mp4"
    return Timeline(f"p{k}", name, 4.0, turns, "the lamp", {"window": [1.0 + k / 10, 3.9]})


def infer(*words: object) -> int:
    return main([str(w) for w in words])


@pytest.fixture(scope="module")
def reference(house, tmp_path_factory) -> bytes:
    """What one process says over the datapoints."""
    out = tmp_path_factory.mktemp("one")
    words = ("--timeline", house / "points.jsonl", "--model", house / "model", "--out", out)
    assert infer(*words, *WARM) == 0
    assert sorted(p.name for p in out.iterdir()) == ["run.json", "utterances.jsonl"]
    return (out / "utterances.jsonl").read_bytes()
