"""Mark each sentence of a transcript as play-by-play or not.

Input: a folder of transcripts, a classifier (`train-filter`), its sentence embedder.
Output: in DIR the same transcripts with `is_pbp` and `pbp_score` at each segment, and
`report.json` with the share that tells the play (the paper's: 39%).
Invariant: segments keep their order, times and words; a transcript whose status is not `ok`
passes through as it is; a half's marks depend on that half and the classifier alone. A segment
without words is not play-by-play, and is no context of others.

    python -m data_prep.soccernet filter --transcripts DIR --filter DIR --out DIR
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.common.annotations import words
from data_prep.common.options import add_options, options_of
from data_prep.common.report import Tally, print_report, write_report
from data_prep.common.tasks import Outcome, Task, digest, run_tasks, set_aside_leftovers
from data_prep.soccernet.halves import match_of
from data_prep.soccernet.pbp_data import Half
from data_prep.soccernet.pbp_model import CONFIG, WEIGHTS, Classifier, EmbedderId, load
from data_prep.soccernet.pbp_train import EMBEDDER_HELP
from data_prep.soccernet.transcript import (
    UNUSABLE,
    Segment,
    Transcript,
    find_transcripts,
    read_transcript,
    to_dict,
    transcript_path,
)
from vlm_tsi.errors import UserError
from vlm_tsi.files import writable_folder
from vlm_tsi.scoring.embed import SentenceEmbedder, find_embedder

PAPERS_SHARE = 0.39
"""58,031 play-by-play utterances of 148,533 (paper, Section 4.1.1)."""
UNREADABLE = "cannot be read"
WORDLESS = "without words: not play-by-play"
OTHER = "other commentary"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `filter`."""
    parser.add_argument("--transcripts", required=True, metavar="DIR", help="what to mark")
    parser.add_argument(
        "--filter", "--model", dest="filter", required=True, metavar="DIR",
        help="the classifier that train-filter left",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR", help="for the marked transcripts")
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        metavar="P",
        help="play-by-play from this probability on (default: 0.5); metrics.json of "
        "train-filter says what others give",
    )
    parser.add_argument("--embedder", help=EMBEDDER_HELP)
    add_options(parser)


@dataclass(frozen=True, slots=True)
class Marker:
    """Reads and marks one transcript: (half, path) -> JSON object.

    Attributes:
        filter: the classifier's folder.
        embedder: which embedder the user named, if any.
        threshold: play-by-play from this probability on.
    """

    filter: str
    embedder: str | None
    threshold: float

    def __call__(self, job: tuple[str, str]) -> dict[str, Any]:
        """Raises UserError where the transcript cannot be read."""
        half, path = job
        unread: list[str] = []
        transcript = read_transcript(path, half, unread)
        if transcript.status == "ok":
            classifier, embedder = _loaded(self.filter, self.embedder)
            marked = mark(transcript, classifier, embedder, self.threshold)
            transcript = replace(transcript, segments=marked)
        return {**to_dict(transcript), **({"unread": unread} if unread else {})}


@lru_cache(maxsize=1)
def _loaded(folder: str, named: str | None) -> tuple[Classifier, SentenceEmbedder]:
    """Once a process."""
    import torch

    torch.set_num_threads(1)  # the last digits of a sum depend on the number of threads
    return load(folder), find_embedder(named)


def mark(
    transcript: Transcript, classifier: Classifier, embedder: Any, threshold: float
) -> tuple[Segment, ...]:
    """The segments in their order, each with `is_pbp` and `pbp_score` (six digits)."""
    segments = transcript.segments
    spoken = [i for i, s in enumerate(segments) if any(map(str.isalnum, s.text))]
    order = sorted(spoken, key=lambda i: segments[i].start)
    tidy = tuple(replace(segments[i], text=words(segments[i].text).text) for i in order)
    half = Half(transcript.half, match_of(transcript.half), tidy)
    scores = np.zeros(len(segments))
    if order:
        scores[order] = np.round(classifier.scores(half, embedder(half.texts)), 6)
    return tuple(
        replace(s, is_pbp=bool(score >= threshold), pbp_score=float(score))
        for s, score in zip(segments, scores, strict=True)
    )


def run(args: argparse.Namespace) -> int:
    """Mark, count, report."""
    options = options_of(args)
    check_options(args)
    found = find_transcripts(args.transcripts)
    transcripts = options.first(found)
    classifier = load(args.filter)
    check_embedder(classifier, find_embedder(args.embedder), args.filter)
    if Path(args.out).resolve().is_relative_to(Path(args.transcripts).resolve()):
        raise UserError("--out", "lies in the transcripts' folder", "choose one beside it")
    out = writable_folder(args.out)
    marker = Marker(args.filter, args.embedder, args.threshold)
    tasks = [
        Task(half, transcript_path(out, half), (half, str(p)), digest(p)) for half, p in transcripts
    ]
    settings = {
        "classifier": [digest(Path(args.filter) / name) for name in (CONFIG, WEIGHTS)],
        "threshold": args.threshold,
    }
    outcomes = run_tasks(tasks, marker, options, settings, title="marking")
    files, segments, marks = counted(outcomes)
    inputs = [transcript_path(out, half) for half, _ in found]
    set_aside_leftovers(out, inputs, [task.path for task in tasks], files)
    shown = {"classifier": classifier.kind, "threshold": args.threshold}
    write_report(out / "report.json", "filter", [segments, marks, files], shown)
    print_report([files, segments, marks])
    share = 100 * marks.kept / marks.read if marks.read else 0.0
    print(
        f"{out}: {files.kept} transcripts, {share:.1f}% of {marks.read:,} sentences play-by-play "
        f"(the paper: {100 * PAPERS_SHARE:.0f}%); report.json says what was left out"
    )
    if not files.kept:
        raise UserError(args.transcripts, "no transcript could be read", "see report.json")
    return 0


def check_options(args: argparse.Namespace) -> None:
    """Raise UserError for an option out of range."""
    if not 0 < args.threshold <= 1:
        raise UserError("--threshold", f"is {args.threshold}", "give a probability above 0")


def check_embedder(classifier: Classifier, embedder: SentenceEmbedder, folder: str) -> None:
    """Refuse an embedder whose vectors the classifier was not trained on."""
    trained, found = classifier.embedder, EmbedderId.of(embedder)
    if trained.fingerprint != found.fingerprint:
        same = " (of other weights)" if trained.name == found.name else ""
        problem = f"was trained with {trained.name}, not with {found.name}{same}"
        raise UserError(folder, problem, f"name that one: --embedder {trained.name}")


def counted(outcomes: Sequence[Outcome]) -> tuple[Tally, Tally, Tally]:
    """Transcripts, segments, and what the sentences were marked as (kept: play-by-play)."""
    files, segments, marks = Tally("file"), Tally("segment"), Tally("sentence")
    for outcome in outcomes:
        if outcome.result is None:
            files.drop(UNREADABLE)
            files.examples.setdefault(UNREADABLE, []).append(
                outcome.problem.replace(str(outcome.task.payload[1]), outcome.task.name)
            )
            continue
        files.keep()
        status = outcome.result["status"]
        if status != "ok":
            files.note(f"{status.replace('_', ' ')}: passed through", outcome.task.name)
        for line in outcome.result.get("unread", []):
            segments.drop(UNUSABLE, f"{outcome.task.name}: {line}")
        for segment in outcome.result["segments"]:
            segments.keep()
            _count(segment, status, segments, marks)
    return files, segments, marks


def _count(segment: dict[str, Any], status: str, segments: Tally, marks: Tally) -> None:
    if status != "ok":
        segments.note("of a transcript that passed through")
    elif not any(map(str.isalnum, segment["text"])):
        segments.note(WORDLESS)
    elif segment["is_pbp"]:
        marks.keep()
    else:
        marks.drop(OTHER)
