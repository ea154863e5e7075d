"""The special tokens of a stream, in one place.

Input: a Hugging Face tokenizer and a `TokenSpec` (which token plays which part).
Output: `StreamTokens`, the ids that sequences, policies and models share.
Invariant: BOS and EOS are single tokens of the vocabulary; the frame id never reaches
the embedding table (its embedding is replaced by vision features).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlm_tsi.errors import UserError

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, kw_only=True)
class TokenSpec:
    """Which strings open and close speech.

    `bos` and `eos` must be one token each; `frame` is a token of the vocabulary or empty
    (then its id is the first one past the vocabulary, as in released checkpoints). A role
    prefix is fed, not predicted: the paper keeps BOS itself out of the context.
    """

    bos: str = "<bos>"
    eos: str = "<eos>"
    frame: str = "<frame>"
    system_prefix: str = "<system>"
    user_prefix: str = "<user>"
    assistant_prefix: str = "<assistant>"


@dataclass(frozen=True)
class StreamTokens:
    """Ids of one tokenizer's special tokens; `prefixes` maps a role to its prefix ids."""

    bos_id: int
    eos_id: int
    frame_id: int
    prefixes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    tokens_per_frame: int = 1

    def to_dict(self) -> dict[str, Any]:
        """A JSON value from which `StreamTokens(**value)` gives the same object."""
        return {
            "bos_id": self.bos_id,
            "eos_id": self.eos_id,
            "frame_id": self.frame_id,
            "prefixes": {role: list(ids) for role, ids in self.prefixes.items()},
            "tokens_per_frame": self.tokens_per_frame,
        }


def encoder(tokenizer: Any) -> Encode:
    """The tokenizer as a function from text to ids, without added special tokens."""
    return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]


def stream_tokens(tokenizer: Any, spec: TokenSpec, tokens_per_frame: int) -> StreamTokens:
    """Look the spec's strings up in the tokenizer.

    Raises:
        UserError: if BOS, EOS or the frame string is not exactly one known token.
    """
    encode = encoder(tokenizer)
    if not encode(spec.assistant_prefix):
        problem = f"{spec.assistant_prefix!r} has no token"
        raise UserError("tokens.assistant_prefix", problem, "the first word is predicted from it")
    unknown = getattr(tokenizer, "unk_token_id", None)
    frame_id = _single(encode, "frame", spec.frame, unknown) if spec.frame else len(tokenizer)
    return StreamTokens(
        bos_id=_single(encode, "bos", spec.bos, unknown),
        eos_id=_single(encode, "eos", spec.eos, unknown),
        frame_id=frame_id,
        prefixes={
            "system": encode(spec.system_prefix),
            "user": encode(spec.user_prefix),
            "assistant": encode(spec.assistant_prefix),
        },
        tokens_per_frame=tokens_per_frame,
    )


def _single(encode: Encode, name: str, text: str, unknown: int | None) -> int:
    ids = encode(text)
    if len(ids) != 1 or ids[0] == unknown:
        told = f"is {len(ids)} tokens in" if len(ids) != 1 else "is unknown to"
        mend = "name a string that is one token of it"
        raise UserError(f"tokens.{name}", f"{text!r} {told} this tokenizer", mend)
    return ids[0]
