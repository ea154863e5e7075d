"""What the name of a half says: its match, its video.

Input: a half's name, `<…>/<league>/<season>/<match>/1_224p`. Output: match and video names.
Invariant: folders above the league (a version of the ASR release) name neither, so that two
transcripts of one match stay together.
"""

from pathlib import Path, PurePosixPath

from vlm_tsi.errors import UserError

SUFFIXES = (".mkv", ".mp4", ".webm", ".avi")


def match_of(half: str) -> str:
    """`<league>/<season>/<match>` (or what there is of it)."""
    return str(PurePosixPath(*PurePosixPath(half).parts[-4:-1]))


def video_file(half: str) -> str:
    """`<league>/<season>/<match>/1_224p.mkv`, as the corpus names it."""
    return f"{PurePosixPath(*PurePosixPath(half).parts[-4:])}{SUFFIXES[0]}"


def need_whole_name(half: str) -> None:
    """Raise UserError where a name has bytes that are no UTF-8: no timeline could hold it."""
    if not half.isascii() and any("\ud800" <= c <= "\udfff" for c in half):
        raise UserError(ascii(half), "its name is not UTF-8", "rename its file or folder")


def find_video(root: str | Path, half: str) -> Path | None:
    """The half's video below a folder: by its whole name, or from the league on."""
    for name in (half, str(PurePosixPath(video_file(half)).with_suffix(""))):
        for suffix in SUFFIXES:
            path = Path(root) / f"{name}{suffix}"
            if path.is_file():
                return path
    return None
