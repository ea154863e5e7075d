"""Train and measure the play-by-play filter on hand-labelled halves.

Input: a folder with `<match>/{1,2}_224p.json` (each sentence has `is_pbp`), a sentence embedder.
Output: in DIR `classifier.json` and `.safetensors`, `metrics.json`, `report.json`,
`timelines.jsonl` (the labelled halves, scored where they tell the play), and `folds/`, from
which a stopped run goes on.
Invariant: no classifier is measured on a sentence whose label it, its features or its stopping
rule saw; the same labels and seed give the same bytes, with any number of workers.

    python -m data_prep.soccernet train-filter --labels LABELS --out filter
"""

import argparse
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.progress import track

from data_prep.common.options import Options, add_options, options_of
from data_prep.common.report import Tally, print_report, write_report
from data_prep.common.tasks import Task, digest, run_tasks
from data_prep.soccernet.halves import video_file
from data_prep.soccernet.pbp_data import (
    Half,
    Split,
    match_splits,
    random_split,
    read_halves,
)
from data_prep.soccernet.pbp_fit import Corpus, Recipes, fit
from data_prep.soccernet.pbp_model import CONFIG, WEIGHTS, EmbedderId, Kind, load, save
from data_prep.soccernet.pbp_report import Tested, all_metrics, print_result
from data_prep.soccernet.repair import utterance
from data_prep.soccernet.transcript import find_transcripts
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_object, writable_folder, write_json
from vlm_tsi.scoring.embed import PAPER_EMBEDDER, find_embedder
from vlm_tsi.timeline import Timeline, write_timelines

SEED = 42
EMBEDDER_HELP = "sentence embedder: a folder or a name; default: all-mpnet-base-v2 (paper)"
_AT_ONCE = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `train-filter`."""
    parser.add_argument("--labels", required=True, help="folder with <match>/{1,2}_224p.json")
    parser.add_argument("--out", required=True, help="folder for classifier, metrics and report")
    parser.add_argument(
        "--classifier",
        choices=get_args(Kind),
        default="context",
        help="context: reads both sides of a sentence (default, more accurate); lstm: the paper's",
    )
    parser.add_argument("--seed", type=int, default=SEED, help=f"default: {SEED}")
    parser.add_argument(
        "--against-paper",
        action="store_true",
        help="train the paper's lstm on each match left out as well, and tell the difference "
        "match by match (takes about three times as long)",
    )
    parser.add_argument("--embedder", help=EMBEDDER_HELP)
    parser.add_argument("--embed-cache", help="folder that keeps sentence vectors between runs")
    add_options(parser)
    parser.set_defaults(workers=2)


@dataclass(frozen=True, slots=True)
class Job:
    """One training: on which split, and where its classifier is to be kept (if anywhere)."""

    kind: Kind
    corpus: Corpus
    split: Split
    embedder: EmbedderId
    seed: int
    recipes: Recipes
    keep: Path | None


def run(args: argparse.Namespace, recipes: Recipes | None = None) -> int:
    """Train, measure, write.

    Args:
        args: parsed options of `add_arguments`.
        recipes: other sizes than the published ones (for tests).
    """
    options, recipes, began = options_of(args), recipes or Recipes(), time.monotonic()
    if args.seed < 0:
        raise UserError("--seed", f"is {args.seed}", "give 0 or more")
    halves, tally = read_halves(options.first(find_transcripts(args.labels)), args.labels)
    out = writable_folder(args.out)
    embedder = find_embedder(args.embedder, cache=args.embed_cache)
    vectors = embedded(embedder, [text for half in halves for text in half.texts])
    embedded_at, corpus = time.monotonic(), Corpus(tuple(halves), vectors)
    kinds = tuple(dict.fromkeys([args.classifier, *(["lstm"] if args.against_paper else [])]))
    trainings = Trainings(kinds, corpus, EmbedderId.of(embedder), args.seed, recipes)
    tested = trainings.run(out, options)
    result = all_metrics(args.classifier, corpus.labels, tested, args.seed)
    result["embedder"] = embedder.name
    _write(out, trainings, result, tally)
    print_report([tally], Console())
    print_result(result, Console())
    print(
        f"{out}: classifier, metrics.json, timelines.jsonl; report.json says what was read "
        f"(sentences embedded in {embedded_at - began:.0f} s, "
        f"trained in {time.monotonic() - embedded_at:.0f} s)"
    )
    if not embedder.is_papers:
        note = f"note: the embedder is {embedder.name}, not the paper's {PAPER_EMBEDDER}"
        print(f"{note}: expect other figures", file=sys.stderr)
    return 0


def embedded(embedder: Callable[[list[str]], np.ndarray], texts: list[str]) -> np.ndarray:
    """[N, D] embeddings; similar lengths together, with a progress bar."""
    unique = sorted(set(texts), key=lambda t: (len(t), t))
    slices = [unique[i : i + _AT_ONCE] for i in range(0, len(unique), _AT_ONCE)]
    bar = track(slices, "embedding sentences", console=Console(stderr=True))
    vectors = dict(zip(unique, np.concatenate([embedder(some) for some in bar]), strict=True))
    return np.stack([vectors[text] for text in texts]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Trainings:
    """All trainings of one command.

    Attributes:
        kinds: tested on each match left out; the first is the one that is kept.
        corpus: what they learn from.
        embedder: whose embeddings these are.
        seed: of splits and trainings.
        recipes: their sizes.
    """

    kinds: tuple[Kind, ...]
    corpus: Corpus
    embedder: EmbedderId
    seed: int
    recipes: Recipes

    @property
    def kind(self) -> Kind:
        """The one that is kept."""
        return self.kinds[0]

    @property
    def settings(self) -> dict[str, Any]:
        """What the results depend on."""
        return {
            "classifier": self.kind,
            "seed": self.seed,
            "embedder": self.embedder.name,
            "recipe": self.recipes.settings(self.kind),
            "labels": _digest(self.corpus.halves),
        }

    def run(self, out: Path, options: Options) -> dict[str, Tested]:
        """Train on every split, or read what an earlier run did; results by task."""
        tasks = self._tasks(out / "folds")
        for task in tasks:
            if task.payload.keep is not None and not _is_kept(task):
                task.path.unlink(missing_ok=True)
        key = {
            **self.settings,
            "recipes": [self.recipes.settings(k) for k in get_args(Kind)],
            "embedder": [self.embedder.name, self.embedder.fingerprint],
        }
        outcomes = run_tasks(tasks, fold_scores, options, key, title="training")
        tested = {}
        for task, outcome in zip(tasks, outcomes, strict=True):
            if outcome.result is None:
                raise UserError(task.name, outcome.problem, "mend it, then --resume")
            scores = np.array(outcome.result["scores"])
            tested[task.path.stem] = Tested(task.payload.kind, task.payload.split, scores)
        return tested

    def _tasks(self, folder: Path) -> list[Task]:
        count = len(self.corpus.labels)
        split = random_split(count, self.seed)
        jobs = [("lstm-random", "the paper's recipe, random split", self._job("lstm", split))]
        if self.kind == "context":
            everything = Split("all", np.arange(count), *np.zeros((2, 0), dtype=np.int64))
            jobs.append(("context-random", "random split", self._job("context", split)))
            jobs.append(("context-all", "all sentences", self._job("context", everything)))
        left_out = list(enumerate(match_splits(self.corpus.halves, self.seed)))
        for kind, (k, one) in itertools.product(self.kinds, left_out):
            jobs.append((f"{kind}-match{k}", f"{kind} without {one.name}", self._job(kind, one)))
        kept = folder / final_part(self.kind)
        tasks = [Task(title, folder / f"{name}.json", job) for name, title, job in jobs]
        return [
            Task(t.name, t.path, _keeping(t.payload, kept)) if t.path.stem == kept.name else t
            for t in tasks
        ]

    def _job(self, kind: Kind, split: Split) -> Job:
        return Job(kind, self.corpus, split, self.embedder, self.seed, self.recipes, None)


def final_part(kind: Kind) -> str:
    """The training whose classifier is saved: for the paper's recipe that of its split."""
    return "lstm-random" if kind == "lstm" else "context-all"


def _keeping(job: Job, folder: Path) -> Job:
    return Job(job.kind, job.corpus, job.split, job.embedder, job.seed, job.recipes, folder)


def fold_scores(job: Job) -> dict[str, Any]:
    """Train and score the test sentences: one task."""
    classifier = fit(job.kind, job.corpus, job.split, job.embedder, job.seed, job.recipes)
    scores = job.corpus.scores(classifier)[job.split.test]
    result: dict[str, Any] = {"scores": [round(float(s), 6) for s in scores]}
    if job.keep is not None:
        save(writable_folder(job.keep), classifier, {})
        result["kept"] = _kept(job.keep)
    return result


def _kept(folder: Path) -> list[str]:
    return [digest(folder / name) for name in (CONFIG, WEIGHTS)]


def _is_kept(task: Task) -> bool:
    """Whether the classifier beside a finished training is the one that it left."""
    try:
        return bool(read_object(task.path).get("kept") == _kept(task.payload.keep))
    except UserError:
        return False


def _digest(halves: Sequence[Half]) -> str:
    """A hash of what was labelled and how."""
    rows = [[h.name, *([s.text, s.start, s.end, s.is_pbp] for s in h.sentences)] for h in halves]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def _write(out: Path, trainings: Trainings, result: dict[str, Any], tally: Tally) -> None:
    classifier = load(out / "folds" / final_part(trainings.kind))
    temperature = result["calibration"]["temperature"]
    save(out, classifier.cooled(temperature), trainings.settings)
    write_json(out / "metrics.json", result)
    write_timelines(out / "timelines.jsonl", map(timeline_of, trainings.corpus.halves))
    write_report(out / "report.json", "train-filter", [tally], trainings.settings)


def timeline_of(half: Half) -> Timeline:
    """A labelled half as a timeline; play-by-play is what is scored."""
    turns = tuple(utterance(s, bool(s.is_pbp)) for s in half.sentences)
    duration = max((s.end for s in half.sentences), default=0.0)
    return Timeline(half.name, video_file(half.name), duration, turns)
