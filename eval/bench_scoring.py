"""Scoring, beside the slow reference and beside an embedder that is asked clip by clip.

Input: made utterances. Output: rows in videos a second and texts a second.
Invariant: ours and the reference agree to 1e-9 on every score, the two ways of embedding to
1e-4 on every vector; no alignment row counts any embedding.
"""

import math
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from eval.bench_timing import Bench, Row, Seconds, Sides, rate_row, time_sides
from vlm_tsi.errors import UserError
from vlm_tsi.scoring.embed import SentenceEmbedder, find_embedder
from vlm_tsi.scoring.trace_score import SCORES, score
from vlm_tsi.timeline import Generated, Utterance

Span = tuple[float, float, str]
OPENERS = ("here comes", "look,", "now", "and", "that is", "over to")
NOUNS = (
    "Abel",
    "Bruno",
    "Cosmo",
    "Dario",
    "the keeper",
    "the winger",
    "the red lamp",
    "number nine",
)
ENDS = (
    "on the left",
    "at the top",
    "with the cross",
    "again",
    "in the centre now",
    "and it is out",
)


def made_spans(rng: np.random.Generator, count: int, seconds: float) -> list[Span]:
    """Utterances of a video: about two seconds each, anywhere."""
    starts = np.sort(rng.uniform(0, seconds, count))
    texts = [" ".join(map(str, map(rng.choice, (OPENERS, NOUNS, ENDS)))) for _ in range(count)]
    ends = starts + rng.uniform(0.5, 3.5, count)
    return list(zip(starts.tolist(), ends.tolist(), texts, strict=True))


def rows(bench: Bench) -> list[Row]:
    """All rows of the section."""
    rng = np.random.default_rng(0)
    long = 40 if bench.smoke else 400
    few, many = (5, 20) if bench.smoke else (100, 1000)
    clips = "clips of six utterances / slow reference"
    found = [
        _alignment(bench, f"{long} x {long} utterances / slow reference", rng, 1, long, 12.0),
        _alignment(bench, f"{many} {clips}", rng, many, 6, 2.5),
        _alignment(bench, f"{few} {clips}", rng, few, 6, None),
    ]
    return found + _embedding(bench, rng)


def _alignment(
    bench: Bench, name: str, rng: np.random.Generator, videos: int, count: int, target: float | None
) -> Row:
    seconds = 5.0 * count
    refs = {f"v{k}": made_spans(rng, count, seconds) for k in range(videos)}
    gens = {v: made_spans(rng, count, seconds) for v in refs}
    vectors = vectors_of({t for side in (refs, gens) for s in side.values() for *_, t in s}, rng)
    told = {v: [Utterance("assistant", t, a, b) for a, b, t in spans] for v, spans in refs.items()}
    said = {v: [Generated(v, a, b, t) for a, b, t in spans] for v, spans in gens.items()}
    slow = _reference()

    matrix, row_of = np.stack(list(vectors.values())), {t: i for i, t in enumerate(vectors)}

    def embed(texts: list[str]) -> np.ndarray:
        return matrix[[row_of[text] for text in texts]]

    def ours() -> Any:
        return score(told, said, embed).micro

    def alike(a: str, b: str) -> float:
        return 1.0 if a == b else float((1 + vectors[a] @ vectors[b]) / 2)

    def peer() -> Any:
        return slow.trace_reference(refs, gens, alike, align=slow.align_by_solver)

    _check_equal(ours(), peer())
    seconds_of = time_sides({"ours": ours, "reference": peer}, bench.rounds)
    return rate_row(name, "videos/s", seconds_of, "reference", videos, target)


def vectors_of(texts: set[str], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A unit vector for each text."""
    made = rng.standard_normal((len(texts), 64))
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return dict(zip(sorted(texts), made, strict=True))


def _reference() -> Any:
    try:
        return import_module("tests.reference.trace_reference")
    except ImportError as err:
        mend = "run this in the repository's folder, where tests/ is"
        raise UserError("scoring", "the slow reference is not here", mend) from err


def _check_equal(ours: Any, peer: Any) -> None:
    for name in SCORES:
        if not math.isclose(ours[name], peer[name], abs_tol=1e-9):
            raise AssertionError(f"{name}: {ours[name]} and {peer[name]}")


def _embedding(bench: Bench, rng: np.random.Generator) -> list[Row]:
    """One pass over the whole set, and a second run from the disk, beside clip by clip."""
    clips = [[t for *_, t in made_spans(rng, 6, 30)] for _ in range(3 if bench.smoke else 60)]
    every = [text for clip in clips for text in clip]
    try:
        plain = find_embedder()
    except UserError as err:
        bench.notes.append(f"embedding left out: {err}")
        return []
    cached = SentenceEmbedder(plain.source, cache=bench.folder / "cache", name=plain.name)
    one_by_one = _each_clip(plain, clips)
    gap = float(np.abs(one_by_one - plain(every)).max())
    assert gap < 1e-4, f"the vectors differ by {gap}"
    cached(every)
    sides: Sides = {
        "ours": partial(plain, every),
        "cached": partial(cached, every),
        "clips": partial(_each_clip, plain, clips),
    }
    timed = time_sides(sides, 3)
    distinct, count = len(set(every)), len(every)
    bench.notes.append(f"{plain.name}: {count} texts, {distinct} distinct, {len(clips)} clips")
    from_disk: Seconds = {"ours": timed["cached"], "clips": timed["clips"]}
    return [
        rate_row("embedding the whole set / clip by clip", "texts/s", timed, "clips", count, 2.0),
        rate_row("the same from the disk / clip by clip", "texts/s", from_disk, "clips", count),
    ]


def _each_clip(embedder: SentenceEmbedder, clips: Sequence[list[str]]) -> np.ndarray:
    """As a loop over clips does it: each text as often as it comes."""
    return np.concatenate([embedder.encode(clip) for clip in clips])
