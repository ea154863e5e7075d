"""How good a play-by-play classifier is: counts, rates, calibration.

Input: probabilities of play-by-play and true labels. Output: JSON-ready numbers and a table.
Invariant: rates are fractions 0..1, rounded to six digits; a rate without a case is 0, never
NaN.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize_scalar

RATES = ("accuracy", "precision", "recall", "f1")
BINS = 10
_TINY = 1e-7


def measured(scores: np.ndarray, labels: np.ndarray, threshold: float = 0.5) -> dict[str, Any]:
    """Accuracy, precision, recall, F1 and the confusion table at a threshold.

    Args:
        scores: [N] probabilities of play-by-play.
        labels: [N] bool.
        threshold: play-by-play from this probability on.
    """
    said = scores >= threshold
    true_pos, false_pos = int((said & labels).sum()), int((said & ~labels).sum())
    false_neg, true_neg = int((~said & labels).sum()), int((~said & ~labels).sum())
    precision = _ratio(true_pos, true_pos + false_pos)
    recall = _ratio(true_pos, true_pos + false_neg)
    return {
        "sentences": len(labels),
        "accuracy": _ratio(true_pos + true_neg, len(labels)),
        "precision": precision,
        "recall": recall,
        "f1": _ratio(2 * true_pos, 2 * true_pos + false_pos + false_neg),
        "confusion": {
            "true_positive": true_pos,
            "false_positive": false_pos,
            "false_negative": false_neg,
            "true_negative": true_neg,
        },
    }


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0


def over_matches(parts: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Leave-one-match-out: mean and spread over matches, all sentences pooled, each match.

    Args:
        parts: match -> its scores and labels.
    """
    by_match = {name: measured(*pair) for name, pair in parts.items()}
    means = {n: round(float(np.mean([m[n] for m in by_match.values()])), 6) for n in RATES}
    spread = np.std([m["accuracy"] for m in by_match.values()], ddof=1)
    scores, labels = (np.concatenate(side) for side in zip(*parts.values(), strict=True))
    pooled = measured(scores, labels)
    return {
        **means,
        "accuracy_sd": round(float(spread), 6),
        "confusion": pooled["confusion"],
        "pooled": {name: pooled[name] for name in ("sentences", *RATES)},
        "by_match": by_match,
    }


def paired(
    ours: Mapping[str, tuple[np.ndarray, np.ndarray]],
    theirs: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> dict[str, Any]:
    """Differences of accuracy on the same matches: mean, spread and standard error.

    Args:
        ours: match -> scores and labels, two matches or more.
        theirs: the same matches of the other classifier.
    """
    by_match = {
        name: round(measured(*pair)["accuracy"] - measured(*theirs[name])["accuracy"], 6)
        for name, pair in ours.items()
    }
    values = np.array(list(by_match.values()))
    spread = float(values.std(ddof=1))
    return {
        "mean": round(float(values.mean()), 6),
        "sd": round(spread, 6),
        "standard_error": round(spread / len(values) ** 0.5, 6),
        "by_match": by_match,
    }


def logit(scores: np.ndarray) -> np.ndarray:
    """Log odds, finite even at 0 and 1."""
    clipped = np.clip(scores, _TINY, 1 - _TINY)
    return np.log(clipped / (1 - clipped))


def cooled(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Scores with their log odds divided by a temperature; 0.5 stays 0.5."""
    return 1 / (1 + np.exp(-logit(scores) / temperature))


def best_temperature(scores: np.ndarray, labels: np.ndarray) -> float:
    """The temperature in 0.2..5 that makes the labels most likely."""

    def loss(log_temperature: float) -> float:
        return _log_loss(cooled(scores, float(np.exp(log_temperature))), labels)

    limits = (np.log(0.2), np.log(5.0))
    found = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-4})
    return round(float(np.exp(found.x)), 4)


def _log_loss(scores: np.ndarray, labels: np.ndarray) -> float:
    clipped = np.clip(scores, _TINY, 1 - _TINY)
    return float(-np.mean(np.where(labels, np.log(clipped), np.log(1 - clipped))))


def calibration(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Log loss, and the expected calibration error over ten equal bins of probability."""
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == b).mean() * abs(scores[bins == b].mean() - labels[bins == b].mean())
        for b in range(BINS)
        if (bins == b).any()
    ]
    error = round(float(np.sum(gaps)), 6)
    return {"log_loss": round(_log_loss(scores, labels), 6), "calibration_error": error}


def print_metrics(rows: Sequence[tuple[str, Mapping[str, Any]]], console: Console) -> None:
    """A table: a row for each result, with its confusion counts, in per cent."""
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    for head in ("n", "acc.", "prec.", "rec.", "F1", "TP", "FP", "FN", "TN"):
        table.add_column(head, justify="right", no_wrap=True, min_width=4)
    for name, result in rows:
        count = result.get("sentences") or result["pooled"]["sentences"]
        rates = [f"{100 * result[rate]:.1f}" for rate in RATES]
        table.add_row(name, str(count), *rates, *map(str, result["confusion"].values()))
    console.print(table)
