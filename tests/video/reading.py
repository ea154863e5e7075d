"""Reading clips in tests: frame times, by the reader and independently, and refusals.

Input: a video. Output: seconds, or the line that refuses it. Invariant: `all_times` and
`by_the_rule` share no code with the reader.
"""

from collections.abc import Callable
from pathlib import Path

import av
import pytest

from vlm_tsi.errors import UserError
from vlm_tsi.video.reader import iter_frames, probe

Clip = Callable[..., Path]
STEADY = [i / 25 for i in range(75)]
GAPPY = [0.0, 0.03, 0.2, 0.49, 0.51, 0.9, 2.3, 2.31, 2.4, 2.6, 5.0, 5.49999, 5.7]


def times(path: Path, **how: object) -> list[float]:
    return [f.time for f in iter_frames(path, **how)]  # type: ignore[arg-type]


def all_times(path: Path) -> list[float]:
    """Independent and slow: decode all of it, one thread, plain PTS arithmetic."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        ticks = [f.pts for f in container.decode(stream)]
        return [float((p - ticks[0]) * stream.time_base) for p in ticks]


def by_the_rule(found: list[float], fps: float) -> list[float]:
    """The rule in words: at or after the next due grid point; then the next one after it."""
    due, kept = 0.0, []
    for t in found:
        if t >= due - 1e-6:
            kept.append(t)
            while due <= t + 1e-6:
                due += 1 / fps
    return kept


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        list(iter_frames(path))
    with pytest.raises(UserError) as also:
        probe(path)
    line = str(caught.value)
    assert str(also.value) == line
    assert "\n" not in line and str(path) in line
    return line
