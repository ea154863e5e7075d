"""Training, validation and test parts of a set of halves.

Input: halves' names; a seed, or the official lists. Output: a part for each half.
Invariant: a function of names and seed alone; by match, both halves of a match (and all
transcripts of one half) are in one part.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from data_prep.soccernet.halves import match_of
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_json

Part = Literal["train", "val", "test"]
SplitBy = Literal["match", "half"]
PARTS: tuple[Part, ...] = ("train", "val", "test")
SHARE = 0.2
"""Of all for the test, then of the rest for validation (paper, Section 4.1.1)."""


def shared_out(halves: Iterable[str], by: SplitBy, seed: int) -> dict[str, Part]:
    """80/20, then 80/20, at random.

    Args:
        halves: their names.
        by: keep a match together, or deal out its halves singly (the paper's way).
        seed: of the shuffle.
    """
    unit: Callable[[str], str] = match_of if by == "match" else str
    names = sorted(halves)
    units = sorted({unit(half) for half in names})
    order = np.random.default_rng(seed).permutation(len(units))
    tests = round(SHARE * len(units))
    vals = round(SHARE * (len(units) - tests))
    parts: dict[str, Part] = {}
    for place, k in enumerate(order):
        parts[units[k]] = "test" if place < tests else "val" if place < tests + vals else "train"
    return {half: parts[unit(half)] for half in names}


def official_lists(files: Sequence[str]) -> dict[str, Part]:
    """The part of each match that three published lists name.

    Args:
        files: training, validation and test list, `{league: {season: [match]}}`.

    Raises:
        UserError: not such a list, or a match in two of them.
    """
    parts: dict[str, Part] = {}
    for part, file in zip(PARTS, files, strict=True):
        for match in _matches(read_json(file), file):
            if parts.setdefault(match, part) != part:
                problem = f"match {match!r} is in the list of {parts[match]} already"
                raise UserError(file, problem, "give three lists that do not overlap")
    return parts


def official(halves: Iterable[str], lists: Mapping[str, Part]) -> dict[str, Part]:
    """The parts that the lists give; a half whose match is in none of them has no part."""
    names = {half: match_of(half).rpartition("/")[2] for half in sorted(halves)}
    return {half: lists[match] for half, match in names.items() if match in lists}


def _matches(leagues: Any, file: str) -> list[str]:
    try:
        lists = [names for seasons in leagues.values() for names in seasons.values()]
    except AttributeError:
        lists = [None]
    if not all(isinstance(x, list) and all(isinstance(m, str) for m in x) for x in lists):
        raise UserError(file, "is no list of matches", "use {league: {season: [match]}}")
    return [match for names in lists for match in names]
