"""Score files: what `python -m eval.tglg --out` wrote, read again.

Input: such a JSON file. Output: `ScoreFile`: parameters, embedder, each video's sums and pairs.
Invariant: every number is finite and not negative, and each video has as many pairs as its sums
say; what breaks this is refused with file, field, value and the mend.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from vlm_tsi.errors import UserError
from vlm_tsi.files import read_object
from vlm_tsi.scoring.groups import StoredSums
from vlm_tsi.scoring.params import TOLERANCE, TraceParams
from vlm_tsi.scoring.trace_score import Pair, VideoSums

_MEND = "make the file again with `python -m eval.tglg … --out`"
_T = TypeVar("_T")


@dataclass(frozen=True)
class ScoreFile:
    """One system's scores: each video's sums, and its pairs by video and reference.

    `sources` names the whole video of those that are a part of one (older files: none).
    """

    path: str
    embedder: str
    sums: StoredSums
    pairs: Mapping[tuple[str, int], Pair]
    sources: Mapping[str, str]


def read_scores(path: str | Path) -> ScoreFile:
    """Read what `eval.tglg` wrote.

    Raises:
        UserError: it is no such file, or a value in it cannot be; the line names both.
    """
    stored = read_object(path)
    kinds = {"params": dict, "embedder": str, "per_video": dict, "pairs": list}
    for name, kind in kinds.items():
        if not isinstance(stored.get(name), kind):
            raise UserError(path, f"no score file ({name} is not there or of another type)", _MEND)
    per_video = {v: _sums(s, f"{path}: per_video[{v!r}]") for v, s in stored["per_video"].items()}
    listed = [_build(Pair, p, f"{path}: pairs[{i}]") for i, p in enumerate(stored["pairs"])]
    _check_whole(path, per_video, listed)
    pairs = {(p.video_id, p.ref_idx): p for p in listed}
    sums = StoredSums(_params(stored["params"], f"{path}: params"), per_video)
    sources = stored.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(s, str) for s in sources.values()):
        raise UserError(path, "sources is not an object of names", _MEND)
    return ScoreFile(str(path), stored["embedder"], sums, pairs, sources)


def _build(kind: type[_T], record: Any, where: str) -> _T:
    """One of our values from its JSON object; other names in it are passed over."""
    if not isinstance(record, dict):
        raise UserError(where, "not a JSON object", _MEND)
    names = kind.__annotations__
    for name, wanted in names.items():
        if not _fits(record.get(name), wanted):
            problem = f"{name} is {record[name]!r:.60}" if name in record else f"{name} is missing"
            raise UserError(where, problem, _MEND)
    return kind(**{name: record[name] for name in names})


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a field may have a value; all our numbers are finite and not negative."""
    if wanted is int:
        return type(value) is int and value >= 0
    if wanted is float:
        return type(value) in (int, float) and math.isfinite(value) and value >= 0
    return isinstance(value, str)


def _params(record: Any, where: str) -> TraceParams:
    try:
        return _build(TraceParams, record, where)
    except ValueError as err:
        problem, mend = str(err).split("; ", 1)
        raise UserError(where, problem, mend) from err


def _sums(record: Any, where: str) -> VideoSums:
    sums = _build(VideoSums, record, where)
    if sums.n_match > min(sums.n_ref, sums.n_gen):
        problem = f"{sums.n_match} matched of {sums.n_ref} and {sums.n_gen}"
        raise UserError(where, problem, _MEND)
    return sums


def _check_whole(
    path: str | Path, per_video: Mapping[str, VideoSums], pairs: Sequence[Pair]
) -> None:
    """Refuse pairs that do not belong to the sums beside them."""
    if len({(p.video_id, p.ref_idx) for p in pairs}) != len(pairs):
        raise UserError(path, "a reference stands in two pairs", _MEND)
    counts = Counter(p.video_id for p in pairs)
    for video_id in sorted(counts.keys() | per_video.keys()):
        wanted = per_video[video_id].n_match if video_id in per_video else 0
        if counts[video_id] != wanted:
            problem = f"{counts[video_id]} pair(s) of video {video_id!r}, {wanted} in its sums"
            raise UserError(path, problem, _MEND)


def check_alike(a: ScoreFile, b: ScoreFile) -> None:
    """Refuse two files whose scores do not measure the same thing."""
    for field in fields(TraceParams):
        values = [getattr(f.sums.params, field.name) for f in (a, b)]
        if values[0] != values[1]:
            problem = f"{field.name} is {values[1]!r}, but {values[0]!r} in {a.path}"
            raise UserError(b.path, problem, "score both with the same parameters")
    if a.embedder != b.embedder:
        problem = f"its embedder is {b.embedder}, but {a.embedder} in {a.path}"
        raise UserError(b.path, problem, "score both with the same --embedder")
    for video_id, sums in a.sums.per_video.items():
        n_ref = b.sums.per_video.get(video_id, sums).n_ref
        if n_ref != sums.n_ref:
            problem = f"{n_ref} reference(s) for video {video_id!r}, {sums.n_ref} in {a.path}"
            raise UserError(b.path, problem, "score both against the same references")
    for video_id in a.sources.keys() & b.sources.keys():
        if a.sources[video_id] != b.sources[video_id]:
            problem = f"{video_id!r} is of {b.sources[video_id]!r}, not as in {a.path}"
            raise UserError(b.path, problem, "score both against the same references")
    for key in a.pairs.keys() & b.pairs.keys():
        if not _same_reference(a.pairs[key], b.pairs[key]):
            problem = f"reference {key[1]} of video {key[0]!r} is another one than in {a.path}"
            raise UserError(b.path, problem, "score both against the same references")


def _same_reference(a: Pair, b: Pair) -> bool:
    apart = max(abs(a.ref_start - b.ref_start), abs(a.ref_end - b.ref_end))
    return a.ref_text == b.ref_text and apart <= TOLERANCE
