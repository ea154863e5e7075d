"""The demo's last step: scores, intervals, report.

Input: what both schemes said on the held-out clips. Output: `result.json`, `report.html`,
`timeline.png`, and the Table 2 columns on the terminal.
Invariant: every number in them comes from the files of this run.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from data_prep.worlds import WORLDS as WORLD_OBJECTS
from eval.demo_plan import CAPABILITY, SCHEMES, WORLDS, Preset
from eval.demo_steps import Steps
from eval.demo_stream import Job, Place, spoken_by_video, test_jobs
from eval.making import versions
from eval.picture import timeline_png
from eval.report_data import COLUMNS, LABELS, Interval, Report, Sweep, System, VideoView
from eval.report_page import write_report
from eval.report_runs import latency_in, outcomes_of
from eval.score_details import failure_values
from vlm_tsi.files import read_json, read_jsonl, write_json
from vlm_tsi.scoring.content import content_accuracy
from vlm_tsi.scoring.embed import SentenceEmbedder, find_embedder
from vlm_tsi.scoring.failures import find_failures
from vlm_tsi.scoring.groups import by_kind, compare, intervals
from vlm_tsi.scoring.trace_score import TraceResult, references_of, score
from vlm_tsi.streaming.protocol import evaluation_window
from vlm_tsi.timeline import Timeline, read_timelines

PAPERS_EMBEDDER = "all-mpnet-base-v2"


class Scored:
    """Both schemes on one world's held-out clips."""

    def __init__(self, world: str, jobs: dict[tuple[str, str], Job], embed: Any) -> None:
        self.world = world
        self.datapoints = read_timelines(jobs[world, "tsi"].datapoints)
        self.folder = Path(jobs[world, "tsi"].datapoints).parent
        self.references = references_of(self.datapoints)
        self.spoken = {s: spoken_by_video(jobs[world, s]) for s in SCHEMES}
        self.results: dict[str, TraceResult] = {
            s: score(self.references, self.spoken[s], embed) for s in SCHEMES
        }

    def scores(self, scheme: str) -> dict[str, float]:
        """Micro percentages and content accuracy."""
        result = self.results[scheme]
        words = WORLD_OBJECTS[self.world].content_words
        content = content_accuracy(result.pairs, words)
        slots = {f"content_{slot}": part.f1 for slot, part in content.slots.items()}
        values = {**result.micro, "content_accuracy": content.f1, **slots}
        return {name: round(v, 4) for name, v in values.items() if v is not None}

    def differences(self) -> dict[str, Interval]:
        """TSI less turn-based, with 95% intervals over clips."""
        found = compare(self.results["tsi"], self.results["turn_based"]).differences
        return {name: Interval(d.value, d.low, d.high) for name, d in found.items()}

    def kinds(self) -> dict[str, dict[str, dict[str, float]]]:
        """Kind -> scheme -> scores."""
        split = {s: by_kind(self.results[s], self.references) for s in SCHEMES}
        return {kind: {s: split[s][kind] for s in SCHEMES} for kind in split["tsi"]}

    def systems(self, jobs: dict[tuple[str, str], Job]) -> dict[str, System]:
        """What the page shows of each scheme beside its scores."""
        return {s: self.system(s, Path(jobs[self.world, s].out).parent) for s in SCHEMES}

    def system(self, scheme: str, folder: Path) -> System:
        """One scheme; its latencies are in its folder."""
        result = self.results[scheme]
        failures = find_failures(result, self.references, self.spoken[scheme])
        found = failure_values(result, failures)
        scores = {n: Interval(x.value, x.low, x.high) for n, x in intervals(result).items()}
        sizes = (
            [s.n_ref for s in result.per_video.values()],
            [s.n_gen for s in result.per_video.values()],
        )
        counts = {"references": sum(sizes[0]), "generated": sum(sizes[1])}
        return System(
            scores, result.video_scores(), outcomes_of(found), found["failures"]["rules"],
            failures.counts, counts, latency_in(folder),
        )  # fmt: skip

    def views(self, count: int) -> list[VideoView]:
        """Timeline pictures of the first clips."""
        return [self.view(t) for t in self.datapoints[:count]]

    def view(self, timeline: Timeline) -> VideoView:
        """The picture of one clip: scored turns and what each scheme said."""
        pairs = {
            s: [(p.ref_idx, p.gen_idx) for p in r.pairs if p.video_id == timeline.video_id]
            for s, r in self.results.items()
        }
        return VideoView(
            video_id=timeline.video_id,
            video_path=str(self.folder / timeline.video_path),
            duration=timeline.duration,
            reference=self.references[timeline.video_id],
            lanes={s: self.spoken[s].get(timeline.video_id, []) for s in SCHEMES},
            pairs=pairs,
            window=evaluation_window(timeline),
            title=f"{LABELS[self.world]}: {timeline.video_id}",
        )


def finish(
    steps: Steps,
    place: Place,
    preset: Preset,
    preset_name: str,
    seed: int,
    seeds: Mapping[str, Mapping[str, Any]],
) -> None:
    """Score, write `result.json` and the report, print the table.

    `seeds`: what other training seeds gave (seed -> world -> scheme or `difference` -> values),
    shown beside this run's own.
    """
    out = place.out
    embed = find_embedder(cache=out / "embeddings")
    jobs = test_jobs(place, read_json(out / "thresholds.json")["chosen"])
    began = time.monotonic()
    scored = {world: Scored(world, jobs, embed) for world in WORLDS}
    steps.seconds["scoring"] = round(time.monotonic() - began, 1)
    result = result_json(steps, scored, embed, out, preset_name, seed)
    result |= {"seeds": dict(seeds)} if seeds else {}
    write_json(out / "result.json", result)
    run = demo_run(steps, jobs, scored, embed, out, preset, result)
    notes = write_report(out / "report.html", run)
    timeline_png(out / "timeline.png", scored["signals"].views(1)[0])
    print_table(result, embed)
    for note in notes:
        print(f"note: {note}")
    print(f"{out / 'result.json'}  {out / 'report.html'}  {out / 'timeline.png'}")


def result_json(
    steps: Steps,
    scored: dict[str, Scored],
    embed: SentenceEmbedder,
    out: Path,
    preset: str,
    seed: int,
) -> dict[str, Any]:
    """All numbers of the run."""
    return {
        **{w: {scheme: s.scores(scheme) for scheme in SCHEMES} for w, s in scored.items()},
        "difference": {
            w: {n: asdict(d) for n, d in s.differences().items()} for w, s in scored.items()
        },
        "by_kind": {w: s.kinds() for w, s in scored.items()},
        "clips": {w: len({t.video_path for t in s.datapoints}) for w, s in scored.items()},
        "datapoints": {w: len(s.datapoints) for w, s in scored.items()},
        "thresholds": read_json(out / "thresholds.json"),
        "embedder": embed.name,
        "preset": preset,
        "seed": seed,
        "seconds": round(sum(steps.seconds.values()), 1),
        "seconds_by_step": steps.seconds,
    }


def demo_run(
    steps: Steps,
    jobs: dict[tuple[str, str], Job],
    scored: dict[str, Scored],
    embed: SentenceEmbedder,
    out: Path,
    preset: Preset,
    result: dict[str, Any],
) -> Report:
    """The report's values."""
    sweep = result["thresholds"]
    return Report(
        scores={w: result[w] for w in WORLDS},
        differences={w: s.differences() for w, s in scored.items()},
        by_kind=result["by_kind"],
        sweeps={
            w: Sweep([(float(t), v) for t, v in sweep["sweep"][w].items()], sweep["chosen"][w])
            for w in WORLDS
        },
        videos=[v for s in scored.values() for v in s.views(preset.pictures)],
        curves={"Training loss": curves(out)},
        commands=steps.commands,
        versions=versions(),
        systems={w: s.systems(jobs) for w, s in scored.items()},
        seconds=steps.seconds,
        embedder=embed.name,
        notes=notes(scored, embed),
        seeds=seeds_of(result),
    )


def seeds_of(result: dict[str, Any]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Seed -> world -> scheme -> scores, where several seeds were run."""
    seeds = result.get("seeds", {})
    return {k: {w: {s: r[w][s] for s in SCHEMES} for w in WORLDS} for k, r in seeds.items()}


def notes(scored: dict[str, Scored], embed: SentenceEmbedder) -> list[str]:
    """What a reader must know beside the table."""
    clips = ", ".join(f"{len(s.datapoints)} {w} datapoints" for w, s in scored.items())
    found = [f"Held-out: {clips}; rendered from seeds that no training or validation clip has."]
    if not embed.is_papers:
        found.append(f"Scored with {embed.name}, not with the paper's {PAPERS_EMBEDDER}.")
    return found


def curves(out: Path) -> dict[str, list[tuple[float, float]]]:
    """Training loss by step, for each stage."""
    found = {}
    for stage in ("captions", "base", *SCHEMES):
        log = out / stage / "log.jsonl"
        if log.is_file():
            found[LABELS.get(stage, stage)] = [(r["step"], r["loss"]) for _, r in read_jsonl(log)]
    return found


def print_table(result: dict[str, Any], embed: SentenceEmbedder) -> None:
    """Table 2's columns, both capabilities."""
    title = f"TGLG, held-out clips (percent; embedder {embed.name})"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("Capability")
    table.add_column("Model")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for world in WORLDS:
        for scheme in SCHEMES:
            row = [f"{result[world][scheme].get(name, 0.0):.1f}" for name in COLUMNS]
            table.add_row(CAPABILITY[world], LABELS[scheme], *row)
    Console(width=130).print(table)
    for world in WORLDS:
        gap = result["difference"][world]["trace"]
        span = f"95% interval {gap['low']:+.1f} to {gap['high']:+.1f}"
        print(f"{world}: TSI less turn-based {gap['value']:+.1f} TRACE ({span})")
