"""What a report shows, as plain values.

Input: filled by the demo, or from score files by `eval.report_runs`. Output: read by
`eval.report_page` and `eval.picture`. Invariant: scores are percentages under the names of
`eval.tglg`; a score that is missing or NaN is shown as a dash, never as a number. Systems and
groups (worlds, or sets of videos) are shown in dict order.
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

MEANING = {
    "trace": "the whole: (S_a + S_t) / 2 with the paper's weights",
    "s_a": "what was said: how alike the matched texts are, times F1",
    "s_t": "when it was said: S_start, S_end and S_overlap weighed together",
    "s_start": "how near the matched starts are, times F1",
    "s_end": "how near the matched ends are, times F1",
    "s_overlap": "how little it talks over itself, times F1",
    "f1": "how much was matched at all: precision and recall in one",
    "precision": "the share of what was said that answers a reference",
    "recall": "the share of the references that were answered",
    "content_accuracy": "colour, place and part words that are right in matched utterances",
}
"""Column name -> what a high value means."""

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
    """A score or a difference in points, and its 95% interval."""

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
    an entry in `pairs` is drawn without saying what was matched. The picture begins at `begin`
    seconds; the video lasts until `duration`.
    """

    video_id: str
    video_path: str
    duration: float
    reference: Sequence[Utterance]
    lanes: Mapping[str, Sequence[Generated]]
    pairs: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    window: tuple[float, float] | None = None
    title: str = ""
    begin: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the table of pairs: a matched pair, a missed reference or an extra utterance.

    `ref` and `gen` are (text, start, end); `scores` are semantic, timing, start, end and overlap
    in 0..1, of matched pairs only. `kinds` are those of `vlm_tsi.scoring.failures`.
    """

    video_id: str
    ref: tuple[str, float, float] | None
    gen: tuple[str, float, float] | None
    kinds: Sequence[str]
    scores: tuple[float, float, float, float, float] | None = None

    @property
    def start(self) -> float:
        """Seconds: the reference's start, else the generated utterance's."""
        side = self.ref or self.gen
        assert side is not None, "an outcome has a side"
        return side[1]


@dataclass(frozen=True, slots=True)
class Latency:
    """Step durations of a run in seconds; the curve has (frame, median, longest) a stretch."""

    frames: int
    p50: float
    p95: float
    max: float
    real_time_factor: float
    dropped: int
    curve: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, slots=True)
class System:
    """One scored system on one set of videos.

    Attributes:
        scores: column -> percentage with its interval.
        per_video: video_id -> column -> percentage.
        outcomes: every pair and every utterance without one.
        thresholds: failure kind -> seconds.
        failures: failure kind -> how often.
        counts: `references`, `generated`, `matched`.
        latency: of the run that said it, where it is known.
        sensitivity: parameter -> its value -> TRACE.
        facts: name -> value, for the table of parameters.
    """

    scores: Mapping[str, Interval]
    per_video: Mapping[str, Scores]
    outcomes: Sequence[Outcome]
    thresholds: Mapping[str, float]
    failures: Mapping[str, int]
    counts: Mapping[str, int]
    latency: Latency | None = None
    sensitivity: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report shows; every part but `scores` may be left empty.

    Attributes:
        scores: world (or set of videos) -> system -> scores (the headline table).
        systems: world (or set of videos) -> system -> its parts.
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
    systems: Mapping[str, Mapping[str, System]] = field(default_factory=dict)
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
