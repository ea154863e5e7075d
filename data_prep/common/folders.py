"""Files at any depth below a folder.

Input: a folder. Output: its files. Invariant: what begins with a dot is passed over; links to
folders are followed, each folder once, so that a link to one above ends nothing in a circle.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def visible_files(root: str | Path) -> Iterator[Path]:
    """Every file below a folder, in no order."""
    seen: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        seen.add(os.path.realpath(folder))
        folders[:] = [
            name for name in folders
            if not name.startswith(".") and os.path.realpath(Path(folder, name)) not in seen
        ]  # fmt: skip
        yield from (Path(folder, name) for name in names if not name.startswith("."))
