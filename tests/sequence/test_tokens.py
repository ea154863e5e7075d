"""Special tokens: one token each, or one line that says which is not."""

from dataclasses import replace

import pytest

from tests.tiny import tiny_tokenizer
from vlm_tsi.errors import UserError
from vlm_tsi.sequence.tokens import StreamTokens, TokenSpec, encoder, stream_tokens

SPEC = TokenSpec()


@pytest.mark.parametrize("part", ["bos", "eos", "frame"])
def test_a_mark_of_two_tokens_is_refused_in_one_line(part: str) -> None:
    spec = replace(SPEC, **{part: "red lamp"})
    with pytest.raises(UserError, match=rf"tokens\.{part}: 'red lamp' is 2 tokens") as err:
        stream_tokens(tiny_tokenizer(), spec, 1)
    assert "\n" not in str(err.value)


def test_an_assistant_without_a_prefix_is_refused() -> None:
    with pytest.raises(UserError, match="assistant_prefix"):
        stream_tokens(tiny_tokenizer(), replace(SPEC, assistant_prefix=""), 1)


def test_a_frame_without_a_name_stands_past_the_vocabulary() -> None:
    tokenizer = tiny_tokenizer()
    tokens = stream_tokens(tokenizer, replace(SPEC, frame=""), 3)
    assert tokens.frame_id == len(tokenizer) and tokens.tokens_per_frame == 3


def test_ids_survive_json() -> None:
    tokens = stream_tokens(tiny_tokenizer(), SPEC, 2)
    assert StreamTokens(**tokens.to_dict()) == tokens


def test_a_mark_that_the_tokenizer_does_not_know_is_refused() -> None:
    """One unknown token would stand for every unknown word."""
    with pytest.raises(UserError, match=r"tokens\.bos: '<say>' is unknown to this tokenizer"):
        stream_tokens(tiny_tokenizer(), replace(SPEC, bos="<say>"), 1)


def test_texts_get_no_special_tokens() -> None:
    tokenizer = tiny_tokenizer()
    assert encoder(tokenizer)(" red lamp") == tokenizer.convert_tokens_to_ids(["red", "lamp"])
