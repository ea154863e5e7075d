"""Files that appear whole or not at all.

Input: a path and what to write. Output: the finished file. Invariant: a reader sees the
old file, the new file or no file, never a half-written one; a failed write leaves nothing
behind and raises a UserError that names the path.
"""

import contextlib
import errno
import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from vlm_tsi.errors import UserError, is_disk_full, os_error

PairsHook = Callable[[list[tuple[str, Any]]], Any]
_MOST_DIGITS = 300
"""Whole numbers up to here are floats as well."""
_ESCAPED = "backslashreplace"
"""In JSON, what UTF-8 cannot hold (a file name's odd bytes) stands as an escape, and comes back."""


def make_folder(path: str | Path) -> Path:
    """Create a folder (and its parents), or say why it cannot be had."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise os_error(folder, err) from err
    return folder


def writable_folder(path: str | Path) -> Path:
    """Create a folder and make sure, before the work, that its files can be written."""
    folder = make_folder(path)
    try:
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as err:
        raise os_error(folder, err) from err


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, with its suffix; rename it on success.

    A link is followed: the file it names is written. What a killed process left behind for
    the same path is removed: a living writer holds a lock on its temporary file.

    Raises:
        UserError: it cannot be written, or is there and no file (a device, a pipe).
    """
    target = Path(os.path.realpath(path))
    _check_kind(target, path)
    make_folder(target.parent)
    try:
        handle, temp = _locked_temp(target)
    except OSError as err:
        raise os_error(target, err) from err
    try:
        yield temp
        temp.chmod(0o666 & ~_umask())
        os.replace(temp, target)
    except OSError as err:
        raise os_error(target, err) from err
    finally:
        temp.unlink(missing_ok=True)
        os.close(handle)


def _check_kind(target: Path, path: str | Path) -> None:
    if target.is_dir():
        raise UserError(path, "is a folder", "name a file")
    if target.exists() and not target.is_file():
        raise UserError(path, "is a device or a pipe", "name a file, which would replace it")


def check_target(path: str | Path, inputs: Iterable[str | Path] = ()) -> None:
    """Make sure, before the work, that a file can be written.

    Raises:
        UserError: a folder, a device or one of the command's inputs stands there, or its
            folder cannot be written.
    """
    target = Path(os.path.realpath(path))
    if not str(path):
        raise UserError("the output's name", "is empty", "name a file")
    _check_kind(target, path)
    for source in inputs:
        if target.exists() and Path(source).exists() and target.samefile(source):
            raise UserError(path, "is an input of this command", "name another file")
    writable_folder(target.parent)


def _locked_temp(target: Path) -> tuple[int, Path]:
    """A new temporary file for a target, locked as long as its handle is open."""
    prefix = f".{target.stem[:40]}."
    for old in target.parent.glob(f"{glob.escape(prefix)}????????{glob.escape(target.suffix)}"):
        _remove_stale(old)
    while True:
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=target.suffix, dir=target.parent)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):  # else another writer took it for a stale one
            return handle, Path(name)
        os.close(handle)


def _remove_stale(temp: Path) -> None:
    """Remove a temporary file that no living process holds."""
    with contextlib.suppress(OSError):
        handle = os.open(temp, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temp.unlink()
        finally:
            os.close(handle)


@contextlib.contextmanager
def atomic_files(folder: str | Path) -> Iterator[Path]:
    """Yield an empty folder; on success its files move into `folder`, over those of their names.

    For libraries that write several files of their own naming, none in a folder of its own.
    Each file is whole; a kill between two moves leaves some of them new and some old.

    Raises:
        UserError: they cannot be written (a full disk, no permission).
    """
    target = writable_folder(folder)
    aside = target / ".unfinished"
    try:
        shutil.rmtree(aside, ignore_errors=True)  # a killed process left it
        aside.mkdir()
        yield aside
        for file in sorted(aside.iterdir()):
            os.replace(file, target / file.name)
    except OSError as err:
        raise os_error(target, err) from err
    except Exception as err:  # libraries in other languages have no OSError
        if not is_disk_full(err):
            raise
        raise os_error(target, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from err
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def claimed(path: Path, *, wait: bool) -> Iterator[bool]:
    """Whether this process has a path's claim; a claim dies with its process.

    Args:
        path: a file or folder that is to be made by one process at a time.
        wait: wait for the process that has it, else yield False at once.
    """
    claim = make_folder(path.parent) / f".{path.name}.claim"
    while True:
        with claim.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            if not _is_at(claim, handle.fileno()):  # its holder has just removed it
                continue
            try:
                yield True
            finally:
                claim.unlink(missing_ok=True)
            return


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text whole or not at all."""
    with atomic_path(path) as temp:
        temp.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write one JSON value, indented; NaN and infinity are refused (ValueError)."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with atomic_path(path) as temp:
        temp.write_text(text, encoding="utf-8", errors=_ESCAPED)


def write_jsonl(path: str | Path, records: Iterable[dict[str, Any]]) -> int:
    """Write one JSON object a line; returns how many."""
    count = 0
    with atomic_path(path) as temp, temp.open("w", encoding="utf-8", errors=_ESCAPED) as out:
        for record in records:
            out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
            count += 1
    return count


def read_text(path: str | Path) -> str:
    """Read UTF-8 text (a byte order mark is dropped), or raise a UserError."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as err:
        raise UserError(path, f"byte {err.start} is not UTF-8", "save it as UTF-8") from err
    except OSError as err:
        raise os_error(path, err) from err


def parse_json(
    text: str,
    path: object,
    line: int = 0,
    *,
    hook: PairsHook | None = None,
    mend: str = "mend this line",
) -> Any:
    """Parse JSON text that comes from outside.

    A number too long for a float becomes infinite, for the schema to refuse.

    Args:
        text: one JSON value.
        path: what the error names.
        line: where in the file the text stands (from 1), if it is one line of it.
        hook: makes an object of its (name, value) pairs, where a dict will not do.
        mend: what the error tells to do.

    Raises:
        UserError: it is no JSON, or is nested too deeply.
    """
    where = f"{path}:{line}" if line else path
    try:
        return json.loads(text, object_pairs_hook=hook, parse_int=_whole)
    except json.JSONDecodeError as err:
        raise UserError(f"{path}:{line or err.lineno}", f"not JSON ({err.msg})", mend) from err
    except RecursionError as err:
        raise UserError(where, "not JSON (nested too deeply)", mend) from err


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def read_json(path: str | Path, hook: PairsHook | None = None) -> Any:
    """Read one JSON value, or say on which line it breaks."""
    return parse_json(read_text(path), path, hook=hook)


def read_object(path: str | Path) -> dict[str, Any]:
    """Read one JSON object."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(path, "not a JSON object", "write {…}")
    return value


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for each line that is not blank."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        value = parse_json(line, path, number)
        if not isinstance(value, dict):
            raise UserError(f"{path}:{number}", "not a JSON object", "write one {…} a line")
        yield number, value
