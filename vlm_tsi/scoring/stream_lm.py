"""Teacher-forced measures of a streaming model: perplexity, correctness, timing, fluency.

Input: for each turn what the model made of it with everything before it given: at which
frames it would begin to speak, how surprised it is by each token, which tokens it gets right.
Output: measures of each turn, their means over turns (micro) and over videos (macro), and
bootstrap intervals over whole videos.
Invariant: finite numbers, or None where no turn can be measured; never NaN.

After VideoLLM-Online (Section 4.2 there, "Evaluation metrics"); docs/stream_lm.md says what is
decided where its paper, its code and this project's interleaving differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vlm_tsi.scoring.groups import RESAMPLES

MEASURES = ("perplexity", "correctness", "time_diff", "frame_diff", "fluency")
MOST_LOSS = 50.0
"""Nats a token from which on a turn's perplexity is cut (e^50), so that means stay finite."""
_BLOCK = 100


@dataclass(frozen=True, slots=True)
class TurnReading:
    """One turn, teacher-forced.

    Attributes:
        opens_S: would the model begin to speak after each streamed frame before the turn? The
            last of them is where it should.
        times_S: when these frames are (s).
        later_N, later_times_N: the same of frames that follow, were the turn not said.
        losses_M: cross entropy (nats) of each labelled text position, in order.
        right_M: is the likeliest token the labelled one?
    """

    opens_S: np.ndarray
    times_S: np.ndarray
    later_N: np.ndarray
    later_times_N: np.ndarray
    losses_M: np.ndarray
    right_M: np.ndarray


@dataclass(frozen=True, slots=True)
class TurnMeasures:
    """Measures of one turn; None where it has nothing to measure.

    Attributes:
        perplexity: e to the mean loss of its text (1: certain of every token).
        correctness: share of its text positions that are right before the first wrong one.
        frame_diff: frames between where it should begin and where it would.
        time_diff: the same in seconds.
        fluency: share of its streamed frames and text positions before the first wrong one.
        never: true if it would not begin at any frame looked at.
        is_cut: true if the loss was above `MOST_LOSS`.
    """

    perplexity: float | None
    correctness: float | None
    frame_diff: float | None
    time_diff: float | None
    fluency: float | None
    never: bool = False
    is_cut: bool = False


def measure(turn: TurnReading) -> TurnMeasures:
    """All measures of one turn."""
    frames, texts = len(turn.opens_S), len(turn.losses_M)
    first_wrong = int(np.argmin(turn.right_M)) if not turn.right_M.all() else texts
    perplexity = correctness = frame_diff = time_diff = fluency = None
    loss, never = 0.0, False
    if texts:
        loss = float(turn.losses_M.mean(dtype=np.float64))
        perplexity, correctness = float(np.exp(min(loss, MOST_LOSS))), first_wrong / texts
    if frames:
        frame_diff, time_diff, never = _began(turn)
    if frames and texts:
        early = int(np.argmax(turn.opens_S)) if turn.opens_S.any() else frames - 1
        is_on_time = bool(turn.opens_S[-1]) and early == frames - 1
        fluency = (frames + first_wrong if is_on_time else early) / (frames + texts)
    return TurnMeasures(
        perplexity, correctness, frame_diff, time_diff, fluency, never, loss > MOST_LOSS
    )


def _began(turn: TurnReading) -> tuple[float, float, bool]:
    """Frames and seconds between where it should begin and would; whether it never would.

    One that never would counts as late by all the frames that were looked at.
    """
    due = float(turn.times_S[-1])
    if turn.opens_S.any():
        at = int(np.argmax(turn.opens_S))
        return float(len(turn.opens_S) - 1 - at), due - float(turn.times_S[at]), False
    if not len(turn.later_N):
        return 0.0, 0.0, True
    never = not turn.later_N.any()
    at = len(turn.later_N) - 1 if never else int(np.argmax(turn.later_N))
    return float(at + 1), float(turn.later_times_N[at]) - due, never


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over turns or videos, its 95% interval, and over how many turns it is."""

    value: float
    low: float
    high: float
    turns: int


def means(
    by_video: Mapping[str, Sequence[TurnMeasures]], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, dict[str, Mean | None]]:
    """`micro` (over turns) and `macro` (over videos, as VideoLLM-Online) of each measure.

    Args:
        by_video: video -> its turns; the order of videos does not matter.
        resamples: of the bootstrap over whole videos.
        seed: of the bootstrap.
    """
    found: dict[str, dict[str, Mean | None]] = {"micro": {}, "macro": {}}
    for name in MEASURES:
        totals_V2 = np.array([_total(by_video[v], name) for v in sorted(by_video)])
        totals_V2 = totals_V2.reshape(-1, 2)[totals_V2.reshape(-1, 2)[:, 1] > 0]
        for pool in ("micro", "macro"):
            found[pool][name] = _mean(totals_V2, pool, resamples, seed)
    return found


def video_means(turns: Sequence[TurnMeasures]) -> dict[str, float | None]:
    """Means over the turns of one video."""
    totals = {name: _total(turns, name) for name in MEASURES}
    return {name: total / n if n else None for name, (total, n) in totals.items()}


def _total(turns: Sequence[TurnMeasures], name: str) -> tuple[float, int]:
    values = [x for x in (getattr(turn, name) for turn in turns) if x is not None]
    return float(sum(values)), len(values)


def _mean(totals_V2: np.ndarray, pool: str, resamples: int, seed: int) -> Mean | None:
    n_videos = len(totals_V2)
    if not n_videos:
        return None
    turns = int(totals_V2[:, 1].sum())
    if pool == "macro":
        each_V = totals_V2[:, 0] / totals_V2[:, 1]
        totals_V2 = np.stack([each_V, np.ones(n_videos)], axis=1)
    rng, samples = np.random.default_rng(seed), []
    for begin in range(0, resamples, _BLOCK):
        count = min(_BLOCK, resamples - begin)
        sums_R2 = rng.multinomial(n_videos, [1 / n_videos] * n_videos, count) @ totals_V2
        samples.append(sums_R2[:, 0] / sums_R2[:, 1])
    low, high = np.percentile(np.concatenate(samples), [2.5, 97.5])
    value = totals_V2[:, 0].sum() / totals_V2[:, 1].sum()
    return Mean(float(value), float(low), float(high), turns)
