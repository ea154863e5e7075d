"""Which language a half's commentary is in.

Input: its texts. Output: a language code, and its share of the text.
Invariant: the language is that of the most text, chunk by chunk, not of the most segments: a
few names or lines in another language do not tip it. Too little text has no language.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vlm_tsi.errors import UserError

CHUNK = 1000
"""Characters that are judged at once."""
MIN_LETTERS = 40
"""Fewer are no evidence: three names may be Portuguese."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A language code (`en`) and the share of characters that are in it, 0 to 1."""

    language: str
    share: float


def need_detector() -> None:
    """Make sure, before the work, that languages can be told apart.

    Raises:
        UserError: its package is missing.
    """
    try:
        import py3langid  # noqa: F401
    except ImportError as err:
        mend = "pip install 'vlm-tsi[data]'"
        raise UserError("language detection", "py3langid is not installed", mend) from err


def need_codes(codes: Iterable[str]) -> None:
    """Make sure, before the work, that the detector knows these languages.

    Raises:
        UserError: one that it never tells.
    """
    import py3langid

    known = {code for code, _ in py3langid.rank("")}
    for code in codes:
        if code not in known:
            problem = f"{code!r} is no code that the detector knows"
            raise UserError("--languages", problem, "give such as en de fr")


def detect(texts: Iterable[str]) -> Detected | None:
    """The language of most of the text, or None where there are too few letters."""
    import py3langid

    chunks = list(_chunks(texts))
    if sum(c.isalpha() for chunk in chunks for c in chunk) < MIN_LETTERS:
        return None
    weights: Counter[str] = Counter()
    for chunk in chunks:
        weights[py3langid.classify(chunk)[0]] += len(chunk)
    language, weight = max(sorted(weights.items()), key=lambda item: item[1])
    return Detected(language, round(weight / weights.total(), 4))


def _chunks(texts: Iterable[str]) -> Iterator[str]:
    """Texts one after the other, cut between texts once there are `CHUNK` characters."""
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if sum(map(len, chunk)) >= CHUNK:
            yield " ".join(chunk)
            chunk = []
    if chunk:
        yield " ".join(chunk)
