"""Training of the two classifiers.

Input: halves with labels, the embeddings of their sentences, which to train on, a seed.
Output: a `Classifier`.
Invariant: the same input and seed give the same weights, one thread; no label of a test sentence
is read. (Its words may be, as the context of others: a random split cuts through halves.)
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from data_prep.soccernet.pbp_data import Half, Split
from data_prep.soccernet.pbp_features import Features
from data_prep.soccernet.pbp_model import (
    Classifier,
    ContextTagger,
    EmbedderId,
    Kind,
    PaperLstm,
    window_rows,
    with_zeros,
)


@dataclass(frozen=True, kw_only=True)
class LstmRecipe:
    """The paper's classifier; batch size, patience and epochs are not given there."""

    hidden: int = 256
    dropout: float = 0.3
    learning_rate: float = 1e-4
    batch_size: int = 32
    patience: int = 2
    most_epochs: int = 30


@dataclass(frozen=True, kw_only=True)
class ContextRecipe:
    """The classifier that reads both sides; a fixed number of epochs, several networks."""

    hidden: int = 64
    dropout: float = 0.3
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    batch_size: int = 8
    chunk: int = 48
    epochs: int = 20
    members: int = 3


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """How each kind is trained."""

    lstm: LstmRecipe = field(default_factory=LstmRecipe)
    context: ContextRecipe = field(default_factory=ContextRecipe)

    def settings(self, kind: Kind) -> dict[str, Any]:
        """JSON form of one of them."""
        return asdict(self.lstm if kind == "lstm" else self.context)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Labelled halves and the embeddings [N, D] of all their sentences, half after half."""

    halves: tuple[Half, ...]
    embeddings_ND: np.ndarray

    @property
    def lengths(self) -> list[int]:
        """Sentences of each half."""
        return [len(half.sentences) for half in self.halves]

    @property
    def labels(self) -> np.ndarray:
        """[N] bool."""
        return np.concatenate([half.labels for half in self.halves])

    def spans(self) -> list[np.ndarray]:
        """The rows of each half."""
        return np.split(np.arange(sum(self.lengths)), np.cumsum(self.lengths)[:-1])

    def scores(self, classifier: Classifier) -> np.ndarray:
        """[N] probabilities of all sentences."""
        pairs = zip(self.halves, self.spans(), strict=True)
        return np.concatenate([classifier.scores(h, self.embeddings_ND[rows]) for h, rows in pairs])


def fit(
    kind: Kind, corpus: Corpus, split: Split, embedder: EmbedderId, seed: int, recipes: Recipes
) -> Classifier:
    """Train one classifier; no label of the split's test part is read."""
    torch.set_num_threads(1)  # sums of several threads depend on their number
    if kind == "lstm":
        member = _fit_lstm(corpus, split, seed, recipes.lstm)
        return Classifier("lstm", (member,), None, embedder)
    train = learned_from(kind, split)
    return _fit_context(corpus, train, embedder, seed, recipes.context)


def learned_from(kind: Kind, split: Split) -> np.ndarray:
    """Whose labels set the weights: the LSTM needs the validation part to stop by."""
    if kind == "lstm":
        return split.train
    return np.union1d(split.train, split.valid)


def _fit_lstm(corpus: Corpus, split: Split, seed: int, recipe: LstmRecipe) -> PaperLstm:
    """AdamW until the validation loss has not fallen for `patience` epochs; the best is kept."""
    torch.manual_seed(seed)
    vectors, targets = with_zeros(corpus.embeddings_ND), torch.from_numpy(corpus.labels).float()
    rows = torch.from_numpy(window_rows(corpus.lengths))
    model = PaperLstm(vectors.shape[1], hidden=recipe.hidden, dropout=recipe.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate)
    train, valid = torch.from_numpy(split.train), torch.from_numpy(split.valid)
    best, weights, since = math.inf, model.state_dict(), 0
    for _ in range(recipe.most_epochs):
        model.train()
        for batch in train[torch.randperm(len(train))].split(recipe.batch_size):
            loss = cross_entropy(model(vectors[rows[batch]]), targets[batch])
            _step(optimizer, loss)
        loss_now = _loss(model, vectors, rows, targets, valid)
        since += 1
        if loss_now < best:
            best, weights, since = loss_now, copy.deepcopy(model.state_dict()), 0
        if since >= recipe.patience:
            break
    model.load_state_dict(weights)
    return model


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _loss(model: nn.Module, vectors: Tensor, rows: Tensor, targets: Tensor, part: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(vectors[rows[batch]]) for batch in part.split(256)])
    return float(cross_entropy(logits, targets[part]))


def _fit_context(
    corpus: Corpus, train: np.ndarray, embedder: EmbedderId, seed: int, recipe: ContextRecipe
) -> Classifier:
    features = Features.fit(corpus.halves, corpus.embeddings_ND, train)
    pairs = zip(corpus.halves, corpus.spans(), strict=True)
    rows = [features.of(half, corpus.embeddings_ND[span]) for half, span in pairs]
    inputs_NF = torch.from_numpy(np.concatenate(rows))
    members = [
        _fit_tagger(corpus, inputs_NF, train, seed + 1000 * k, recipe)
        for k in range(recipe.members)
    ]
    return Classifier("context", tuple(members), features, embedder)


def _fit_tagger(
    corpus: Corpus, inputs_NF: Tensor, train: np.ndarray, seed: int, recipe: ContextRecipe
) -> ContextTagger:
    """One network; sentences outside `train` are read as context, their labels are not."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    is_train = np.zeros(len(inputs_NF), dtype=bool)
    is_train[train] = True
    targets = torch.from_numpy(np.where(is_train, corpus.labels, False)).float()
    spans = [span for span in corpus.spans() if is_train[span].any()]
    model = ContextTagger(inputs_NF.shape[1], hidden=recipe.hidden, dropout=recipe.dropout)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    for epoch in range(recipe.epochs):
        chunks = _chunks(spans, recipe.chunk, rng)
        batches = list(_batches(chunks, recipe.batch_size))
        for i, (rows_BT, is_there_BT) in enumerate(batches):
            rate = _rate((epoch + i / len(batches)) / recipe.epochs)
            optimizer.param_groups[0]["lr"] = recipe.learning_rate * rate
            inputs_BTF = inputs_NF[rows_BT] * is_there_BT[..., None]
            counts_BT = is_there_BT & torch.from_numpy(is_train)[rows_BT]
            if counts_BT.any():
                logits = model(inputs_BTF)[counts_BT]
                _step_clipped(model, optimizer, cross_entropy(logits, targets[rows_BT][counts_BT]))
    return model


def _step_clipped(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def _rate(progress: float) -> float:
    """Share of the learning rate: up over the first 15%, then down by a half cosine."""
    warm = 0.15
    if progress < warm:
        return 0.04 + 0.96 * progress / warm
    return 0.5 * (1 + math.cos(math.pi * (progress - warm) / (1 - warm)))


def _chunks(spans: Sequence[np.ndarray], size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Halves cut at another place in every epoch, in random order."""
    chunks: list[np.ndarray] = []
    for span in spans:
        cuts = np.arange(rng.integers(1, size + 1), len(span), size)
        chunks += np.split(span, cuts)
    rng.shuffle(chunks)  # type: ignore[arg-type]
    return chunks


def _batches(chunks: Sequence[np.ndarray], size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows [B, T] of some chunks, and where they are not padding."""
    for i in range(0, len(chunks), size):
        some = chunks[i : i + size]
        rows = np.zeros((len(some), max(map(len, some))), dtype=np.int64)
        is_there = np.zeros(rows.shape, dtype=bool)
        for k, chunk in enumerate(some):
            rows[k, : len(chunk)], is_there[k, : len(chunk)] = chunk, True
        yield torch.from_numpy(rows), torch.from_numpy(is_there)
