"""A user's mistake is one line and exit code 2; ours keeps its traceback."""

import errno
import subprocess
import sys
from collections.abc import Callable

import pytest

from vlm_tsi.errors import UserError, command, os_error


def run(error: BaseException | None = None, value: int | None = None) -> int:
    @command
    def main() -> int | None:
        if error is not None:
            raise error
        return value

    return main()


@pytest.mark.parametrize(("value", "code"), [(None, 0), (0, 0), (1, 1)])
def test_a_command_returns_its_exit_code(value: int | None, code: int) -> None:
    assert run(value=value) == code


def test_user_error_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(UserError("a.jsonl:3", "end is -1", "use finite seconds >= 0"))
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err == "error: a.jsonl:3: end is -1; use finite seconds >= 0\n"


def test_a_problem_of_many_lines_is_told_on_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(UserError("clip.mp4", "moov atom\n\n  not found", "copy it\nagain")) == 2
    err = capsys.readouterr().err
    assert err == "error: clip.mp4: moov atom not found; copy it again\n"


def test_a_failed_file_operation_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FileNotFoundError(errno.ENOENT, "No such file or directory", "no.mp4")) == 2
    assert capsys.readouterr().err == "error: no.mp4: No such file or directory; check the path\n"


def test_ctrl_c_ends_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("error", [ValueError("ours"), OSError("names no file")])
def test_our_own_mistakes_keep_their_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        run(error)


def test_the_wrapper_keeps_name_and_arguments() -> None:
    def main(first: int, *, second: int) -> int:
        """Add."""
        return first + second

    wrapped: Callable[..., int] = command(main)
    assert wrapped(1, second=2) == 3
    assert (wrapped.__name__, wrapped.__doc__) == ("main", "Add.")


def test_a_closed_pipe_is_no_error() -> None:
    code = (
        "import sys; from vlm_tsi.errors import command\n"
        "@command\n"
        "def main(): raise BrokenPipeError\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.ENOENT, "check the path"),
        (errno.EACCES, "may write to"),
        (errno.EISDIR, "name a file"),
        (errno.ENOTDIR, "name a folder"),
        (errno.ENOSPC, "free space"),
    ],
)
def test_each_file_error_has_its_mend(number: int, mend: str) -> None:
    error = os_error("x/y.json", OSError(number, "why"))
    assert str(error).startswith("x/y.json: why; ")
    assert mend in error.mend


def test_a_real_command_ends_with_one_line() -> None:
    code = (
        "import sys; from vlm_tsi.errors import command; from vlm_tsi.timeline import read_timelines\n"
        "sys.exit(command(read_timelines)('no-such.jsonl'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: no-such.jsonl: No such file or directory; check the path\n"


def test_a_users_error_travels_between_processes():
    import pickle

    error = UserError("a.mp4", "is empty", "record it again")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.mend == error.mend
