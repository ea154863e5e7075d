"""How a run streams: what the user chose, the rest from the model's config.

Input: options, a model. Output: `StreamSettings` without gaps, and the `Decoding` of one
stream. Invariant: a stream's random draws depend on the seed and the stream's name alone,
so that neither order nor number of processes changes what is said.
"""

import math
import zlib
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from vlm_tsi.errors import UserError
from vlm_tsi.sequence.interleave import SchemeName
from vlm_tsi.streaming.cache import is_relative
from vlm_tsi.streaming.policy import Pick, Policy, Tsi, TurnBased, greedy, sampler
from vlm_tsi.streaming.protocol import Decoding
from vlm_tsi.streaming.window import Keep, Window, widest_window

Rounding = Literal["accumulate", "ceil"]


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """Options of a run; None stands for what the model's config says.

    Attributes:
        policy: `tsi` or `turn_based`.
        threshold: turn-based: speak where silence is less likely than this.
        fps: frames a second that the model sees.
        system: text given before anything happens (None: the timeline's own, or nothing).
        temperature: 0 takes the likeliest token; above, tokens are drawn with `seed`.
        rounding, max_tokens, eager_close, onset: see `StreamEngine`.
        window: seconds of frames that are kept; `trained` keeps as much as the language model
            was made for, `none` all.
        window_text: tokens of text that are kept, whatever their age.
        window_keep: which frames, see `Window`.
    """

    policy: SchemeName | None = None
    threshold: float | None = None
    fps: float | None = None
    system: str | None = None
    temperature: float = 0.0
    seed: int = 0
    rounding: Rounding = "accumulate"
    max_tokens: int = 128
    eager_close: bool | None = None
    onset: float | None = None
    window: float | Literal["trained", "none"] = "trained"
    window_text: int = 256
    window_keep: Keep = "recent"

    def __post_init__(self) -> None:
        _check("policy", self.policy, self.policy in (None, *get_args(SchemeName)),
               f"use one of {', '.join(get_args(SchemeName))}")  # fmt: skip
        in_range = self.threshold is None or 0 <= self.threshold <= 1
        _check("threshold", self.threshold, in_range, "use a probability from 0 to 1")
        is_rate = self.fps is None or 0 < self.fps < math.inf
        _check("fps", self.fps, is_rate, "use a number above 0")
        is_warm = 0 <= self.temperature < math.inf
        _check("temperature", self.temperature, is_warm, "use 0 (the likeliest token) or more")
        _check("rounding", self.rounding, self.rounding in get_args(Rounding),
               f"use one of {', '.join(get_args(Rounding))}")  # fmt: skip
        in_gap = self.onset is None or 0 <= self.onset <= 1
        _check("onset", self.onset, in_gap, "use a share of the frame gap from 0 to 1")
        _check("system", self.system, _is_text(self.system), "use UTF-8 text")
        _check("max-tokens", self.max_tokens, self.max_tokens >= 1, "use 1 or more")
        is_span = self.window in ("trained", "none") or (
            not isinstance(self.window, str) and 0 < self.window < math.inf
        )
        _check("window", self.window, is_span, "use seconds above 0, trained or none")
        _check("window-text", self.window_text, self.window_text >= 0, "use 0 or more tokens")
        _check("window-keep", self.window_keep, self.window_keep in get_args(Keep),
               f"use one of {', '.join(get_args(Keep))}")  # fmt: skip


def _is_text(text: str | None) -> bool:
    """Command lines may hold bytes that are none."""
    return text is None or text.encode(errors="ignore").decode() == text


def _check(name: str, value: object, is_good: bool, mend: str) -> None:
    if not is_good:
        raise UserError(name, f"is {value!r}", mend)


def resolved(settings: StreamSettings, config: Any) -> StreamSettings:
    """Fill what was left open from a `VlmTsiConfig`."""
    return replace(
        settings,
        policy=settings.policy or config.scheme,
        threshold=config.silence_threshold if settings.threshold is None else settings.threshold,
        fps=settings.fps or config.fps,
        eager_close=config.eager_close if settings.eager_close is None else settings.eager_close,
        onset=config.onset if settings.onset is None else settings.onset,
    )


def decoding_for(settings: StreamSettings, model: Any, name: str) -> Decoding:
    """The decoding of the stream `name`, with a policy of its own."""
    chosen = resolved(settings, model.config)
    assert chosen.fps is not None
    return Decoding(
        policy=_policy(chosen, model, name),
        tokens_per_second=model.config.tokens_per_second,
        frame_gap=1 / chosen.fps,
        rounding=chosen.rounding,
        max_tokens=chosen.max_tokens,
        eager_close=bool(chosen.eager_close),
        onset=chosen.onset or 0.0,
        window=_window(chosen, model),
    )


def _window(settings: StreamSettings, model: Any) -> Window | None:
    """What is kept; as asked, or what the language model can hold and its keys allow."""
    slots, text, keep = model.tokens.tokens_per_frame, settings.window_text, settings.window_keep
    if settings.window == "none":
        return None
    if settings.window == "trained":
        limit = getattr(model.text_config, "max_position_embeddings", None)
        if limit is None or not is_relative(model):
            return None
        return widest_window(limit, slots, text, keep=keep)
    assert settings.fps is not None and not isinstance(settings.window, str)
    frames = math.ceil(settings.window * settings.fps)
    slack = max(slots * -(-frames // 4), 128)
    return Window(frames=frames, text=text, tokens_per_frame=slots, slack=slack, keep=keep)


def _policy(settings: StreamSettings, model: Any, name: str) -> Policy:
    pick: Pick = greedy
    if settings.temperature > 0:
        pick = sampler(settings.temperature, zlib.crc32(f"{settings.seed}\n{name}".encode()))
    if settings.policy == "turn_based":
        assert settings.threshold is not None
        return TurnBased(model.tokens, settings.threshold, pick)
    return Tsi(model.tokens, pick)
