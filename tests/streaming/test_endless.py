"""A stream of two hours: flat latency, flat memory, utterances to the last minute."""

from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from tests.tiny import save_tiny, tiny_frames
from vlm_tsi.model.loading import load_checkpoint
from vlm_tsi.streaming import live
from vlm_tsi.streaming.live import Watcher, stream_live
from vlm_tsi.streaming.settings import StreamSettings
from vlm_tsi.video.reader import Frame

FPS, SECONDS = 2.0, 7200
pictures = tiny_frames(64)


def resident() -> int:
    """Bytes of this process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Memory(Watcher):
    """Resident memory at each thousandth frame."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.frames = 0

    def at(self, time: float) -> None:
        self.frames += 1
        if self.frames % 1000 == 0:
            self.seen.append(resident())


def synthetic(source, fps, size, on_warning):
    """Two hours of pictures on an accelerated clock: they come as fast as they are taken."""
    rng = np.random.default_rng(0)
    for idx, k in enumerate(rng.integers(0, len(pictures), round(SECONDS * FPS))):
        yield Frame(idx / FPS, idx, pictures[k])


@pytest.mark.slow
def test_two_hours_are_flat_and_speech_goes_on_to_the_last_minute(tmp_path, monkeypatch, capsys):
    loaded = load_checkpoint(save_tiny(tmp_path / "model", 10, talkative=True, seed=1))
    monkeypatch.setattr(live, "open_source", synthetic)
    settings = StreamSettings(window=60, window_text=128, temperature=0.2, max_tokens=9)
    memory = Memory()
    result = stream_live(loaded, "two hours", settings, watcher=memory)
    steps, spoken = result.log.durations, result.recorder.finished
    early, late = median(steps[200:2200]), median(steps[-2000:])
    growth = [b - a for a, b in pairwise(memory.seen[1:])]
    with capsys.disabled():
        print(f"\n{len(steps)} frames, {len(spoken)} utterances, {result.log.evicted} left; step "
              f"{early * 1e3:.2f} ms early, {late * 1e3:.2f} ms late; memory grows by "
              f"{median(growth) / 1e6:.2f} MB (median) a 1,000 frames")  # fmt: skip
    assert len(steps) == SECONDS * FPS and result.log.evicted["frames"] > 14_000
    assert spoken[-1].start > SECONDS - 60 and len(spoken) > 100
    assert late <= 1.25 * early
    assert median(growth) <= 1e6 and memory.seen[-1] - memory.seen[1] <= 1e6 * len(growth)
