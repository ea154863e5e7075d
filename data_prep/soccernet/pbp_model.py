"""Two classifiers of play-by-play: the paper's LSTM, and one that reads the whole half.

Input: a half's sentences and their sentence embeddings [T, D].
Output: a probability of play-by-play for each sentence; a folder with `classifier.json` and
`classifier.safetensors`.
Invariant: what is loaded scores as what was saved; a half's scores depend on that half alone.

Shapes: B windows or chunks, L sentences of a window, T sentences of a half or chunk, D embedding,
F features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from data_prep.common.tasks import digest
from data_prep.soccernet.pbp_data import Half
from data_prep.soccernet.pbp_features import Features
from data_prep.soccernet.pbp_metrics import cooled
from vlm_tsi.errors import UserError
from vlm_tsi.files import atomic_path, read_json, write_json
from vlm_tsi.scoring.embed import SentenceEmbedder, fingerprint_of

Kind = Literal["context", "lstm"]
BEFORE = 14
"""Sentences of context before the current one (paper's classifier)."""
CONFIG, WEIGHTS = "classifier.json", "classifier.safetensors"
_FORMAT = 1


class PaperLstm(nn.Module):
    """Two bidirectional LSTM layers of 256, read at the current sentence, the window's last.

    There the second layer's backward direction has seen one sentence only, so one step of it
    is run: the numbers of `nn.LSTM(num_layers=2, bidirectional=True)` for a fifth less work.
    """

    def __init__(self, size: int, *, hidden: int = 256, dropout: float = 0.3) -> None:
        super().__init__()
        self.first = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
        self.onward = nn.LSTM(2 * hidden, hidden, batch_first=True)
        self.back = nn.LSTM(2 * hidden, hidden, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(2 * hidden, 1)

    def forward(self, windows_BLD: Tensor) -> Tensor:
        """Logits [B] of each window's last sentence."""
        hidden_BLH = self.dropout(self.first(windows_BLD)[0])
        onward_BH = self.onward(hidden_BLH)[0][:, -1]
        back_BH = self.back(hidden_BLH[:, -1:])[0][:, 0]
        return self.out(self.dropout(torch.cat([onward_BH, back_BH], dim=1)))[:, 0]


class ContextTagger(nn.Module):
    """One bidirectional LSTM over a whole half, its output joined with the sentence's own."""

    def __init__(self, size: int, *, hidden: int = 64, dropout: float = 0.3) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(2 * hidden + size, 1)

    def forward(self, features_BTF: Tensor) -> Tensor:
        """Logits [B, T] of each sentence."""
        features_BTF = self.dropout(features_BTF)
        context_BTH = self.dropout(self.lstm(features_BTF)[0])
        return self.out(torch.cat([context_BTH, features_BTF], dim=2))[..., 0]


def window_rows(lengths: Sequence[int]) -> np.ndarray:
    """[N, 15] rows of each sentence's window: the 14 before it in its half, then itself.

    Where a half has no sentence so early, the row is N: that of the zeros.

    Args:
        lengths: sentences of each half; N is their sum.
    """
    steps = np.arange(-BEFORE, 1)
    starts = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
    rows = np.arange(sum(lengths))[:, None] + steps
    return np.where(rows >= starts[:, None], rows, sum(lengths))


def with_zeros(embeddings_ND: np.ndarray) -> Tensor:
    """[N + 1, D]: the embeddings and the padding row that `window_rows` points to."""
    zeros = np.zeros((1, embeddings_ND.shape[1]), np.float32)
    return torch.from_numpy(np.concatenate([embeddings_ND.astype(np.float32), zeros]))


@dataclass(frozen=True, slots=True)
class EmbedderId:
    """Which embedder a classifier was trained with: its name and a hash of its weights."""

    name: str
    fingerprint: str

    @classmethod
    def of(cls, embedder: SentenceEmbedder) -> "EmbedderId":
        """Hash the embedder's weights (once; about a second)."""
        return cls(embedder.name, fingerprint_of(embedder.source, embedder.is_local)[:16])


@dataclass(frozen=True, slots=True)
class Classifier:
    """A trained classifier.

    Attributes:
        kind: `context` or `lstm`.
        members: its networks; their probabilities are averaged.
        features: what `context` reads (None for `lstm`, which reads embeddings).
        temperature: by which log odds are divided, so that 0.8 is right four times in five.
        embedder: whose embeddings it reads.
    """

    kind: Kind
    members: tuple[nn.Module, ...]
    features: Features | None
    embedder: EmbedderId
    temperature: float = 1.0

    def scores(self, half: Half, embeddings_TD: np.ndarray) -> np.ndarray:
        """[T] probabilities of play-by-play."""
        if not half.sentences:
            return np.zeros(0)
        with torch.no_grad():
            logits = [self._logits(m.eval(), half, embeddings_TD) for m in self.members]
        probabilities = [torch.sigmoid(logit_T.double()).numpy() for logit_T in logits]
        return cooled(np.mean(probabilities, axis=0), self.temperature)

    def _logits(self, member: nn.Module, half: Half, embeddings_TD: np.ndarray) -> Tensor:
        if self.features is not None:
            features_TF = self.features.of(half, embeddings_TD)
            return member(torch.from_numpy(features_TF)[None])[0]
        rows_TL = torch.from_numpy(window_rows([len(half.sentences)]))
        vectors = with_zeros(embeddings_TD)
        return torch.cat([member(vectors[rows]) for rows in rows_TL.split(256)])

    def cooled(self, temperature: float) -> "Classifier":
        """The same classifier with another temperature."""
        return replace(self, temperature=temperature)


def save(folder: Path, classifier: Classifier, settings: dict[str, Any]) -> None:
    """Write `classifier.safetensors`, then `classifier.json`.

    Args:
        folder: is there already.
        classifier: the trained one.
        settings: how it was trained, for the reader.
    """
    arrays: dict[str, np.ndarray] = {}
    for i, member in enumerate(classifier.members):
        arrays |= {f"member{i}.{k}": v.numpy() for k, v in member.state_dict().items()}
    if classifier.features is not None:
        arrays |= {f"features.{k}": v for k, v in classifier.features.arrays().items()}
    with atomic_path(folder / WEIGHTS) as temp:
        save_file({k: np.ascontiguousarray(v) for k, v in sorted(arrays.items())}, temp)
    embedder = {"name": classifier.embedder.name, "fingerprint": classifier.embedder.fingerprint}
    words = classifier.features.words() if classifier.features is not None else {}
    config = {
        "format": _FORMAT,
        "weights": digest(folder / WEIGHTS),
        "classifier": classifier.kind,
        "embedder": embedder,
        "members": len(classifier.members),
        "temperature": classifier.temperature,
        "settings": settings,
    }
    write_json(folder / CONFIG, config | ({"words": words} if words else {}))


def load(folder: str | Path) -> Classifier:
    """Read back a saved classifier.

    Raises:
        UserError: no classifier there, or one that this version cannot read.
    """
    config = read_json(Path(folder) / CONFIG)
    if not isinstance(config, dict) or config.get("format") != _FORMAT:
        raise UserError(Path(folder) / CONFIG, "not a classifier's file", "train one: train-filter")
    path = Path(folder) / WEIGHTS
    if path.is_file() and config.get("weights") != digest(path):
        problem = f"is not what {CONFIG} was written for"
        raise UserError(path, problem, "train the classifier again: train-filter")
    try:
        return _loaded(config, load_file(path))
    except FileNotFoundError as err:
        raise UserError(path, "is missing", "train the classifier again: train-filter") from err
    except Exception as err:  # safetensors' own error, a missing key or a wrong shape
        problem = f"does not fit {CONFIG} ({str(err).splitlines()[0][:120]})"
        raise UserError(path, problem, "train the classifier again: train-filter") from err


def _loaded(config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Classifier:
    kind: Kind = config["classifier"]
    features = None
    if kind == "context":
        parts = {k.removeprefix("features."): v for k, v in arrays.items() if "member" not in k}
        features = Features.from_parts(parts, config["words"])
    members = tuple(_member(kind, i, arrays) for i in range(config["members"]))
    embedder = EmbedderId(**config["embedder"])
    return Classifier(kind, members, features, embedder, config["temperature"])


def _member(kind: Kind, i: int, arrays: dict[str, np.ndarray]) -> nn.Module:
    prefix = f"member{i}."
    weights = {k.removeprefix(prefix): torch.from_numpy(v) for k, v in arrays.items()
               if k.startswith(prefix)}  # fmt: skip
    first = "lstm" if kind == "context" else "first"
    wide, size = weights[f"{first}.weight_ih_l0"].shape
    network = ContextTagger if kind == "context" else PaperLstm
    member = network(size, hidden=wide // 4)
    member.load_state_dict(weights)
    return member
