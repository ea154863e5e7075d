"""What the name of a half says: its match, its video.

Input: a half's name, `<…>/<league>/<season>/<match>/1_224p`. Output: match and video names.
Invariant: folders above the league (a version of the ASR release) name neither, so that two
transcripts of one match stay together.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SUFFIXES = (".mkv", ".mp4", ".webm", ".avi")


def match_of(half: str) -> str:
    """`<league>/<season>/<match>` (or what there is of it)."""
    return str(PurePosixPath(*PurePosixPath(half).parts[-4:-1]))


def video_file(half: str) -> str:
    """`<league>/<season>/<match>/1_224p.mkv`, as the corpus names it."""
    return f"{PurePosixPath(*PurePosixPath(half).parts[-4:])}{SUFFIXES[0]}"


def visible_files(root: str | Path) -> Iterator[Path]:
    """Every file at any depth below a folder.

    What begins with a dot is passed over. Links to folders are followed, each folder once, so
    that a link to one above ends nothing in a circle.
    """
    seen: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        seen.add(os.path.realpath(folder))
        folders[:] = [
            name for name in folders
            if not name.startswith(".") and os.path.realpath(Path(folder, name)) not in seen
        ]  # fmt: skip
        yield from (Path(folder, name) for name in names)


def find_video(root: str | Path, half: str) -> Path | None:
    """The half's video below a folder: by its whole name, or from the league on."""
    for name in (half, str(PurePosixPath(video_file(half)).with_suffix(""))):
        for suffix in SUFFIXES:
            path = Path(root) / f"{name}{suffix}"
            if path.is_file():
                return path
    return None
