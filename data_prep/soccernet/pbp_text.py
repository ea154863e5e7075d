"""What a sentence says once its names are gone.

Input: texts. Output: [N, K] float32: n-grams of letters, weighted and reduced.
Invariant: a text's vector depends on the fitted space, the text, and which words its half writes
small; a word is taken for a name if it is capitalised here and was never seen in small letters,
so that a new match's players look like those of the matches learned from.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

NAME, NUMBER = "NAME", "NUM"
LETTERS, WORDS = (2, 3, 4), (1, 2, 3)
MIN_SENTENCES = 3
"""In how many sentences an n-gram must occur to count."""
ITERATIONS, OVERSAMPLED = 8, 32
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[!?,.]")


def small_words(texts: Iterable[str]) -> set[str]:
    """The words that occur in small letters."""
    return {word for text in texts for word in _TOKEN.findall(text) if word.islower()}


def without_names(text: str, known: set[str] | frozenset[str]) -> str:
    """The text in small letters, a run of names as NAME and a number as NUM.

    Args:
        text: as transcribed.
        known: words that are no names, in small letters.
    """
    plain: list[str] = []
    for word in _TOKEN.findall(text):
        is_first_person = re.split("['’]", word)[0] == "I"
        if word[0].isdigit():
            word = NUMBER
        elif word[0].isupper() and not is_first_person and word.lower() not in known:
            word = NAME
        else:
            word = word.lower()
        if not (word == NAME and plain and plain[-1] == NAME):
            plain.append(word)
    return " ".join(plain)


def grams(plain: str) -> Iterator[str]:
    """Runs of 2 to 4 characters inside each word and its two edges, and of 1 to 3 words."""
    words = plain.split()
    for word in words:
        padded = f" {word} "
        for size in LETTERS:
            yield from (padded[i : i + size] for i in range(len(padded) - size + 1))
    for size in WORDS:
        yield from ("\t".join(["", *words[i : i + size]]) for i in range(len(words) - size + 1))


@dataclass(frozen=True, slots=True)
class TextSpace:
    """A fitted space of n-grams.

    Attributes:
        known: words that are no names.
        terms: the n-grams that count.
        idf_V: how rare each is.
        basis_VK: what reduces them, scaled to a mean square of one a feature.
    """

    known: frozenset[str]
    terms: tuple[str, ...]
    idf_V: np.ndarray
    basis_VK: np.ndarray

    @classmethod
    def fit(cls, texts: list[str], size: int) -> "TextSpace":
        """Learn names, n-grams and their main directions from texts (no labels)."""
        known = frozenset(small_words(texts))
        plain = [without_names(text, known) for text in texts]
        seen = Counter(term for text in plain for term in set(grams(text)))
        terms = tuple(sorted(t for t, count in seen.items() if count >= MIN_SENTENCES))
        rarity = [np.log((1 + len(texts)) / (1 + seen[t])) + 1 for t in terms]
        space = cls(known, terms, np.array(rarity, np.float32), np.zeros((len(terms), 0)))
        weights = space._weights(plain)
        size = min(size, *(n - 1 for n in weights.shape))
        basis = _directions(weights.astype(np.float64), max(size, 0))
        scale = np.sqrt(((weights @ basis) ** 2).sum() / max(len(texts) * size, 1)) + 1e-9
        return cls(known, terms, space.idf_V, np.ascontiguousarray(basis / scale, np.float32))

    def of(self, texts: list[str]) -> np.ndarray:
        """[N, K] float32 features of texts; what they write small is no name in them either."""
        known = self.known | small_words(texts)
        return self._weights([without_names(t, known) for t in texts]) @ self.basis_VK

    def _weights(self, plain: list[str]) -> csr_matrix:
        """[N, V] weights: (1 + log count) x rarity, each row of length one."""
        index = {term: i for i, term in enumerate(self.terms)}
        rows, columns, values = [], [], []
        for row, text in enumerate(plain):
            counts = Counter(term for term in grams(text) if term in index)
            found = sorted(index[term] for term in counts)
            value = np.array([1 + np.log(counts[self.terms[i]]) for i in found]) * self.idf_V[found]
            rows += [row] * len(found)
            columns += found
            values += (value / (np.linalg.norm(value) or 1)).tolist()
        shape = (len(plain), len(self.terms))
        return csr_matrix((np.array(values, np.float32), (rows, columns)), shape=shape)


def _directions(weights_NV: csr_matrix, size: int) -> np.ndarray:
    """[V, K] main directions, the strongest first, by subspace iteration.

    Library solvers draw at random where the rank is low, so a run could not be repeated.
    """
    rng = np.random.default_rng(0)
    space_VK = rng.standard_normal((weights_NV.shape[1], size + OVERSAMPLED))
    for _ in range(ITERATIONS):
        space_VK = np.linalg.qr(weights_NV.T @ (weights_NV @ space_VK))[0]
    _, _, rotation = np.linalg.svd(weights_NV @ space_VK, full_matrices=False)
    return space_VK @ rotation.T[:, :size]
