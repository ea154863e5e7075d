"""Finished datapoints of a run, kept until the run is whole.

Input: a datapoint's result, as it comes. Output: the results of an earlier, broken-off run
of the same kind. Invariant: only what was written under the same fingerprint (model,
settings, timelines) is believed; a line torn by the break is left out.
"""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from vlm_tsi.errors import os_error
from vlm_tsi.files import write_jsonl


class Journal:
    """A JSONL file: the fingerprint, then one result a line."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self.results: dict[str, dict[str, Any]] = {}
        lines = _lines(path)
        if lines and lines[0] == {"fingerprint": fingerprint}:
            self.results = {r["video_id"]: r for r in lines[1:]}
        self._rewrite(fingerprint)

    def _rewrite(self, fingerprint: str) -> None:
        records = [{"fingerprint": fingerprint}, *self.results.values()]
        write_jsonl(self.path, records)
        try:
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as err:
            raise os_error(self.path, err) from err

    def add(self, result: dict[str, Any]) -> None:
        """Keep one result (it has a `video_id`)."""
        self.results[result["video_id"]] = result
        self._write(result)

    def _write(self, record: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as err:
            raise os_error(self.path, err) from err

    def close(self) -> None:
        """No more to add. Whoever has written the run's output removes the file."""
        with contextlib.suppress(OSError):  # a full disk has been reported by `add`
            self._file.close()


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    found = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return [r for r in found if isinstance(r, dict)]


def fingerprint_of(*parts: object, files: list[Path]) -> str:
    """Names a run by its settings and by name, size and time of the files it reads."""
    stats = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in sorted(files)]
    return hashlib.sha256(repr((parts, stats)).encode()).hexdigest()
