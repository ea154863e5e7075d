"""Events become utterances.

Input: the engine's events in order and a `decode` from token ids to text. Output: one
`Generated` for each utterance that said something, when it closes, with the times of its
words beside it. Invariant: every closed utterance is either in `finished` or counted in
`empty`; `finished` and `words` have the same length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vlm_tsi.streaming.events import Closed, Event, Opened, Token
from vlm_tsi.timeline import Generated, Word


@dataclass(slots=True)
class _Draft:
    opened: Opened
    tokens: list[Token] = field(default_factory=list)


class Recorder:
    """Writes down what is said over one video.

    Args:
        video_id: stands in each `Generated`.
        scheme: likewise (`tsi`, `turn_based`).
        decode: token ids of one utterance -> text, special tokens left out.
    """

    def __init__(self, video_id: str, scheme: str, decode: Callable[[list[int]], str]) -> None:
        self.video_id, self.scheme, self._decode = video_id, scheme, decode
        self.finished: list[Generated] = []
        self.words: list[tuple[Word, ...]] = []
        self.empty = 0
        self._drafts: dict[int, _Draft] = {}

    def feed(self, event: Event) -> Generated | None:
        """Take one event; give the utterance that it completes, if any.

        Raises:
            ValueError: the events are not Opened, Token*, Closed for an utterance.
        """
        is_open = event.utterance_idx in self._drafts
        if is_open == isinstance(event, Opened):
            raise ValueError(f"{event} where utterance is {'open' if is_open else 'not open'}")
        if isinstance(event, Opened):
            self._drafts[event.utterance_idx] = _Draft(event)
        elif isinstance(event, Token):
            self._drafts[event.utterance_idx].tokens.append(event)
        else:
            return self._close(self._drafts.pop(event.utterance_idx), event)
        return None

    @property
    def open_text(self) -> str | None:
        """The text so far of the utterance opened last; None while nobody speaks."""
        if not self._drafts:
            return None
        return self._text(self._drafts[max(self._drafts)].tokens)

    @property
    def open_start(self) -> float:
        """When the utterance opened last began (s); it must be open."""
        return self._drafts[max(self._drafts)].opened.time

    def _close(self, draft: _Draft, closed: Closed) -> Generated | None:
        text = self._text(draft.tokens)
        if not text:
            self.empty += 1
            return None
        spoken = Generated(
            video_id=self.video_id,
            start=draft.opened.time,
            end=closed.end,
            text=text,
            end_is_estimated=closed.end_is_estimated,
            num_tokens=len(draft.tokens),
            trigger_frame_idx=draft.opened.frame_idx,
            closed_by=closed.closed_by,
            scheme=self.scheme,
        )
        self.finished.append(spoken)
        self.words.append(self._word_times(draft.tokens))
        return spoken

    def _text(self, tokens: Sequence[Token]) -> str:
        """Decoded text; half a character at the end (a byte token) is held back."""
        return self._decode([t.token_id for t in tokens]).rstrip("\ufffd").strip()

    def _word_times(self, tokens: Sequence[Token]) -> tuple[Word, ...]:
        """A word runs from the token that begins it to the last token that changes it."""
        spans: list[list[float]] = []
        before: list[str] = []
        for i, token in enumerate(tokens):
            words = self._text(tokens[: i + 1]).split()
            for j, word in enumerate(words):
                if j >= len(spans):
                    spans.append([token.time, token.end])
                elif j >= len(before) or word != before[j]:
                    spans[j][1] = max(spans[j][1], token.end)
            before = words
        return tuple(Word(w, *span) for w, span in zip(before, spans, strict=False))
