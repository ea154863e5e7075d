"""Import the public ASR release as transcripts and timelines.

Input: a folder with `<version>/<league>/<season>/<match>/{1,2}_asr.json`, at any depth.
Output: in DIR `transcripts/<the same folders>/{1,2}_224p.json` (for the filter),
`timelines.jsonl` (every half that is kept; nothing scored yet) and `report.json`.
Invariant: segments keep the file's order until they are sorted by time; each one is kept or
dropped with a reason; a file that cannot be read is a line of the report.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.common.folders import visible_files
from data_prep.common.options import Options, add_options, options_of, output_folder
from data_prep.common.report import Tally, print_report, write_report
from data_prep.common.tasks import Outcome, Task, digest, run_tasks, set_aside_leftovers
from data_prep.soccernet import language
from data_prep.soccernet.echo_file import read_echo
from data_prep.soccernet.halves import video_file
from data_prep.soccernet.loops import repeats
from data_prep.soccernet.repair import Draft, mend, place, tidy, utterance
from data_prep.soccernet.transcript import Transcript, read_transcript, to_dict, transcript_path
from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Timeline, write_timelines

LOOP = "repeats the text before (loop)"
ROUND = "repeats a round of {} texts (loop)"
OTHER = "in a file of another language"
UNTOLD = "in a file of too little text to tell its language"
NO_SEGMENTS = "no segments"
NOTHING_LEFT = "no segment could be kept"
UNREADABLE = "cannot be read"
TRANSCRIPTS = "transcripts"
FORM = 2
"""Of what a transcript's counts hold: another one is made again."""

_NAMES = {"1_asr.json", "2_asr.json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `import-echoes`."""
    parser.add_argument("--echoes", required=True, metavar="DIR", help="the release's folder")
    parser.add_argument("--out", required=True, metavar="DIR", help="made if it is not there")
    parser.add_argument(
        "--languages",
        nargs="+",
        default=["en"],
        metavar="CODE",
        help="keep the files of these languages (default: en); it is told from the text, since "
        "neither league nor version says it",
    )
    add_options(parser)


@dataclass(frozen=True, slots=True)
class Importer:
    """Reads one file: (half, path) -> its transcript's JSON, with what was counted."""

    languages: tuple[str, ...]

    def __call__(self, job: tuple[str, str]) -> dict[str, Any]:
        """Raises UserError where the file cannot be read."""
        half, path = job
        segments, halves = Tally("segment"), Tally("file")
        transcript = self._read(half, path, segments, halves)
        counts = [segments.to_dict(), halves.to_dict()]
        return {**to_dict(transcript), "counts": counts}

    def _read(self, half: str, path: str, segments: Tally, files: Tally) -> Transcript:
        raw = read_echo(path, half, segments)
        kept = collapsed(tidy(raw, half, segments), half, segments)
        if not kept:
            files.drop(NOTHING_LEFT if raw or segments.read else NO_SEGMENTS, half)
            return Transcript(half, "no_speech")
        found = language.detect(d.segment.text for d in kept)
        if found is None or found.language not in self.languages:
            return self._left_out(half, kept, found, segments, files)
        files.keep()
        files.note(f"language {found.language}")
        return Transcript(
            half, "ok", found.language, found.share, None, tuple(mend(kept, half, segments))
        )

    @staticmethod
    def _left_out(
        half: str,
        kept: list[Draft],
        found: language.Detected | None,
        segments: Tally,
        files: Tally,
    ) -> Transcript:
        for draft in kept:
            segments.drop(UNTOLD if found is None else OTHER, place(half, draft.segment))
        if found is None:
            files.drop("too little text to tell its language", half)
            return Transcript(half, "no_speech")
        files.drop(f"other language: {found.language}", half)
        files.note(f"language {found.language}")
        return Transcript(half, "other_language", found.language, found.share)


def collapsed(drafts: list[Draft], half: str, tally: Tally) -> list[Draft]:
    """Loops cut to their first round, which keeps its own end: what follows was not heard."""
    kept = []
    for draft, period in zip(drafts, repeats([d.segment.text for d in drafts]), strict=True):
        if period:
            reason = LOOP if period == 1 else ROUND.format(period)
            tally.drop(reason, place(half, draft.segment))
        else:
            kept.append(draft)
    return kept


def echo_files(root: str | Path) -> list[tuple[str, Path]]:
    """(half, file) of the release, by half; links to folders are followed.

    Raises:
        UserError: no such folder, or no such file in it.
    """
    top = Path(root)
    if not top.is_dir():
        raise UserError(top, "no such folder", "name the folder of the ASR release")
    found = [
        ((p.parent.relative_to(top) / f"{p.name[0]}_224p").as_posix(), p)
        for p in visible_files(top)
        if p.name in _NAMES
    ]
    if not found:
        mend = "give a folder with <league>/<season>/<match>/{1,2}_asr.json"
        raise UserError(top, "no file of the ASR release in it", mend)
    return sorted(found)


def run(args: argparse.Namespace) -> int:
    """Import, write, report."""
    options = options_of(args)
    language.need_detector()
    language.need_codes(args.languages)
    found = echo_files(args.echoes)
    jobs = options.first(found)
    out = output_folder(args.out, args.echoes)
    outcomes = _import(jobs, out, tuple(args.languages), options)
    tallies = _count(outcomes)
    inputs = [transcript_path(out / TRANSCRIPTS, half) for half, _ in found]
    set_aside_leftovers(out / TRANSCRIPTS, inputs, [o.task.path for o in outcomes], tallies[1])
    timelines = list(_timelines(outcomes))
    count = write_timelines(out / "timelines.jsonl", timelines) if timelines else 0
    settings = {"languages": list(args.languages), "limit": options.limit}
    write_report(out / "report.json", "import-echoes", tallies, settings)
    print_report(tallies)
    print(f"{out}: {count} timelines of {len(jobs)} files, {tallies[0].kept:,} utterances; "
          "report.json says what was left out")  # fmt: skip
    if not count:
        raise UserError(args.echoes, "no file could be kept", "see report.json")
    return 0


def _import(
    jobs: list[tuple[str, Path]], out: Path, languages: tuple[str, ...], options: Options
) -> list[Outcome]:
    tasks = [
        Task(half, transcript_path(out / TRANSCRIPTS, half), (half, str(path)), digest(path))
        for half, path in jobs
    ]
    settings = {"step": "import-echoes", "form": FORM, "languages": languages}
    return run_tasks(tasks, Importer(languages), options, settings, title="importing")


def _count(outcomes: list[Outcome]) -> list[Tally]:
    segments, files = Tally("segment"), Tally("file")
    for outcome in outcomes:
        if outcome.result is None:
            files.drop(UNREADABLE)
            # each such file is named, not the first few: there is a mend for each
            problem = outcome.problem.replace(str(outcome.task.payload[1]), outcome.task.name)
            files.examples.setdefault(UNREADABLE, []).append(problem)
            continue
        for tally, record in zip((segments, files), outcome.result["counts"], strict=True):
            tally.add(Tally.from_dict(record))
    return [segments, files]


def _timelines(outcomes: list[Outcome]) -> Iterator[Timeline]:
    for outcome in outcomes:
        if outcome.result is None or outcome.result["status"] != "ok":
            continue
        transcript = read_transcript(outcome.task.path, outcome.task.name)
        turns = tuple(utterance(s, False) for s in transcript.segments)
        end = max(u.end for u in turns)
        name = video_file(transcript.half)
        yield Timeline(transcript.half, name, end, turns, meta={"language": transcript.language})
