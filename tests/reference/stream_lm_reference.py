"""Slow, obvious teacher-forced measures of one turn, by plain loops.

Input: a turn's lists: would it open at each streamed frame, their times, the same of later
frames, losses, right or wrong. Output: a dict of measures (None: nothing to measure).
Invariant: written from the definitions alone, sharing no code with the library.
"""

import math
from typing import Any


def reference(
    opens: list[bool], times: list[float], later: list[bool], later_times: list[float],
    losses: list[float], right: list[bool],
) -> dict[str, Any]:  # fmt: skip
    """All measures of one turn."""
    found: dict[str, Any] = dict.fromkeys(
        ("perplexity", "correctness", "frame_diff", "time_diff", "fluency")
    )
    said_right = 0
    for is_right in right:
        if not is_right:
            break
        said_right += 1
    if losses:
        total = 0.0
        for loss in losses:
            total += loss
        found["perplexity"] = math.exp(min(total / len(losses), 50.0))
        found["correctness"] = said_right / len(losses)
    if opens:
        began: int | None = None
        for i, (opened, _) in enumerate(zip(opens + later, times + later_times, strict=True)):
            if opened:
                began = i
                break
        due = len(opens) - 1
        if began is None:
            began = due + len(later)
        found["frame_diff"] = abs(began - due)
        found["time_diff"] = abs((times + later_times)[began] - times[due])
    if opens and losses:
        in_order = []
        for i, opened in enumerate(opens):
            in_order.append(opened == (i == len(opens) - 1))
        count = 0
        for is_right in in_order + right:
            if not is_right:
                break
            count += 1
        found["fluency"] = count / len(in_order + right)
    return found
