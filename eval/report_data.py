"""What a report shows, as plain values.

Input: filled by whoever ran the demo. Output: read by `eval.report` and `eval.picture`.
Invariant: scores are percentages under the names of `eval.tglg`; a score that is missing or
NaN is shown as a dash, never as a number. Schemes and worlds are shown in dict order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vlm_tsi.timeline import Generated, Utterance

Scores = Mapping[str, float]
"""Column name -> percentage; the names are the keys of `COLUMNS`."""

COLUMNS = {
    "trace": "TRACE",
    "s_a": "S_a",
    "s_t": "S_t",
    "s_start": "S_start",
    "s_end": "S_end",
    "s_overlap": "S_overlap",
    "f1": "F1",
    "precision": "Precision",
    "recall": "Recall",
    "content_accuracy": "Content",
}
"""Column name -> heading, in Table 2's order."""

LABELS = {
    "tsi": "TSI",
    "turn_based": "Turn-based",
    "signals": "Signals (perceptual updating)",
    "assembly": "Assembly (contingency awareness)",
    "none": "no interruption",
    "bent": "sentence bends",
    "broken": "broken off",
}
"""Names of schemes, worlds and kinds as a reader sees them; others are shown as they are."""


def label(name: str) -> str:
    """The reader's name for a scheme, world or kind."""
    return LABELS.get(name, name.replace("_", " "))


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference (TSI less turn-based, in points) and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """The turn-based threshold on validation: (threshold, scores) and the one chosen."""

    points: Sequence[tuple[float, Scores]]
    chosen: float


@dataclass(frozen=True, slots=True)
class VideoView:
    """One video's timeline picture.

    `window` is the evaluation window in seconds (None: all of it). `lanes` holds each
    scheme's utterances; `pairs` holds, by scheme, which reference was matched with which
    generated utterance, as indices into `reference` and `lanes[scheme]`. A lane without
    an entry in `pairs` is drawn without saying what was matched.
    """

    video_id: str
    video_path: str
    duration: float
    reference: Sequence[Utterance]
    lanes: Mapping[str, Sequence[Generated]]
    pairs: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    window: tuple[float, float] | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class DemoRun:
    """All that a report shows; every part but `scores` may be left empty.

    Attributes:
        scores: world -> scheme -> scores (the headline table).
        differences: world -> column -> TSI less turn-based.
        by_kind: world -> kind -> scheme -> scores.
        sweeps: world (or "all") -> threshold sweep.
        seeds: seed -> world -> scheme -> scores.
        videos: timeline pictures.
        curves: chart title -> series name -> (x, y) points.
        commands: the exact commands, one a string.
        versions: package -> version.
        seconds: phase -> seconds.
        embedder: the sentence embedder's name.
        notes: said under the headline table.
    """

    scores: Mapping[str, Mapping[str, Scores]]
    title: str = "VLM-TSI demo"
    differences: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    by_kind: Mapping[str, Mapping[str, Mapping[str, Scores]]] = field(default_factory=dict)
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)
    seeds: Mapping[str, Mapping[str, Mapping[str, Scores]]] = field(default_factory=dict)
    videos: Sequence[VideoView] = ()
    curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]] = field(default_factory=dict)
    commands: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    embedder: str = ""
    notes: Sequence[str] = ()
