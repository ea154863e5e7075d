"""Results of a run as files and as lines for the user.

Input: a `LiveResult`, or the results of a file of datapoints. Output: `utterances.jsonl`,
`run.json`, and for one video `<stem>.srt` and `<stem>.vtt`. Invariant: each file appears
whole or not at all; whatever went wrong is in `run.json` and on stderr.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vlm_tsi.files import write_json, write_text
from vlm_tsi.streaming.batch import Streamed
from vlm_tsi.streaming.clock import LatencyLog
from vlm_tsi.streaming.live import LiveResult, latency_at
from vlm_tsi.streaming.settings import StreamSettings
from vlm_tsi.streaming.spool import FACTS, SPOKEN
from vlm_tsi.streaming.subtitles import to_srt, to_vtt
from vlm_tsi.timeline import write_generated


def write_live(folder: Path, result: LiveResult, about: dict[str, Any]) -> list[Path]:
    """Write all of one stream; returns the files."""
    recorder = result.recorder
    name = recorder.video_id
    paths = [folder / n for n in (SPOKEN, f"{name}.srt", f"{name}.vtt", FACTS)]
    write_json(paths[3], {**about, **_live_facts(result)})  # first: it says whose the others are
    write_generated(paths[0], recorder.finished)
    write_text(paths[1], to_srt(recorder.finished))
    write_text(paths[2], to_vtt(recorder.finished))
    return paths


def _live_facts(result: LiveResult) -> dict[str, Any]:
    at = latency_at(result.log.durations)
    return {
        "utterances": len(result.recorder.finished),
        "empty_utterances": result.recorder.empty,
        "seconds": round(result.seconds, 3),
        "positions": result.positions,
        **latency_facts(result.log, result.seconds),
        "step_latency_at": {str(n): round(t, 6) for n, t in at.items()},
        "user_turns": [{"time": round(t, 3), "text": text} for t, text in result.heard],
        "interrupted": bool(result.stopped_by),
        "broken": str(result.broken) if result.broken else None,
        "warnings": result.warnings,
    }


def latency_facts(log: LatencyLog, video_seconds: float) -> dict[str, Any]:
    """Frames, seconds a step (the curve: of each stretch), real-time factor and drops."""
    summary = log.summary(video_seconds)
    return {
        "frames": summary.steps,
        "dropped_frames": summary.dropped,
        "left_the_window": log.evicted,
        "step_latency": {
            "p50": round(summary.p50, 6), "p95": round(summary.p95, 6), "max": round(summary.max, 6)
        },
        "latency_curve": [[n, round(p50, 6), round(top, 6)] for n, p50, top in log.curve()],
        "real_time_factor": round(summary.real_time_factor, 4),
    }  # fmt: skip


def live_lines(result: LiveResult) -> list[str]:
    """How fast it went, step latencies on the way, and what was wrong with the video."""
    lines = [str(result.log.summary(result.seconds))]
    at = latency_at(result.log.durations)
    if len(at) > 1:
        steps = ", ".join(f"{n}: {t * 1e3:.1f} ms" for n, t in at.items())
        lines.append(f"step latency (median) around frame {steps}")
    return lines + [f"warning: {w}" for w in result.warnings]


def write_batch(
    folder: Path, done: Sequence[Streamed], about: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """Write what all datapoints said, and `run.json`; returns the latter."""
    failed = [d for d in done if d.error is not None]
    steps = LatencyLog([t for d in done for t in d.steps], evicted=_sums(d.evicted for d in done))
    spoken = [u for d in done for u in d.utterances]
    facts = {
        **about,
        "datapoints": len(done),
        "streamed": len(done) - len(failed),
        "failed": [{"video_id": d.video_id, "error": d.error} for d in failed],
        "utterances": len(spoken),
        "seconds": round(sum(d.window for d in done), 3),
        "encoding_seconds": round(sum(d.encoding for d in done), 3),
        "wall_seconds": round(seconds, 3),
        **latency_facts(steps, sum(d.window for d in done)),
        "warnings": list(dict.fromkeys(w for d in done for w in d.warnings)),
    }
    write_json(folder / FACTS, facts)  # first: it says whose the other is
    write_generated(folder / SPOKEN, spoken)
    return facts


def _sums(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def batch_lines(facts: dict[str, Any]) -> list[str]:
    """How many streamed, and what did not."""
    lines = [
        f"{facts['streamed']} of {facts['datapoints']} datapoints, {facts['utterances']} utterances"
    ]
    if facts["failed"]:
        first = facts["failed"][0]["error"]
        lines.append(f"warning: {len(facts['failed'])} could not be streamed, the first: {first}")
    return lines + [f"warning: {w}" for w in facts["warnings"]]


def settings_facts(settings: StreamSettings) -> dict[str, Any]:
    """For `run.json`."""
    return asdict(settings)
