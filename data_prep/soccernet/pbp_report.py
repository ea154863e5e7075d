"""What the trained classifiers scored, as `metrics.json` and as a table.

Input: the test scores of each training, all labels. Output: JSON-ready numbers, a table.
Invariant: a match's temperature is fitted on the others, so every figure is one of sentences
that nothing was fitted on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from data_prep.soccernet import pbp_metrics as metrics
from data_prep.soccernet.pbp_data import Split
from data_prep.soccernet.pbp_fit import learned_from
from data_prep.soccernet.pbp_model import Kind

PAPERS_ACCURACY = 0.94
"""On the random split (paper, Section 4.1.1)."""
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True)
class Tested:
    """A training's kind and split, and its scores of the split's test sentences."""

    kind: Kind
    split: Split
    scores: np.ndarray


def all_metrics(
    kind: Kind, labels: np.ndarray, tested: Mapping[str, Tested], seed: int
) -> dict[str, Any]:
    """The content of `metrics.json`.

    Args:
        kind: of the classifier that is kept.
        labels: [N] bool, of all sentences.
        tested: what each training scored, by its name.
        seed: of split and training.
    """

    def on_split(name: str) -> dict[str, Any]:
        test = tested[name]
        learned = len(learned_from(test.kind, test.split))
        return {
            "seed": seed,
            "trained_on": learned,
            **metrics.measured(test.scores, labels[test.split.test]),
        }

    parts = _left_out(kind, tested, labels)
    result: dict[str, Any] = {
        "unit": "fractions 0..1",
        "classifier": kind,
        "random_split": on_split(f"{kind}-random"),
        "leave_one_match_out": metrics.over_matches(parts),
        "paper_recipe": {"random_split": on_split("lstm-random")},
        "published": {"random_split": {"accuracy": PAPERS_ACCURACY}},
        "majority_class": {"accuracy": round(float(max(labels.mean(), 1 - labels.mean())), 6)},
        **_calibrated(parts),
    }
    papers = parts if kind == "lstm" else _left_out("lstm", tested, labels)
    if papers:
        result["paper_recipe"]["leave_one_match_out"] = metrics.over_matches(papers)
    if papers and kind != "lstm":
        result["against_paper"] = metrics.paired(parts, papers)
    return result


def _left_out(
    kind: Kind, tested: Mapping[str, Tested], labels: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Match -> scores and labels of its sentences, it being left out; empty if never trained."""
    found = [tested[name] for name in tested if name.startswith(f"{kind}-match")]
    return {t.split.name: (t.scores, labels[t.split.test]) for t in found}


def _calibrated(parts: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """The temperature, what it does on matches it was not fitted on, and what thresholds give."""
    scores, labels = (np.concatenate(side) for side in zip(*parts.values(), strict=True))
    cooled = []
    for name, (own, _) in parts.items():
        others = [pair for other, pair in parts.items() if other != name]
        fitted = metrics.best_temperature(*(np.concatenate(s) for s in zip(*others, strict=True)))
        cooled.append(metrics.cooled(own, fitted))
    held_out = np.concatenate(cooled)
    rows = {str(t): metrics.measured(held_out, labels, t) for t in THRESHOLDS}
    return {
        "calibration": {
            "temperature": metrics.best_temperature(scores, labels),
            "before": metrics.calibration(scores, labels),
            "after": metrics.calibration(held_out, labels),
        },
        "thresholds": {t: {n: row[n] for n in metrics.RATES} for t, row in rows.items()},
    }


def print_result(result: Mapping[str, Any], console: Console) -> None:
    """The table of results, in per cent."""
    kind, left_out = result["classifier"], result["leave_one_match_out"]
    rows = [
        (f"{kind}, random split", result["random_split"]),
        (f"{kind}, match left out", left_out),
        *((f"  {_teams(name)}", row) for name, row in left_out["by_match"].items()),
    ]
    if kind != "lstm":
        rows.append(("paper's lstm, random split", result["paper_recipe"]["random_split"]))
    papers = result["paper_recipe"].get("leave_one_match_out")
    if kind != "lstm" and papers:
        rows.append(("paper's lstm, match left out", papers))
    metrics.print_metrics(rows, console)
    points = 100 * left_out["accuracy_sd"]
    console.print(
        f"accuracy on a match left out varies by {points:.1f} points (standard deviation); "
        f"the paper reports {100 * PAPERS_ACCURACY:.0f} on its random split"
    )
    if "against_paper" in result:
        console.print(_difference(result["against_paper"]), highlight=False)


def _difference(found: Mapping[str, Any]) -> str:
    each = ", ".join(f"{100 * x:+.1f}" for x in found["by_match"].values())
    mean, spread, error = (100 * found[n] for n in ("mean", "sd", "standard_error"))
    return (
        f"less the paper's lstm, match by match: {mean:+.1f} points (standard deviation "
        f"{spread:.1f}, standard error {error:.1f}): {each}"
    )


def _teams(match: str) -> str:
    """A match without its league, season and date."""
    return re.sub(r"^\d{4}-\d\d-\d\d - \d\d-\d\d ", "", match.rsplit("/", 1)[-1])
