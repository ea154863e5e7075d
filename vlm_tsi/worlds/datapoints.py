"""Datapoints: the stretches of a timeline that are streamed and scored.

Input: a whole timeline. Output: one timeline for each datapoint, its `meta["window"]` the
evaluated stretch [start, end] in seconds.
Invariant: what was said before the window stays as context (not scored), what comes after
is left out.

A timeline that names its window already is one datapoint. Otherwise each maximal run of
scored assistant turns is one (HoloAssist's rule); user turns inside a run stay, or end it
where that is asked for (the example of the paper's Section 4.2).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from vlm_tsi.timeline import Timeline, Utterance

Rules = Literal["released", "paper"]

CORRECTION, INSTRUCTION = "correct the wrong action", "instruction"
AFTER_CORRECTION = 10.0  # s
_STARTS = "instructor-start-conversation_"
INTERACTION_BEGINS = f"{_STARTS}describing high-level instruction"
INTERACTION_ENDS = f"{_STARTS}{CORRECTION}"


def datapoints(timeline: Timeline, *, split_at_user: bool = False) -> list[Timeline]:
    """The datapoints of one timeline, named `<id>#<k>`; none where nothing is scored.

    Args:
        timeline: with its scored turns marked.
        split_at_user: a user turn ends a run of scored turns.
    """
    if "window" in timeline.meta:
        return [timeline]
    runs = _runs(timeline.utterances, split_at_user)
    return [_datapoint(timeline, k, run) for k, run in enumerate(runs)]


def _runs(utterances: Sequence[Utterance], split_at_user: bool) -> list[list[int]]:
    """Indices of scored turns, run by run; an assistant turn not scored ends a run."""
    runs: list[list[int]] = [[]]
    for i, utterance in enumerate(utterances):
        if utterance.eval:
            runs[-1].append(i)
        elif utterance.role == "assistant" or split_at_user:
            runs.append([])
    return [run for run in runs if run]


def _datapoint(timeline: Timeline, k: int, run: Sequence[int]) -> Timeline:
    context = tuple(replace(u, eval=False) for u in timeline.utterances[: run[0]])
    scored = timeline.utterances[run[0] : run[-1] + 1]
    window = [scored[0].start, max(u.end for u in scored if u.eval)]
    meta = {**timeline.meta, "window": window, "source": timeline.video_id}
    video_id = f"{timeline.video_id}#{k}"
    return replace(timeline, video_id=video_id, utterances=context + scored, meta=meta)


def mark_eval(utterances: Iterable[Utterance], rules: Rules = "released") -> tuple[Utterance, ...]:
    """Set `eval` of a dialogue's assistant turns, from each turn's `meta["purpose"]`.

    Args:
        utterances: turns in order of start.
        rules: `released` (the released code's): corrections, the turns before one back to an
            instruction (to the beginning where there is none), and those that start less than
            10 s after a correction's end. `paper` (Section 4.1.2): the turns of interactions
            that begin with a high-level instruction and end with a correction which the
            instructor starts.
    """
    turns = tuple(utterances)
    scored = _released(turns) if rules == "released" else _interactions(turns)
    return tuple(
        replace(u, eval=i in scored and u.role == "assistant") for i, u in enumerate(turns)
    )


def _released(turns: Sequence[Utterance]) -> set[int]:
    scored: set[int] = set()
    for i, turn in enumerate(turns):
        if _purpose(turn).endswith(CORRECTION):
            scored |= {i, *_back_to_instruction(turns, i), *_soon_after(turns, i)}
    return scored


def _interactions(turns: Sequence[Utterance]) -> set[int]:
    """From the last high-level instruction before a correction to the correction itself."""
    scored: set[int] = set()
    began: int | None = None
    for i, turn in enumerate(turns):
        if _purpose(turn) == INTERACTION_BEGINS:
            began = i
        elif _purpose(turn) == INTERACTION_ENDS and began is not None:
            scored |= set(range(began, i + 1))
    return scored


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
