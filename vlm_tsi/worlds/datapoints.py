"""Datapoints: the stretches of a timeline that are streamed and scored.

Input: a whole timeline. Output: one timeline for each datapoint, its `meta["window"]` the
evaluated stretch [start, end] in seconds.
Invariant: what was said before the window stays as context (not scored), what comes after
is left out.

A timeline that names its window already is one datapoint. Otherwise each maximal run of
scored assistant turns is one (HoloAssist's rule); user turns inside a run stay.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vlm_tsi.timeline import Timeline, Utterance

CORRECTION, INSTRUCTION = "correct the wrong action", "instruction"
AFTER_CORRECTION = 10.0  # s


def datapoints(timeline: Timeline) -> list[Timeline]:
    """The datapoints of one timeline, named `<id>#<k>`; none where nothing is scored."""
    if "window" in timeline.meta:
        return [timeline]
    runs = _runs(timeline.utterances)
    return [_datapoint(timeline, k, run) for k, run in enumerate(runs)]


def _runs(utterances: Sequence[Utterance]) -> list[list[int]]:
    """Indices of scored turns, run by run; an assistant turn not scored ends a run."""
    runs: list[list[int]] = [[]]
    for i, utterance in enumerate(utterances):
        if utterance.eval:
            runs[-1].append(i)
        elif utterance.role == "assistant":
            runs.append([])
    return [run for run in runs if run]


def _datapoint(timeline: Timeline, k: int, run: Sequence[int]) -> Timeline:
    context = tuple(replace(u, eval=False) for u in timeline.utterances[: run[0]])
    scored = timeline.utterances[run[0] : run[-1] + 1]
    window = [scored[0].start, max(u.end for u in scored if u.eval)]
    meta = {**timeline.meta, "window": window, "source": timeline.video_id}
    video_id = f"{timeline.video_id}#{k}"
    return replace(timeline, video_id=video_id, utterances=context + scored, meta=meta)


def mark_eval(utterances: Iterable[Utterance]) -> tuple[Utterance, ...]:
    """Set `eval` by HoloAssist's rule, from each turn's `meta["purpose"]`.

    Scored are corrections, the assistant turns before one back to an instruction, and those
    that start less than 10 s after a correction's end.
    """
    turns = tuple(utterances)
    scored: set[int] = set()
    for i, turn in enumerate(turns):
        if _purpose(turn).endswith(CORRECTION):
            scored |= {i, *_back_to_instruction(turns, i), *_soon_after(turns, i)}
    return tuple(
        replace(u, eval=i in scored and u.role == "assistant") for i, u in enumerate(turns)
    )


def _purpose(turn: Utterance) -> str:
    return str(turn.meta.get("purpose", ""))


def _back_to_instruction(turns: Sequence[Utterance], i: int) -> list[int]:
    for j in range(i - 1, -1, -1):
        if _purpose(turns[j]).endswith(INSTRUCTION):
            return list(range(j, i))
    return list(range(i))


def _soon_after(turns: Sequence[Utterance], i: int) -> list[int]:
    limit = turns[i].end + AFTER_CORRECTION
    return [j for j in range(i + 1, len(turns)) if turns[j].start < limit]
