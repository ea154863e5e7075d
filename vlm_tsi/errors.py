"""Errors meant for users.

Input: a command's main function. Output: its exit code. Invariant: a mistake of the
user's (bad file, bad option, missing package) ends as one line on stderr and exit code 2,
never as a traceback; a mistake of ours keeps its traceback.
"""

import argparse
import errno
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class UserError(Exception):
    """One line that names the thing, its value and the mend."""

    def __init__(self, thing: object, problem: str, mend: str) -> None:
        self.thing, self.problem, self.mend = str(thing), problem, mend
        super().__init__(" ".join(f"{thing}: {problem}; {mend}".split()))

    def __reduce__(self) -> tuple[type["UserError"], tuple[str, str, str]]:
        """Travel whole from a worker process to its parent."""
        return UserError, (self.thing, self.problem, self.mend)


class Parser(argparse.ArgumentParser):
    """Command-line options, written out; a bad one is a UserError."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def parse_args(self, *args: Any, **kwargs: Any) -> Any:
        """No value may be empty (an unset shell variable), where that has no meaning of its own."""
        found = super().parse_args(*args, **kwargs)
        meant = {a.dest for a in self._actions if "" in (a.const, a.default)} | {"system"}
        for name, value in vars(found).items():
            if value == "" and name not in meant:
                raise UserError(f"{self.prog}: {name.replace('_', '-')}", "is empty", "name one")
        return found

    def error(self, message: str) -> NoReturn:
        """One line that names the command and its help."""
        raise UserError(self.prog, message, f"see {self.prog} --help")


def is_disk_full(err: BaseException) -> bool:
    """Whether a library's error says that the disk is full (not all of them raise OSError)."""
    return getattr(err, "errno", None) == errno.ENOSPC or "No space left" in str(err)


def os_error(path: str | Path, err: OSError) -> UserError:
    """Turn a failed file operation into a line with its mend."""
    mends = {
        "FileNotFoundError": "check the path",
        "PermissionError": "choose a place you may write to, or change its permissions",
        "IsADirectoryError": "name a file, not a folder",
        "NotADirectoryError": "name a folder, not a file",
        "FileExistsError": "choose another name",
    }
    if err.errno == errno.ENAMETOOLONG:
        return UserError(path, "File name too long", "use a shorter one")
    mend = mends.get(type(err).__name__, "free space on the disk or choose another place")
    return UserError(path, err.strerror or str(err), mend)


def command(main: Callable[..., int | None]) -> Callable[..., int]:
    """Wrap a command's main: UserError -> one line, exit code 2; Ctrl-C -> 130."""

    @functools.wraps(main)
    def run(*args: object, **kwargs: object) -> int:
        try:
            return main(*args, **kwargs) or 0
        except UserError as err:
            print(f"error: {err}", file=sys.stderr)
            return 2
        except BrokenPipeError:
            sys.stderr.close()
            return 0
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except OSError as err:
            if err.filename is None:
                raise
            print(f"error: {os_error(err.filename, err)}", file=sys.stderr)
            return 2

    return run
