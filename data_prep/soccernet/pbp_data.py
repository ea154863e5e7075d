"""Hand-labelled halves: which sentences of a commentary tell the play.

Input: a folder of transcripts whose every segment says `is_pbp` (ten halves of five matches
were labelled for the paper).
Output: `Half` values in order of name, a tally of their sentences, and splits of them.
Invariant: every sentence read is kept or dropped with a reason; sentences are sorted by start;
a split is a function of sizes and seed alone, and its parts do not overlap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.common.report import Tally
from data_prep.soccernet.halves import match_of
from data_prep.soccernet.repair import repair
from data_prep.soccernet.transcript import Segment, read_transcript
from vlm_tsi.errors import UserError

FEWEST = 100
"""Sentences below which no share of them says anything."""
SHARES = (0.70, 0.15, 0.15)
"""Training, validation and test (paper, Section 4.1.1)."""


@dataclass(frozen=True, slots=True)
class Half:
    """One half of a match.

    Attributes:
        name: `<match>/1_224p`, as annotations name its video.
        match: the match; both halves have the same.
        sentences: what is said, by start.
    """

    name: str
    match: str
    sentences: tuple[Segment, ...]

    @property
    def texts(self) -> list[str]:
        """The sentences' words."""
        return [s.text for s in self.sentences]

    @property
    def labels(self) -> np.ndarray:
        """[N] bool; every sentence must have a label."""
        return np.array([s.is_pbp for s in self.sentences], dtype=bool)


def read_halves(files: Sequence[tuple[str, Path]], root: str | Path) -> tuple[list[Half], Tally]:
    """Read labelled halves, mend them as `build` does, and count their sentences.

    Args:
        files: (half, file), as `find_transcripts` gives them.
        root: the folder that an error is to name.

    Raises:
        UserError: a sentence without label or with an unusable time, fewer than two matches
            or 100 sentences, or a match with one class only.
    """
    tally = Tally("sentence")
    halves = [_read_half(half, path, tally) for half, path in files]
    _check_trainable(halves, root)
    return halves, tally


def _read_half(name: str, path: Path, tally: Tally) -> Half:
    segments = read_transcript(path, name).segments
    for i, segment in enumerate(segments):
        if segment.is_pbp is None:
            mend = "label every sentence true or false, or leave the file out"
            raise UserError(f"{path}: segments[{i}]", "is_pbp is missing", mend)
    return Half(name, match_of(name), tuple(repair(segments, name, tally)))


def _check_trainable(halves: Sequence[Half], root: str | Path) -> None:
    """Refuse labels that no classifier can be trained and tested on."""
    matches = sorted({half.match for half in halves})
    count = sum(len(half.sentences) for half in halves)
    if len(matches) < 2:
        mend = "leave-one-match-out needs two or more (--limit counts halves)"
        raise UserError(root, f"labels of {len(matches)} match only", mend)
    if count < FEWEST:
        raise UserError(root, f"{count} labelled sentences", f"give {FEWEST} or more")
    for match in matches:
        kinds = {s.is_pbp for half in halves if half.match == match for s in half.sentences}
        if len(kinds) < 2:
            has = {True: "play-by-play only", False: "no play-by-play", None: "no sentence"}
            problem = f"match {match!r} has {has[next(iter(kinds), None)]}"
            raise UserError(root, problem, "label both kinds in every match, or leave it out")


@dataclass(frozen=True, slots=True)
class Split:
    """Sentences to train on, to stop by, and to test on.

    Attributes:
        name: `random`, or the match that is left out.
        train, valid, test: indices into all sentences of all halves, half after half.
    """

    name: str
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def random_split(count: int, seed: int) -> Split:
    """The paper's split: sentences at random, 70/15/15 (its seed is not given; ours is 42)."""
    order = np.random.default_rng(seed).permutation(count)
    ends = np.cumsum(SHARES[:2]) * count
    train, valid, test = np.split(order, [int(end + 1e-9) for end in ends])
    return Split("random", np.sort(train), np.sort(valid), np.sort(test))


def match_splits(halves: Sequence[Half], seed: int) -> Iterator[Split]:
    """Each match left out once, both halves of it; the others divided 70:15 at random."""
    owner = np.repeat([h.match for h in halves], [len(h.sentences) for h in halves])
    for k, match in enumerate(dict.fromkeys(h.match for h in halves)):
        test, rest = np.flatnonzero(owner == match), np.flatnonzero(owner != match)
        order = np.random.default_rng([seed, k]).permutation(rest)
        cut = round(len(rest) * SHARES[0] / (SHARES[0] + SHARES[1]))
        yield Split(match, np.sort(order[:cut]), np.sort(order[cut:]), test)
