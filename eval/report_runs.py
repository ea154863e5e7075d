"""Score files as the report's parts.

Input: `NAME=PATH` or `PATH` words; a path is a score file of `eval.tglg`, or a folder with one.
Output: `Report`. Invariant: systems that were scored on the same videos and references stand
in one group and no others do; what a run lacks (videos, latencies) is a note, not an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.report_data import COLUMNS, Interval, Latency, Outcome, Report, System
from eval.score_files import read_scores
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_object
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.sensitivity import Sensitivity
from vlm_tsi.streaming.spool import FACTS

AGAIN = "make the file again with `python -m eval.tglg … --out`"
SHAPE: dict[str, type] = {
    "micro": dict, "intervals": dict, "failures": dict, "unmatched": list, "counts": dict,
    "videos": dict, "predictions": list, "command": str, "versions": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """One score file: its name in the report and its checked JSON."""

    name: str
    path: Path
    json: Mapping[str, Any]

    @property
    def group(self) -> tuple[tuple[str, int], ...]:
        """Videos with references, and how many: what makes two files comparable."""
        per_video = self.json["per_video"]
        return tuple(sorted((v, s["n_ref"]) for v, s in per_video.items() if s["n_ref"]))


def read_runs(words: Sequence[str]) -> list[Stored]:
    """Read every RUN of the command line.

    Raises:
        UserError: no such file, no score file, a damaged one, or two of one name.
    """
    runs = [_read(*_named(word)) for word in words]
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            mend = f"give each a name: {run.name}-a={run.path}"
            raise UserError(run.path, f"another RUN is named {run.name!r} as well", mend)
    return runs


def _named(word: str) -> tuple[str, Path]:
    name, equals, path = word.partition("=")
    if equals and name and path and "/" not in name and not Path(word).exists():
        return name, _score_file(Path(path))
    file = _score_file(Path(word))
    return (file.parent.name if file.stem == "scores" else file.stem) or file.stem, file


def _score_file(path: Path) -> Path:
    """The file itself, or the only score file of a folder."""
    if not path.is_dir():
        return path
    found = [p for p in sorted(path.glob("*.json")) if _is_score_file(p)]
    if len(found) == 1:
        return found[0]
    problem = f"holds {len(found)} score files" if found else "holds no score file"
    raise UserError(path, problem, "name one that `python -m eval.tglg … --out` wrote")


def _is_score_file(path: Path) -> bool:
    try:
        return {"micro", "per_video", "pairs"} <= read_object(path).keys()
    except UserError:
        return False


def _read(name: str, path: Path) -> Stored:
    read_scores(path)  # every number of sums and pairs is checked there
    stored = read_object(path)
    for key, kind in SHAPE.items():
        if not isinstance(stored.get(key), kind):
            problem = f"{key} is not there or of another type"
            raise UserError(path, problem, AGAIN)
    try:
        system_of(Stored(name, path, stored))
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise UserError(path, f"damaged ({type(err).__name__}: {err})", AGAIN) from err
    return Stored(name, path, stored)


def groups_of(runs: Sequence[Stored]) -> dict[str, list[Stored]]:
    """Group label -> runs on the same videos and references, in the order given."""
    found: dict[tuple[tuple[str, int], ...], list[Stored]] = {}
    for run in runs:
        found.setdefault(run.group, []).append(run)
    labels = {}
    for k, (group, members) in enumerate(found.items()):
        size = f"{len(group)} videos, {sum(n for _, n in group)} references"
        labels[size if len(found) == 1 else f"Set {k + 1}: {size}"] = members
    return labels


def report_of(groups: Mapping[str, Sequence[Stored]], title: str) -> tuple[Report, list[str]]:
    """The report without pictures, and a note for each thing that a run lacks."""
    systems = {g: {r.name: system_of(r) for r in runs} for g, runs in groups.items()}
    every = [run for runs in groups.values() for run in runs]
    embedders = dict.fromkeys(str(run.json["embedder"]) for run in every)
    notes = [f"{r.name}: no {FACTS} beside its predictions, so no latencies"
             for r in every if latency_of(r) is None]  # fmt: skip
    if len(groups) > 1:
        notes.append("Runs in different sets saw other videos: compare within a set only.")
    versions: dict[str, str] = {}
    for run in every:
        for name, value in run.json["versions"].items():
            seen = versions.setdefault(str(name), str(value))
            if str(value) not in seen.split(", "):
                versions[str(name)] = f"{seen}, {value}"
    report = Report(
        scores={g: {n: {c: x.value for c, x in s.scores.items()} for n, s in group.items()}
                for g, group in systems.items()},
        title=title, systems=systems, embedder=", ".join(embedders), notes=notes,
        commands=[str(run.json["command"]) for run in every], versions=versions,
    )  # fmt: skip
    return report, notes


def system_of(run: Stored) -> System:
    """One score file's parts."""
    stored = run.json
    intervals = stored["intervals"]["micro"]
    scores = {c: Interval(*(float(intervals[c][k]) for k in ("value", "low", "high")))
              for c in COLUMNS if c in intervals}  # fmt: skip
    per_video = {v: {c: float(s[c]) for c in COLUMNS if c in s}
                 for v, s in stored["per_video"].items()}  # fmt: skip
    rules = {str(k): float(v) for k, v in stored["failures"]["rules"].items()}
    counts = {str(k): int(v) for k, v in stored["failures"]["counts"].items()}
    sizes = {k: int(stored["counts"][k]) for k in ("references", "generated", "matched")}
    return System(
        scores, per_video, outcomes_of(stored), rules, counts, sizes,
        latency_of(run), _sensitivity(stored), _facts(stored),
    )  # fmt: skip


def outcomes_of(stored: Mapping[str, Any]) -> list[Outcome]:
    """Pairs and utterances without one, in the order of videos and starts."""
    parts = ("semantic", "timing", "start", "end", "overlap")
    found = [
        Outcome(
            p["video_id"],
            (p["ref_text"], p["ref_start"], p["ref_end"]),
            (p["gen_text"], p["gen_start"], p["gen_end"]),
            tuple(map(str, p["failures"])),
            (p[parts[0]], p[parts[1]], p[parts[2]], p[parts[3]], p[parts[4]]),
        )
        for p in stored["pairs"]
    ]
    for u in stored["unmatched"]:
        side = (str(u["text"]), float(u["start"]), float(u["end"]))
        ref, gen = (side, None) if u["side"] == "reference" else (None, side)
        found.append(Outcome(str(u["video_id"]), ref, gen, tuple(map(str, u["failures"]))))
    return sorted(found, key=lambda o: (o.video_id, o.start))


def _sensitivity(stored: Mapping[str, Any]) -> dict[str, dict[float, float]]:
    if "sensitivity" not in stored:
        return {}
    axes, points = stored["sensitivity"]["axes"], stored["sensitivity"]["points"]
    found = Sensitivity(axes, tuple(points))
    return found.slices(TraceParams(**stored["params"]))


def _facts(stored: Mapping[str, Any]) -> dict[str, str]:
    params = ", ".join(f"{k} {v}" for k, v in stored["params"].items())
    apart = ", ".join(f"{k} {v}" for k, v in stored.get("not_the_papers", {}).items())
    return {
        "embedder": str(stored["embedder"]),
        "parameters": params,
        "not the paper's": apart or "nothing",
        "bootstrap": f"{stored.get('resamples')} resamples of {stored.get('whole_videos')} "
        f"whole videos, seed {stored.get('seed')}",
        "left out or repaired": ", ".join(
            f"{n} {k.replace('_', ' ')}" for k, n in stored["counts"].items() if n
        ),
    }


def latency_of(run: Stored) -> Latency | None:
    """What `infer_stream.py` measured, where its `run.json` lies beside the predictions."""
    folders = {Path(str(p)).parent for p in run.json["predictions"]}
    return latency_in(folders.pop()) if len(folders) == 1 else None


def latency_in(folder: Path) -> Latency | None:
    """What the folder's `run.json` says of latencies, if it is one and does."""
    try:
        facts = read_object(folder / FACTS)
        steps = facts["step_latency"]
        curve = [(float(a), float(b), float(c)) for a, b, c in facts.get("latency_curve", ())]
        return Latency(
            int(facts["frames"]), float(steps["p50"]), float(steps["p95"]), float(steps["max"]),
            float(facts["real_time_factor"]), int(facts["dropped_frames"]), curve,
        )  # fmt: skip
    except (UserError, KeyError, TypeError, ValueError):
        return None
