"""A whole test set of SoccerNet's size through the scoring command.

Input: made datapoints (as many, and as many utterances each, as the paper's Table 1 says), and a
cache with a vector for each text. Output: seconds and memory beside the budget; where the time
goes. Invariant: the command is run as users run it, in a process of its own, from files to a file.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench_timing import Bench, Row
from vlm_tsi.published import read_predictions, read_references
from vlm_tsi.scoring.embed import SentenceEmbedder
from vlm_tsi.scoring.failures import FailureRules, find_failures
from vlm_tsi.scoring.groups import intervals
from vlm_tsi.scoring.trace_score import group_by_video, references_of, score
from vlm_tsi.scoring.whole_videos import source_of
from vlm_tsi.timeline import Generated, Timeline, Utterance, write_generated, write_timelines

DATAPOINTS, UTTERANCES, HALVES = 16_487, 5.67, 1_000
"""Table 1, and about as many halves as SoccerNet has."""
SECONDS, GIGABYTES = 60.0, 2.0
WIDTH = 768
WORDS = ("pass", "to", "the", "left", "corner", "again", "shot", "saved", "out", "by", "header")


class MadeEmbedder(SentenceEmbedder):
    """Fills a cache with random unit vectors, as wide as the paper's embedder's."""

    def encode(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of shape (texts, width), the same for as many texts."""
        made = np.random.default_rng(len(texts)).standard_normal((len(texts), WIDTH))
        unit: np.ndarray = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
        return unit


def rows(bench: Bench) -> list[Row]:
    """Time and memory beside their budgets."""
    count = 60 if bench.smoke else DATAPOINTS
    ref, pred, folder, cache = (bench.folder / n for n in ("r.jsonl", "p.jsonl", "model", "cache"))
    timelines, said = make(count)
    write_timelines(ref, timelines)
    write_generated(pred, said)
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    texts = {u.text for t in timelines for u in t.utterances} | {g.text for g in said}
    MadeEmbedder(folder, cache=cache)(sorted(texts))
    command = [
        sys.executable, "-m", "eval.tglg", "--ref", str(ref), "--pred", str(pred),
        "--out", str(bench.folder / "s.json"),
        "--embedder", str(folder), "--embed-cache", str(cache),
    ]  # fmt: skip
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    bench.notes.append(
        f"{count:,} datapoints, {len(said):,} generated, {len(texts):,} distinct texts; peer: the "
        "budget"
    )
    bench.notes.extend(_stages(ref, pred, SentenceEmbedder(folder, cache=cache)))
    return [
        _budget("eval.tglg, embeddings cached: time", seconds, SECONDS, "s"),
        _budget("eval.tglg, embeddings cached: memory", memory, GIGABYTES, "GiB"),
    ]


def _budget(name: str, ours: float, budget: float, unit: str) -> Row:
    return Row(name, ours, budget, ours, budget, unit, budget / ours, 1.0)


def make(count: int) -> tuple[list[Timeline], list[Generated]]:
    """Datapoints of many halves, and what a system says that is right four times in five."""
    rng = np.random.default_rng(0)
    timelines, said = [], []
    for k in range(count):
        half = k % HALVES
        video_id = f"league/season/match-{half // 2}/{half % 2 + 1}_224p#{k // HALVES}"
        refs = list(_utterances(rng, 1 + rng.poisson(UTTERANCES - 1)))
        meta = {"source": video_id.rpartition("#")[0]}
        timelines.append(Timeline(video_id, "", refs[-1].end + 1, tuple(refs), meta=meta))
        for ref in refs:
            if rng.random() < 0.8:
                start = ref.start + float(rng.uniform(0, 1.5))
                text = ref.text if rng.random() < 0.3 else _text(rng)
                said.append(Generated(video_id, start, start + 1.5, text))
    return timelines, said


def _utterances(rng: np.random.Generator, count: int) -> Iterator[Utterance]:
    clock = float(rng.uniform(0, 2))
    for _ in range(count):
        end = clock + float(rng.uniform(0.5, 4))
        yield Utterance("assistant", _text(rng), clock, end, eval=True)
        clock = end + float(rng.exponential(1.1))


def _text(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(2, 7)))


def _stages(ref: Path, pred: Path, embedder: SentenceEmbedder) -> list[str]:
    """Where the time goes, stage by stage, in this process."""
    told: list[str] = []

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        told.append(f"{name} {time.perf_counter() - began:.1f} s")
        return result

    timelines = timed("reading references", lambda: read_references(ref))
    said = timed("reading predictions", lambda: read_predictions(pred))
    references, generated = references_of(timelines), group_by_video(said)
    known: dict[str, np.ndarray] = {}

    def embed() -> None:
        texts = sorted({u.text for us in references.values() for u in us} | {g.text for g in said})
        known.update(zip(texts, embedder(texts), strict=True))

    timed("vectors from the disk", embed)
    result = timed(
        "aligning and scoring",
        lambda: score(references, generated, lambda texts: np.stack([known[t] for t in texts])),
    )
    videos = source_of(timelines)
    for pool in ("micro", "macro"):
        timed(f"bootstrap, {pool}", lambda p=pool: intervals(result, pool=p, videos=videos))  # type: ignore[misc]
    timed("failure kinds", lambda: find_failures(result, references, generated, FailureRules()))
    return [", ".join(told)]
