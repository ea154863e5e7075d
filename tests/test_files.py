"""Files appear whole or not at all, also when the disk is full or closed to us."""

import errno
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vlm_tsi.errors import UserError
from vlm_tsi.files import (
    atomic_path,
    check_target,
    make_folder,
    read_json,
    read_jsonl,
    read_text,
    write_json,
    write_jsonl,
    write_text,
)

OLD = "old\n"
WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: write_text(path, "new\n"),
    "json": lambda path: write_json(path, {"new": 1}),
    "jsonl": lambda path: write_jsonl(path, [{"new": 1}, {"new": 2}]),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A finished file that no failure may harm."""
    path = tmp_path / "out.json"
    path.write_text(OLD)
    return path


def assert_untouched(target: Path) -> None:
    assert target.read_text() == OLD
    assert os.listdir(target.parent) == [target.name]


def refuse(number: int) -> Callable[..., Any]:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@writers
def test_a_good_write_replaces_the_file(write: Callable[[Path], object], target: Path) -> None:
    write(target)
    assert "new" in target.read_text()
    assert os.listdir(target.parent) == [target.name]


@writers
def test_folders_on_the_way_are_made(write: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "c.json")
    assert os.listdir(tmp_path / "a" / "b") == ["c.json"]


@writers
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_while_writing(
    write: Callable[[Path], object], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkstemp(prefix: str, suffix: str, dir: Path) -> tuple[int, str]:
        name = str(dir / f"{prefix}full{suffix}")
        os.symlink("/dev/full", name)
        return os.open(os.devnull, os.O_RDONLY), name

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    with pytest.raises(UserError, match=r"out\.json: No space left on device; free space"):
        write(target)
    assert_untouched(target)


@writers
@pytest.mark.parametrize("step", ["tempfile.mkstemp", "os.replace"])
@pytest.mark.parametrize(
    ("number", "mend"),
    [(errno.ENOSPC, "free space"), (errno.EACCES, "may write to"), (errno.EROFS, "another place")],
)
def test_a_refused_step_leaves_the_old_file(
    write: Callable[[Path], object],
    step: str,
    number: int,
    mend: str,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step, refuse(number))
    with pytest.raises(UserError, match=f"out.json: .*{mend}"):
        write(target)
    assert_untouched(target)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_closed_to_us(target: Path) -> None:
    target.parent.chmod(0o555)
    try:
        with pytest.raises(UserError, match="Permission denied"):
            write_text(target, "new\n")
    finally:
        target.parent.chmod(0o755)
    assert_untouched(target)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_break_half_way_leaves_the_old_file(error: type[BaseException], target: Path) -> None:
    def records() -> Iterator[dict[str, Any]]:
        yield {"n": 1}
        raise error

    with pytest.raises(error):
        write_jsonl(target, records())
    assert_untouched(target)


def test_a_break_half_way_makes_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "new.mp4") as temp:
        temp.write_bytes(b"half")
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_a_reader_sees_the_old_file_until_the_end(target: Path) -> None:
    with atomic_path(target) as temp:
        temp.write_text("new")
        assert temp.parent == target.parent
        assert temp.suffix == target.suffix
        assert target.read_text() == OLD
    assert target.read_text() == "new"


def test_the_file_has_ordinary_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "a")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_not_a_number_is_refused_before_the_file_changes(value: float, target: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(target, {"x": value})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_jsonl(target, [{"x": 1.0}, {"x": value}])
    assert_untouched(target)


def test_a_folder_where_the_file_should_stand(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="out: is a folder; name a file"):
        write_text(tmp_path / "out", "new")
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_where_the_folder_should_stand(target: Path) -> None:
    with pytest.raises(UserError, match="name a folder, not a file"):
        write_text(target / "deeper" / "x.json", "new")
    with pytest.raises(UserError, match="choose another name"):
        make_folder(target)
    assert_untouched(target)


def test_json_comes_back_as_written(tmp_path: Path) -> None:
    value = {"text": "après — 見る", "n": [1, 2.5, None, True]}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert write_jsonl(tmp_path / "a.jsonl", [value, {}]) == 2
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [(1, value), (2, {})]


def test_byte_order_mark_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [(1, {"a": 1}), (4, {"a": 2})]


def test_a_line_separator_inside_text_is_no_line_end(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"text": "one\u2028two\x85three"}])
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [(1, {"text": "one\u2028two\x85three"})]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"a": 1}\n{"a": \n', r"a\.jsonl:2: not JSON"),
        (b"{}\n\n[1]\n", r"a\.jsonl:3: not a JSON object"),
        (b'{"a": "\xff"}\n', r"a\.jsonl: byte 7 is not UTF-8"),
        pytest.param(b'{"a":' * 50_000, r"a\.jsonl:1: not JSON .nested too deeply", id="deep"),
    ],
)
def test_bad_lines_are_named(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(UserError, match=told):
        list(read_jsonl(tmp_path / "a.jsonl"))


def test_numbers_of_any_length_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"a": {10**299}, "b": {"9" * 6000}, "c": -{"9" * 6000}}}')
    [(_, value)] = read_jsonl(tmp_path / "a.jsonl")
    assert value == {"a": 10**299, "b": math.inf, "c": -math.inf}


def test_whole_surrogate_pairs_and_escaped_backslashes_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(r'{"a": "\ud83d\ude00", "b": "\\ud83d"}')
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [(1, {"a": "\U0001f600", "b": r"\ud83d"})]


def test_a_name_that_is_not_utf8_comes_back_from_json(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"video": os.fsdecode(b"caf\xe9.mp4")})
    assert read_json(tmp_path / "a.json") == {"video": os.fsdecode(b"caf\xe9.mp4")}
    write_jsonl(tmp_path / "a.jsonl", [{"video": os.fsdecode(b"caf\xe9.mp4")}])
    assert list(read_jsonl(tmp_path / "a.jsonl"))[0][1] == read_json(tmp_path / "a.json")


def test_bad_json_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n"a": ,\n}')
    with pytest.raises(UserError, match=r"a\.json:2: not JSON"):
        read_json(tmp_path / "a.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no\.txt: No such file or directory; check the path"):
        read_text(tmp_path / "no.txt")


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    (tmp_path / ".out.abcd1234.json").write_text("half")
    (tmp_path / ".other.abcd1234.json").write_text("not ours")
    write_json(tmp_path / "out.json", 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".other.abcd1234.json", "out.json"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere" / "real.json")
    write_json(tmp_path / "link.json", 1)
    write_json(tmp_path / "link.json", 2)
    assert (tmp_path / "link.json").is_symlink()
    assert read_json(tmp_path / "elsewhere" / "real.json") == 2


def test_what_is_no_file_is_refused_and_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe: is a device or a pipe"):
        write_json(tmp_path / "pipe", 1)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_target_is_looked_at_before_the_work(tmp_path):
    (tmp_path / "in.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "in.json")
    os.mkfifo(tmp_path / "pipe")
    check_target(tmp_path / "new" / "out.json", [tmp_path / "in.json"])
    told = {"": "empty", "link": "an input", "in.json": "an input", ".": "is a folder",
            "pipe": "a pipe", "in.json/out.json": "in.json"}  # fmt: skip
    for name, problem in told.items():
        with pytest.raises(UserError, match=problem):
            check_target(tmp_path / name if name else "", [tmp_path / "in.json"])


def test_a_living_writers_file_is_left_alone(tmp_path):
    with atomic_path(tmp_path / "out.json") as temp:
        write_json(tmp_path / "out.json", 1)
        temp.write_text("2")
    assert (tmp_path / "out.json").read_text() == "2"
