"""Frame features on disk: computed once, read by memory map.

Input: a video's content key, frame times [F] (s) and features [F,T,D].
Output: the same, the features as a tensor that maps the file (nothing is read until used).
Invariant: an entry is found only under the same video content, encoder key and dtype; it
appears whole or not at all, so several processes may share a store; a damaged entry is
named, never returned (damage that leaves sizes and times as they should be is not seen).
Changes to a returned tensor stay in memory.

Shapes: F frames, T tokens a frame, D features.

A store is `root/<encoder key's hash>/<2 hex>/<content key>.feat`, each file: a header of
128 bytes (magic, hash of the entry's name, F, T, D), times as F float64, features as
F*T*D values; little-endian. A video that was read with a warning has it in
`<content key>.txt` beside its entry. `encoder.txt` holds the encoder key in words.
"""

import contextlib
import hashlib
import os
import re
import struct
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from vlm_tsi.errors import UserError, os_error
from vlm_tsi.files import atomic_path, write_text

WHOLE_BELOW = 8 << 20
"""Bytes: a smaller video is hashed whole."""
CHUNK = 1 << 20
"""Bytes hashed at head, middle and tail of a larger one."""

Dtype = Literal["bfloat16", "float16", "float32"]
_MAGIC = b"TSIFEAT1"
_HEADER = struct.Struct("<8s32sQQQ")
_TIMES_AT = 128


def content_key(path: str | Path) -> str:
    """A video's key by content: 64 hex digits, the same wherever the file lies.

    SHA-256 of the size and the whole file, or (from `WHOLE_BELOW` bytes on) of the size
    and `CHUNK` bytes each from its head, middle and tail. Two large files of one size that
    differ only between these chunks share a key.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest = hashlib.sha256(size.to_bytes(8, "little"))
            for start, length in _chunks(size):
                file.seek(start)
                digest.update(file.read(length))
    except OSError as err:
        raise os_error(path, err) from err
    return digest.hexdigest()


def _chunks(size: int) -> list[tuple[int, int]]:
    if size < WHOLE_BELOW:
        return [(0, size)]
    return [(0, CHUNK), ((size - CHUNK) // 2, CHUNK), (size - CHUNK, CHUNK)]


class FeatureStore:
    """Features of many videos by one encoder with one sampling."""

    def __init__(self, root: str | Path, encoder_key: str, dtype: Dtype = "bfloat16") -> None:
        """Name the store; nothing is written before the first `put`.

        Args:
            root: folder that may hold the stores of many encoders.
            encoder_key: says all that the features depend on: the encoder and its weights,
                frames a second, frame size, pooling.
            dtype: how features are kept.
        """
        self.root = Path(root)
        self.dtype = getattr(torch, dtype)
        self.encoder_key = f"{encoder_key}\ndtype={dtype}"
        name = hashlib.sha256(self.encoder_key.encode()).hexdigest()[:32]
        self.folder = self.root / name

    def path(self, key: str) -> Path:
        """Where the entry of a content key lies, or would lie."""
        if not re.fullmatch(r"\w[\w-]*", key):
            raise ValueError(f"{key!r} is not a key; use content_key(video)")
        return self.folder / key[:2] / f"{key}.feat"

    def has(self, key: str) -> bool:
        """Whether there is an entry (it may be damaged: `get` tells)."""
        return self.path(key).is_file()

    def is_whole(self, key: str) -> bool:
        """Whether there is an entry that can be read."""
        try:
            self.get(key)
        except UserError:
            return False
        return True

    def put(
        self, key: str, times_F: np.ndarray, features_FTD: torch.Tensor, warning: str = ""
    ) -> Path:
        """Keep a video's frame times (s) and features [F,T,D]; an older entry is replaced.

        `warning` says what was amiss with the video while its frames were read.

        Raises:
            UserError: it cannot be written.
            ValueError: shapes that do not fit, times that do not increase, NaN or infinity.
        """
        times_F = np.ascontiguousarray(times_F, "<f8")
        kept_FTD = features_FTD.detach().to("cpu", self.dtype).contiguous()
        _check(times_F, kept_FTD)
        header = _HEADER.pack(_MAGIC, self._name(key), *kept_FTD.shape)
        target = self.path(key)
        if warning:  # before the entry: who sees the entry sees the warning
            write_text(target.with_suffix(".txt"), warning + "\n")
        with atomic_path(target) as temp, temp.open("wb") as file:
            file.write(header.ljust(_TIMES_AT, b"\0"))
            file.write(times_F.tobytes())
            file.write(kept_FTD.view(torch.uint8).numpy().data)
        label = self.folder / "encoder.txt"
        if not label.exists():
            write_text(label, self.encoder_key + "\n")
        return target

    def get(self, key: str) -> tuple[np.ndarray, torch.Tensor]:
        """Frame times float64 [F] (s) and features [F,T,D], mapped from the file.

        Raises:
            UserError: no such entry, or a damaged one.
        """
        path = self.path(key)
        mapped = _mapped(path)
        size = len(mapped)
        if size <= _TIMES_AT:
            raise _damaged(path, f"has only {size} bytes")
        frames, tokens, width = self._shape(path, key, bytes(mapped[:_TIMES_AT].numpy()))
        features_at = _TIMES_AT + 8 * frames
        if size != features_at + frames * tokens * width * self.dtype.itemsize:
            raise _damaged(path, f"has {size} bytes, not what its header says")
        times_F = mapped[_TIMES_AT:features_at].view(torch.float64).numpy()
        if not _is_increasing(times_F):
            raise _damaged(path, "its times do not increase")
        features = mapped[features_at:].view(self.dtype)
        return times_F, features.view(frames, tokens, width)

    def warning(self, key: str) -> str:
        """What was amiss with the entry's video (one line, without its name); "" if nothing."""
        try:
            return self.path(key).with_suffix(".txt").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def _name(self, key: str) -> bytes:
        return hashlib.sha256(f"{self.encoder_key}\n{key}".encode()).digest()

    def _shape(self, path: Path, key: str, header: bytes) -> tuple[int, int, int]:
        magic, name, *shape = _HEADER.unpack_from(header)
        if magic != _MAGIC:
            raise _damaged(path, "is no feature file")
        if name != self._name(key):
            raise _damaged(path, "belongs to another video or encoder")
        return shape[0], shape[1], shape[2]


def _mapped(path: Path) -> torch.Tensor:
    """The whole file as uint8, mapped privately; no descriptor stays open.

    If another process replaces the file between the look at its size and the mapping, look
    again.
    """
    while True:
        before = _identity(path)
        if before is None:
            raise UserError(path, "no features of this video", "extract them first")
        size, mapped = before[0], None
        with contextlib.suppress(RuntimeError):
            mapped = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
        if _identity(path) != before:
            continue
        if mapped is None:
            raise _damaged(path, "cannot be mapped")
        return mapped


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_ino, stat.st_mtime_ns


def _check(times_F: np.ndarray, features_FTD: torch.Tensor) -> None:
    if sys.byteorder != "little":
        raise NotImplementedError("feature stores are little-endian")
    shape = list(features_FTD.shape)
    if len(shape) != 3 or times_F.shape != (shape[0],) or 0 in shape:
        raise ValueError(f"times {list(times_F.shape)} and features {shape}; use [F] and [F,T,D]")
    if not _is_increasing(times_F):
        raise ValueError("times must be finite and increase")
    if not torch.isfinite(features_FTD).all():
        raise ValueError(f"features hold NaN or infinity (as {features_FTD.dtype})")


def _is_increasing(times_F: np.ndarray) -> bool:
    return bool(np.isfinite(times_F).all() and (np.diff(times_F) > 0).all())


def _damaged(path: Path, problem: str) -> UserError:
    return UserError(path, f"damaged features: {problem}", "delete the file and extract again")
