"""Halves of matches to transcripts with word times.

Input: `<league>/<season>/<match>/{1,2}_224p.mkv` under a root. Output: in DIR a transcript for
each half at the same place (`transcript.py` says its form), and `report.json`.
Invariant: word times are on the half's own clock (PTS less the first video frame's); a half
without sound, without speech or in another language is a result (`status`), a half that cannot
be read is a line of the report, and neither stops the run; processes that share the output
folder do no half twice; what comes out does not depend on their number.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.asr.audio import Sound, load_sound
from data_prep.asr.base import RATE, AsrSettings, Heard, HeardWord, NotLoaded
from data_prep.asr.load import load_transcriber
from data_prep.asr.options import add_asr_options, asr_settings
from data_prep.asr.sentences import sentences_of, speaker_of
from data_prep.common.folders import visible_files
from data_prep.common.options import Options, add_options, options_of, output_folder
from data_prep.common.report import Tally, print_report, write_report
from data_prep.common.tasks import Outcome, Task, run_tasks, set_aside_leftovers
from data_prep.soccernet.halves import SUFFIXES, need_whole_name
from data_prep.soccernet.loops import repeats
from data_prep.soccernet.transcript import Segment, Status, Transcript, to_dict, transcript_path
from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Word
from vlm_tsi.video.features import content_key
from vlm_tsi.video.reader import probe

UNREADABLE = "cannot be read"
DAMAGED = "sound is damaged: kept as far as it decodes"
SHORT = "sound ends well before the video does: is the file whole?"
SPARE = "a second video of its half: not heard"
LOOP = "repeats what was said before (a loop?): kept"
_EARLY = 5.0
"""Seconds by which sound may end before its video without being noted."""
_STEMS = {"1_224p", "2_224p"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `transcribe`."""
    parser.add_argument("--videos", required=True, metavar="ROOT", help="the corpus")
    parser.add_argument("--out", required=True, metavar="DIR", help="made if it is not there")
    parser.add_argument(
        "--track",
        type=int,
        default=0,
        metavar="N",
        help="which audio track (default: 0, the first)",
    )
    add_asr_options(parser)
    add_options(parser)


def find_halves(root: str | Path, spare: list[str] | None = None) -> list[tuple[str, Path]]:
    """(half, video) of each half at any depth below a folder, sorted by half.

    Links to folders are followed; what begins with a dot is passed over. Of two videos of one
    half the first is taken, in the order of `SUFFIXES`.

    Args:
        root: the folder.
        spare: takes the names of the other ones.

    Raises:
        UserError: no such folder, or no half in it.
    """
    top = Path(root)
    if not top.is_dir():
        raise UserError("--videos", f"{top} is no folder", "name the corpus' folder")
    found: dict[str, Path] = {}
    for path in visible_files(top):
        if path.stem in _STEMS and path.suffix in SUFFIXES:
            half = path.relative_to(top).with_suffix("").as_posix()
            taken, *others = sorted({found.get(half, path), path}, key=_rank)
            found[half] = taken
            if spare is not None:
                spare += [str(other.relative_to(top)) for other in others]
    if not found:
        mend = "give a folder with <league>/<season>/<match>/{1,2}_224p.mkv"
        raise UserError("--videos", f"{top} holds no half", mend)
    return sorted(found.items())


def _rank(path: Path) -> int:
    return SUFFIXES.index(path.suffix)


@dataclass(frozen=True, slots=True)
class Work:
    """Transcribes one half, (half, video) -> JSON object, in whichever process this is."""

    settings: AsrSettings
    track: int

    def __call__(self, job: tuple[str, str]) -> dict[str, Any]:
        """Raises UserError where the video cannot be read, NotLoaded without a recogniser."""
        half, path = job
        need_whole_name(half)
        transcriber = load_transcriber(self.settings)  # first: without it nothing is begun
        duration = probe(path).duration
        sound = load_sound(path, self.track)
        heard = Heard(None, 0.0) if sound is None else transcriber.hear(sound.samples)
        transcript = Transcript(
            half,
            self._status(sound, heard),
            heard.language,
            None if heard.language is None else heard.probability,
            _length(duration, sound),
            tuple(map(segment_of, sentences_of(heard.words))),
        )
        return {**to_dict(transcript), "sound": _told(sound)}

    def _status(self, sound: Sound | None, heard: Heard) -> Status:
        if sound is None:
            return "no_audio"
        if heard.language is not None and heard.language != self.settings.language:
            return "other_language"
        return "ok" if heard.words else "no_speech"


def _told(sound: Sound | None) -> dict[str, Any] | None:
    """How far the sound goes (s), and how many of its packets would not decode."""
    if sound is None:
        return None
    return {"seconds": round(len(sound.samples) / RATE, 3), "damaged_packets": sound.damaged}


def _length(duration: float | None, sound: Sound | None) -> float | None:
    """Seconds that the video says it lasts; else its sound does."""
    if duration is None and sound is not None:
        duration = len(sound.samples) / RATE
    return None if duration is None else round(duration, 3)


def segment_of(words: Sequence[HeardWord]) -> Segment:
    """A sentence; its span holds all its words."""
    return Segment(
        words[0].start,
        max(w.end for w in words),
        " ".join(w.text for w in words),
        tuple(Word(w.text, w.start, w.end) for w in words),
        speaker_of(words),
    )


def run(args: argparse.Namespace) -> int:
    """Transcribe, count, report."""
    options = options_of(args)
    spare: list[str] = []
    found = find_halves(args.videos, spare)
    halves = options.first(found)
    settings = check_options(args)
    out = output_folder(args.out, args.videos)
    try:
        outcomes = transcribe(halves, out, settings, args.track, options)
    except NotLoaded as err:
        raise getattr(err, "cause", err).told() from err  # Ray wraps what its workers raise
    tallies = counted(outcomes)
    for name in sorted(spare):
        tallies[0].note(SPARE, name)
    inputs = [transcript_path(out, half) for half, _ in found]
    set_aside_leftovers(out, inputs, [o.task.path for o in outcomes], tallies[0])
    for line in tallies[0].examples.get(UNREADABLE, []):
        print(f"left out: {line}", file=sys.stderr)
    shown = {**settings.key(), "track": args.track, "limit": options.limit}
    write_report(out / "report.json", "transcribe", tallies, shown)
    print_report(tallies)
    print(
        f"{out}: {tallies[0].kept} of {len(halves)} halves with speech in {settings.language!r}, "
        f"{tallies[2].kept:,} words; report.json says what was left out"
    )
    if not tallies[0].kept:
        heard = any(o.result is not None for o in outcomes)
        problem = (
            f"no half has speech in {settings.language!r}" if heard else "no half could be read"
        )
        raise UserError("--videos", problem, "see report.json")
    return 0


def check_options(args: argparse.Namespace) -> AsrSettings:
    """Checked settings of the recogniser; no model is loaded yet.

    Raises:
        UserError: an option out of range, or something that is missing.
    """
    if args.track < 0:
        raise UserError("--track", f"is {args.track}", "give 0 for the first")
    try:
        return asr_settings(args)
    except NotLoaded as err:
        raise err.told() from err


def transcribe(
    halves: Sequence[tuple[str, Path]],
    out: Path,
    settings: AsrSettings,
    track: int,
    options: Options,
) -> list[Outcome]:
    """Transcribe halves into a folder; what became of each, in order."""
    tasks = [
        Task(half, transcript_path(out, half), (half, str(p)), _content(p)) for half, p in halves
    ]
    return run_tasks(
        tasks,
        Work(settings, track),
        options,
        {**settings.key(), "track": track},
        title="transcribing",
        gpus=1 if settings.device == "cuda" else 0,
    )


def _content(video: Path) -> str:
    try:
        return content_key(video)
    except UserError:  # its task will say so
        return "unreadable"


def counted(outcomes: Sequence[Outcome]) -> list[Tally]:
    """Halves (kept: with words in the wanted language), their sentences and words."""
    halves, segments, words = Tally("video"), Tally("segment"), Tally("word")
    for outcome in outcomes:
        if outcome.result is None:
            halves.drop(UNREADABLE)
            halves.examples.setdefault(UNREADABLE, []).append(_line(outcome))
            continue
        _count_half(outcome.result, halves)
        said = outcome.result["segments"]
        segments.keep(len(said))
        words.keep(sum(len(s["words"]) for s in said))
        for segment, period in zip(said, repeats([s["text"] for s in said]), strict=True):
            if period:
                segments.note(LOOP, f"{outcome.task.name} at {segment['start']:.1f} s")
    return [halves, segments, words]


def _line(outcome: Outcome) -> str:
    """Why a half failed, without the machine's path."""
    half, path = outcome.task.payload
    line = outcome.problem.replace(path, half)
    return line if line.startswith(half) else f"{half}: {line}"


def _count_half(result: dict[str, Any], halves: Tally) -> None:
    status, half, sound = result["status"], result["half"], result["sound"]
    if sound and sound["damaged_packets"]:
        halves.note(DAMAGED, half)
    if sound and sound["seconds"] < (result["duration"] or 0) - _EARLY:
        halves.note(SHORT, half)
    if status == "ok":
        halves.keep()
    elif status == "other_language":
        halves.drop(f"other language: {result['language']}", half)
    else:
        halves.drop({"no_audio": "no audio track", "no_speech": "no speech"}[status], half)
