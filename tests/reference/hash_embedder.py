"""A tiny sentence embedder for tests: words hashed to signs, summed.

Input: texts. Output: [N, 16] vectors. Invariant: the same text gives the same vector, on
every machine; texts that share words are more alike than others.
"""

import hashlib

import numpy as np


def hash_embed(texts: list[str]) -> np.ndarray:
    return np.array([_vector(text) for text in texts]).reshape(len(texts), 16)


def _vector(text: str) -> np.ndarray:
    total = np.zeros(16)
    for word in text.casefold().split():
        digest = hashlib.sha256(word.encode()).digest()[:16]
        total += np.frombuffer(digest, dtype=np.uint8) / 127.5 - 1
    return total


def hash_similarity(a: str, b: str) -> float:
    """(1 + cosine) / 2 of two texts, 1 for equal ones; plain numbers."""
    if a == b:
        return 1.0
    x, y = _vector(a).tolist(), _vector(b).tolist()
    dot = sum(p * q for p, q in zip(x, y, strict=True))
    norm = (sum(p * p for p in x) * sum(q * q for q in y)) ** 0.5
    return min(1.0, max(0.0, (1 + (dot / norm if norm else 0.0)) / 2))
