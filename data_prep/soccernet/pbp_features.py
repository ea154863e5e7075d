"""What the classifiers see of a half.

Input: a half's sentences and their sentence embeddings [T, D].
Output: [T, F] float32 features: embedding, n-grams without names, timing.
Invariant: fitted on training sentences without their labels; two halves do not see each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from data_prep.soccernet.pbp_data import Half
from data_prep.soccernet.pbp_text import TextSpace
from data_prep.soccernet.transcript import Segment

EMBEDDING_SIZE, TEXT_SIZE = 128, 128
LEAST_DEVIATION = 0.05
"""A timing value that is the same in all that was learned from must not explode elsewhere."""
LONGEST_GAP, EDGE_GAP = 60.0, 5.0  # s


def timing(sentences: Sequence[Segment]) -> np.ndarray:
    """[T, 7] float32: length in time and words, rate, the gaps around it, "!" and "?".

    The gap before a half's first sentence and after its last is taken as five seconds.
    """
    starts, ends = (np.array([getattr(s, n) for s in sentences]) for n in ("start", "end"))
    words = np.array([len(s.text.split()) for s in sentences], dtype=float)
    seconds = np.maximum(ends - starts, 0)
    gaps = np.concatenate([[EDGE_GAP], starts[1:] - ends[:-1], [EDGE_GAP]])
    pauses = np.log1p(np.clip(gaps, 0, LONGEST_GAP))
    columns = [
        np.log(seconds + 0.1),
        np.log(np.maximum(words, 1)),
        words / np.maximum(seconds, 0.2),
        pauses[:-1],
        pauses[1:],
        *([s.text.endswith(mark) for s in sentences] for mark in "!?"),
    ]
    return np.stack([np.asarray(c, np.float32) for c in columns], axis=1)


@dataclass(frozen=True, slots=True)
class Features:
    """Fitted features.

    Attributes:
        mean_D, basis_DK: centre and main directions of the embeddings, scaled.
        shift_T, scale_T: mean and deviation of each timing value.
        text: the space of n-grams.
    """

    mean_D: np.ndarray
    basis_DK: np.ndarray
    shift_T: np.ndarray
    scale_T: np.ndarray
    text: TextSpace

    @property
    def size(self) -> int:
        """Features a sentence."""
        return self.basis_DK.shape[1] + self.text.basis_VK.shape[1] + len(self.shift_T)

    @classmethod
    def fit(
        cls, halves: Sequence[Half], embeddings_ND: np.ndarray, train: np.ndarray
    ) -> "Features":
        """Fit on the training sentences of some halves.

        Args:
            halves: all of them.
            embeddings_ND: of all their sentences, half after half.
            train: indices of the training sentences.
        """
        texts = [text for half in halves for text in half.texts]
        times = np.concatenate([timing(half.sentences) for half in halves])[train]
        mean, basis = _directions(embeddings_ND[train])
        text = TextSpace.fit([texts[i] for i in train], TEXT_SIZE)
        scale = np.maximum(times.std(axis=0), LEAST_DEVIATION)
        return cls(mean, basis, times.mean(axis=0), scale, text)

    def of(self, half: Half, embeddings_TD: np.ndarray) -> np.ndarray:
        """[T, F] features of a half's sentences."""
        meaning = (embeddings_TD - self.mean_D) @ self.basis_DK
        times = (timing(half.sentences) - self.shift_T) / self.scale_T
        return np.concatenate([meaning, self.text.of(half.texts), times], axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        """What belongs into a tensor file."""
        ours = {name: getattr(self, name) for name in _ARRAYS}
        return ours | {"idf_V": self.text.idf_V, "basis_VK": self.text.basis_VK}

    def words(self) -> dict[str, Any]:
        """What belongs into a JSON file."""
        return {"known": sorted(self.text.known), "terms": list(self.text.terms)}

    @classmethod
    def from_parts(cls, arrays: dict[str, np.ndarray], words: dict[str, Any]) -> "Features":
        """Read back `arrays` and `words`."""
        space = (frozenset(words["known"]), tuple(words["terms"]))
        text = TextSpace(*space, arrays["idf_V"], arrays["basis_VK"])
        mean, basis, shift, scale = (arrays[name] for name in _ARRAYS)
        return cls(mean, basis, shift, scale, text)


_ARRAYS = ("mean_D", "basis_DK", "shift_T", "scale_T")


def _directions(embeddings_ND: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and the main directions scaled so that features have a mean square of one."""
    mean = embeddings_ND.mean(axis=0)
    centred = (embeddings_ND - mean).astype(np.float64)
    basis = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :EMBEDDING_SIZE]
    scale = np.sqrt(((centred @ basis) ** 2).mean()) + 1e-9
    return mean, np.ascontiguousarray(basis / scale, np.float32)
