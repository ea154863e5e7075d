"""The words of a guidance turn, from a step's description or its place in the taxonomy.

Input: a step's description ("Stirs the soup."), its category ("Stir and mix: Stir soup"), and
the verbs of the whole file. Output: an instruction ("stir the soup") and a sentence with it.
Invariant: the same seed, video and turn give the same sentence.
"""

import hashlib
from collections.abc import Iterable, Iterator

STEP = ("Now {0}.", "Next, {0}.", "The next step: {0}.", "It is time to {0}.")
PARENT = ("The next step is to {0}.", "Now we {0}.", "Next we {0}.")
SUBSTEP = ("{1}.", "Now {0}.", "Then {0}.", "Please {0}.")
AGAIN = ("Go on: {0}.", "Carry on: {0}.", "Back to it: {0}.")


def category_phrase(category: str) -> str:
    """The taxonomy's own instruction: what stands behind the last colon."""
    return _lowered(category.rsplit(":", 1)[-1])


def verbs_of(phrases: Iterable[str]) -> frozenset[str]:
    """First words that may be verbs, in lower case."""
    return frozenset(_first(p) for p in phrases if p)


def instruction(description: str, category: str, verbs: frozenset[str]) -> str:
    """What to do, in the imperative, without a capital or a full stop; empty if unknown.

    Descriptions come as "stir", "stirs" or "stirring"; the base form is looked up among the
    file's own first words. One that looks inflected and is not found gives way to the category.
    """
    phrase, fallback = _lowered(description), category_phrase(category)
    if not phrase:
        return fallback
    verb, _, rest = phrase.partition(" ")
    base = _base(verb, verbs)
    if not base:
        return fallback or phrase
    return f"{base} {rest}".strip()


def _lowered(text: str) -> str:
    """One phrase without outer punctuation, its first word in lower case unless it is a name."""
    phrase = text.strip(" .,;:!?`'\"")
    first, _, rest = phrase.partition(" ")
    is_name = len(first) > 1 and first.isupper()
    return phrase if is_name else f"{first.lower()} {rest}".strip()


def _first(phrase: str) -> str:
    return _lowered(phrase).partition(" ")[0]


def _base(verb: str, verbs: frozenset[str]) -> str:
    """The base form of a first word; empty if it looks inflected and is not known."""
    inflected = (verb.endswith("s") and not verb.endswith("ss")) or verb.endswith("ing")
    if not inflected:
        return verb
    return next((b for b in _candidates(verb) if b in verbs), "")


def _candidates(verb: str) -> Iterator[str]:
    if verb.endswith("ing"):
        stem = verb[:-3]
        yield from (stem, stem + "e")
        if len(stem) > 2 and stem[-1] == stem[-2]:
            yield stem[:-1]
        return
    yield verb[:-1]
    if verb.endswith("ies"):
        yield verb[:-3] + "y"
    if verb.endswith("es"):
        yield verb[:-2]


def sentence(phrase: str, templates: tuple[str, ...], *key: object) -> str:
    """A template with the phrase in it, chosen by the key (seed, video, turn)."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    template = templates[int.from_bytes(digest[:4], "big") % len(templates)]
    return template.format(phrase, phrase[:1].upper() + phrase[1:])
