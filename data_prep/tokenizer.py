"""A word-level tokenizer from the texts of timelines and captions.

Input: timeline and caption JSONL files. Output: a folder that transformers' AutoTokenizer
loads, with the special tokens of `TokenSpec`. Invariant: the same files give the same ids
(words in sorted order); one word is one token.

    python -m data_prep.tokenizer --timelines A.jsonl B.jsonl --captions C.jsonl --out DIR
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from vlm_tsi.captions import read_captions
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import atomic_files
from vlm_tsi.sequence.tokens import TokenSpec
from vlm_tsi.timeline import read_timelines


def texts_of(timelines: Sequence[str], captions: Sequence[str]) -> Iterable[str]:
    """Every text of the files: system texts, utterances, captions."""
    for path in timelines:
        for timeline in read_timelines(path):
            yield timeline.system
            yield from (u.text for u in timeline.utterances)
    for path in captions:
        for record in read_captions(path):
            yield from record.captions


def word_tokenizer(texts: Iterable[str], spec: TokenSpec) -> PreTrainedTokenizerFast:
    """One id a word, after padding, unknown and the spec's special tokens."""
    prefixes = (spec.system_prefix, spec.user_prefix, spec.assistant_prefix)
    special = ["<pad>", "<unk>", spec.bos, spec.eos, spec.frame, *prefixes]
    words = sorted({word for text in texts for word in text.split()} - set(special))
    if not words:
        raise UserError("texts", "hold no word", "name files with utterances or captions")
    table = {word: i for i, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = Parser(
        prog="python -m data_prep.tokenizer",
        description="Make a word-level tokenizer.",
        epilog="example: python -m data_prep.tokenizer --timelines train.jsonl --out tokenizer",
    )
    parser.add_argument("--timelines", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--captions", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    args = parser.parse_args(argv)
    tokenizer = word_tokenizer(texts_of(args.timelines, args.captions), TokenSpec())
    with atomic_files(args.out) as folder:
        tokenizer.save_pretrained(folder)
    print(f"{args.out}: {len(tokenizer)} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
