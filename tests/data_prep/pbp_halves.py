"""Made-up labelled halves, and a sentence embedder of a few kilobytes.

Input: a folder. Output: files in it. Invariant: the same arguments give the same bytes; what
tells the play can be told from the words, with names that change from match to match.
"""

import json
import random
from pathlib import Path
from typing import Any

PLAY = (
    "{0} to {1}.",
    "{0}.",
    "Now {0}, out to the left.",
    "Corner, taken short by {0}.",
    "{0} with the cross, and it is cleared!",
    "Shot from {0}, saved!",
    "Throw to {1}, back to {0}.",
)
TALK = (
    "They have been waiting for a win since the autumn.",
    "The manager will not have been pleased with that first part of the season.",
    "I think he is one of the best they have brought through.",
    "Last year they would have lost a match like this one.",
    "There has been much talk about whether {0} will stay here.",
    "You wonder what was said in the dressing room.",
)
NAMES = ("Abel", "Bruno", "Cosmo", "Dario", "Egon", "Falk", "Gero", "Hanno", "Ivo", "Jaro")
MATCHES = (
    "north_premier/2001-2002/2001-09-01 - 16-00 Rovers 1 - 0 United",
    "north_premier/2001-2002/2001-09-08 - 16-00 Albion 2 - 2 Wanderers",
    "south_premier/2002-2003/2002-10-05 - 18-00 City 0 - 3 Athletic",
)


def sentences(seed: int, count: int = 40) -> list[dict[str, Any]]:
    """Some sentences of both kinds, two to eight of a kind in a row."""
    rng = random.Random(seed)
    told, clock = [], 1.0
    while len(told) < count:
        is_pbp = rng.random() < 0.5
        for _ in range(rng.randint(2, 8)):
            names = rng.sample(NAMES[seed % 5 :], 2)
            text = rng.choice(PLAY if is_pbp else TALK).format(*names)
            end = clock + rng.uniform(0.2, 0.4) * len(text.split())
            times = {"start": round(clock, 2), "end": round(end, 2)}
            told.append({**times, "text": text, "speaker": "S0", "is_pbp": is_pbp})
            clock = end + rng.choice((0.1, 0.5, 3.0))
    return told[:count]


def put(root: Path, half: str, record: Any) -> Path:
    """Write one transcript."""
    path = root / f"{half}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


def put_labels(root: Path, matches: int = 3, count: int = 40) -> Path:
    """Two labelled halves of each of some matches."""
    for m, match in enumerate(MATCHES[:matches]):
        for h in (1, 2):
            put(root, f"{match}/{h}_224p", {"segments": sentences(10 * m + h, count)})
    return root


def put_embedder(folder: Path) -> Path:
    """A real sentence-transformers folder: each word has a vector, a text the mean of its own."""
    import numpy as np
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    texts = " ".join((*PLAY, *TALK)).lower().format("", "")
    known = sorted(set(texts.replace(".", " ").replace(",", " ").replace("!", " ").split()))
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(["?", *known])}, unk_token="?")
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).standard_normal((len(known) + 1, 12)).astype(np.float32)
    model = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[model], device="cpu").save(str(folder), create_model_card=False)
    return folder
