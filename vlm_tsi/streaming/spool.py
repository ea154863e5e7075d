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
from vlm_tsi.files import parse_json, read_text
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


def check_output(folder: Path, source: str, *, is_live: bool = False) -> None:
    """Refuse a folder whose results another source made, or a camera (never the same twice).

    Raises:
        UserError: results are there that this run would replace with other ones.
    """
    mend = "choose another --out, or move them away"
    if (folder / SPOKEN).exists():
        before = _source_of(folder)
        if is_live or before != source:
            raise UserError(folder, f"holds what was said over {before or 'something else'}", mend)
    if is_live and (folder / SPOOL).exists():
        raise UserError(folder, f"holds {SPOOL} of a run that was killed", mend)


def _source_of(folder: Path) -> str | None:
    """The video or the datapoints that a folder's results were made from."""
    try:
        facts = parse_json(read_text(folder / FACTS), folder / FACTS, allow_surrogates=True)
    except UserError:
        return None
    found = isinstance(facts, dict) and (facts.get("timeline") or facts.get("video"))
    return found if isinstance(found, str) else None
