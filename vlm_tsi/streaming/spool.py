"""What a stream has said so far, on the disk.

Input: finished utterances as they come. Output: a JSONL file that grows by a line each, and
is gone once the whole output is there. Invariant: whatever kills the run, each utterance
that had ended is in the file; a full disk ends the spooling, not the stream.
"""

import contextlib
import json
from pathlib import Path
from typing import TextIO

from vlm_tsi.errors import UserError, os_error
from vlm_tsi.files import read_object
from vlm_tsi.timeline import Generated, generated_to_dict

SPOOL, SPOKEN, FACTS = "utterances.unfinished.jsonl", "utterances.jsonl", "run.json"


class Spool:
    """Appends to `<folder>/utterances.unfinished.jsonl`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SPOOL
        self.problem: str | None = None
        self._file: TextIO | None = None

    def add(self, spoken: Generated) -> None:
        """Keep one utterance; the first failure is noted in `problem`."""
        if self.problem is not None:
            return
        try:
            if self._file is None:
                self._file = self.path.open("w", encoding="utf-8")
            self._file.write(json.dumps(generated_to_dict(spoken), ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as err:
            self.problem = str(os_error(self.path, err))
            if self.path.is_file() and not self.path.stat().st_size:
                self.path.unlink()

    def remove(self) -> None:
        """The whole output is on the disk."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # what did not fit is in `problem` already
                self._file.close()
        self.path.unlink(missing_ok=True)


def source_of(source: str) -> str:
    """What names a source wherever one stands: a file's whole path; a camera's or URL's name."""
    return str(Path(source).resolve()) if Path(source).exists() else source


def check_output(folder: Path, source: str, name: str = "", *, is_live: bool = False) -> None:
    """Refuse a folder whose results another source made, or a camera (never the same twice).

    Args:
        folder: the output.
        source: the video, camera or file of datapoints, as typed.
        name: how a video's utterances name it.
        is_live: a camera or a stream.

    Raises:
        UserError: results are there that this run would replace with other ones.
    """
    mend = "choose another --out, or move them away"
    if (folder / SPOKEN).exists():
        before = _source_of(folder)
        if is_live or before != source_of(source):
            raise UserError(folder, f"holds what was said over {before or 'something else'}", mend)
    if (folder / SPOOL).exists() and (is_live or _spooled(folder) != name):
        raise UserError(folder, f"holds {SPOOL} of a run that was killed", mend)


def _source_of(folder: Path) -> str | None:
    """What a folder's results were made from."""
    try:
        found = read_object(folder / FACTS).get("source")
    except UserError:
        return None
    return found if isinstance(found, str) else None


def _spooled(folder: Path) -> str | None:
    """Over which video the first utterance was that a killed run kept."""
    try:
        with (folder / SPOOL).open(encoding="utf-8") as lines:
            return str(json.loads(next(lines))["video_id"])
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return None
