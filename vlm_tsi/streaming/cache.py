"""Key-value cache of one stream: grown in place, and kept to a window if it has one.

Input: the keys and values of the next positions, layer by layer, told beforehand by `take`.
Output: all that is kept, with the new ones last. Invariant: what is stored is not moved by a
step. Without a window, room doubles when it is full. With one, room stops growing at the
window's capacity; when that is full, what leaves is taken out of all layers at once and the
keys that stay are turned to their new positions (RoPE is relative: turned by the difference
they are those of a stream that was fed at these positions). Until then nothing differs from
a cache without a window. New keys lie last and in order, so that plain causal attention
(SDPA, flash-attention) needs no mask of its own.

Shapes: H key-value heads, n positions, K kept slots, D head width.
"""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.nn import functional
from transformers.cache_utils import Cache, CacheLayerMixin

from vlm_tsi.errors import UserError
from vlm_tsi.streaming.window import Ledger, Window

ROOM = 256
PROBE_SHIFT = 7


class StreamLayer(CacheLayerMixin):
    """Keys and values [1, H, room, D], of which the first `length` are used."""

    is_sliding = False

    def __init__(self, room: int = ROOM, most: int | None = None) -> None:
        super().__init__()
        self.keys: torch.Tensor
        self.values: torch.Tensor
        self.room, self.most, self.length = room, most, 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate on the first keys' device and dtype."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = _with_room(key_states, self.room)
        self.values = _with_room(value_states, self.room)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append [1, H, n, D]; return views of all that is stored."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[2]
        if end > self.room:
            self._grow(end)
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _grow(self, needed: int) -> None:
        assert self.most is None or needed <= self.most, "the window was told of fewer positions"
        while self.room < needed:
            self.room *= 2
        self.room = min(self.room, self.most or self.room)
        old = self.keys[:, :, : self.length], self.values[:, :, : self.length]
        self.keys, self.values = (_with_room(t, self.room) for t in old)
        for new, kept in zip((self.keys, self.values), old, strict=True):
            new[:, :, : self.length] = kept

    def keep(self, kept_K: torch.Tensor, cos_KR: torch.Tensor, sin_KR: torch.Tensor) -> None:
        """Keep these slots only, in order, their keys turned by the angles given."""
        self.length = len(kept_K)
        self.keys[:, :, : self.length] = turned(self.keys[:, :, kept_K], cos_KR, sin_KR)
        self.values[:, :, : self.length] = self.values[:, :, kept_K]

    def reset(self) -> None:
        """Forget all positions; the room stays."""
        self.length = 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(length of the keys after this step, offset)."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Positions stored."""
        return self.length

    def get_max_length(self) -> int:
        """No limit of its own."""
        return -1


def _with_room(like: torch.Tensor, room: int) -> torch.Tensor:
    try:
        return like.new_empty((*like.shape[:2], room, like.shape[3]))
    except RuntimeError as err:  # torch's own, also where the GPU's memory is full
        size = like.shape[1] * room * like.shape[3] * like.element_size()
        problem = f"no memory for {size / 1e6:,.0f} MB of keys or values of a layer"
        raise UserError("window", problem, "keep less (--window SECONDS, --window-text)") from err


def turned(keys_1HKD: torch.Tensor, cos_KR: torch.Tensor, sin_KR: torch.Tensor) -> torch.Tensor:
    """Keys turned by an angle for each slot and frequency; R <= D / 2 pairs are rotary.

    Pairs lie half a rotary width apart, as in Llama and what came of it.
    """
    pairs = cos_KR.shape[1]
    first, second, rest = keys_1HKD.float().split(
        [pairs, pairs, keys_1HKD.shape[-1] - 2 * pairs], -1
    )
    parts = (first * cos_KR - second * sin_KR, second * cos_KR + first * sin_KR, rest)
    return torch.cat(parts, -1).to(keys_1HKD.dtype)


class StreamCache(Cache):
    """The cache of one stream.

    Args:
        num_layers: of the language model.
        window: what is kept (None: all).
        inv_freq_R: rotary frequencies, radians a position; needed with a window.
        tokens_per_frame, frame_span: slots and positions of a frame.
        room: slots to begin with.
    """

    def __init__(
        self,
        num_layers: int,
        window: Window | None = None,
        inv_freq_R: torch.Tensor | None = None,
        *,
        tokens_per_frame: int = 1,
        frame_span: int | None = None,
        room: int = ROOM,
    ) -> None:
        most = window.capacity if window else None
        room = min(room, most or room)
        self.stored = [StreamLayer(room, most) for _ in range(num_layers)]
        super().__init__(layers=list(self.stored))
        self.window, self.inv_freq_R = window, inv_freq_R
        self.tokens_per_frame = window.tokens_per_frame if window else tokens_per_frame
        self.ledger = Ledger(window, frame_span or self.tokens_per_frame) if window else None
        self.frame_span, self._next = frame_span or self.tokens_per_frame, 0

    @property
    def most(self) -> int | None:
        """Positions that may be fed at once (None: any number)."""
        return self.window.slack if self.window else None

    def take(self, is_frame: Sequence[bool], embeds_LD: torch.Tensor) -> list[int]:
        """Make room for what is fed next; first position of each of its units.

        Args:
            is_frame: of each position; a frame's stand together, `tokens_per_frame` of them.
            embeds_LD: by which frames are compared where the window keeps distinct ones.
        """
        if self.ledger is not None and not self.ledger.fits(len(is_frame)):
            assert len(is_frame) <= self.ledger.window.slack, "more than `most` at once"
            self._evict()
        bases, at = [], 0
        while at < len(is_frame):
            size = self.tokens_per_frame if is_frame[at] else 1
            bases.append(self._add(bool(is_frame[at]), embeds_LD[at : at + size]))
            at += size
        return bases

    def _add(self, is_frame: bool, embeds_TD: torch.Tensor) -> int:
        if self.ledger is None:
            base, self._next = self._next, self._next + (self.frame_span if is_frame else 1)
            return base
        if not is_frame:
            return self.ledger.add_text(1)[0]
        distinct = self.ledger.window.keep == "distinct"
        return self.ledger.add_frame(_look(embeds_TD) if distinct else None)

    def _evict(self) -> None:
        assert self.ledger is not None and self.inv_freq_R is not None
        eviction = self.ledger.evict()
        device = self.stored[0].device
        kept_K = torch.from_numpy(eviction.kept_K).to(device)
        cos_KR, sin_KR = angles(eviction.shift_K, self.inv_freq_R.to(device))
        for layer in self.stored:
            layer.keep(kept_K, cos_KR, sin_KR)

    @property
    def evicted(self) -> dict[str, int]:
        """Units that have left, by kind; empty while all are kept."""
        if self.ledger is None or not self.ledger.evictions:
            return {}
        return {"frames": self.ledger.evicted_frames, "text": self.ledger.evicted_text}

    def bytes(self) -> int:
        """Bytes of keys and values that are allocated."""
        ours = [layer for layer in self.stored if layer.is_initialized]
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in ours)


def angles(shift_K: np.ndarray, inv_freq_R: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine [K, R] of moving by `shift_K` positions; angles in double precision."""
    shifts = torch.from_numpy(shift_K).to(inv_freq_R.device)
    turn_KR = shifts.double()[:, None] * inv_freq_R.double()
    return turn_KR.cos().float(), turn_KR.sin().float()


def _look(embeds_TD: torch.Tensor) -> np.ndarray:
    """What a frame looks like: its embeddings' mean, of length 1."""
    look: np.ndarray = functional.normalize(embeds_TD.float().mean(0), dim=0).cpu().numpy()
    return look


_shown: WeakKeyDictionary[Any, torch.Tensor | UserError] = WeakKeyDictionary()


def rotary_frequencies(model: Any) -> torch.Tensor:
    """The model's rotary frequencies [R], once it has been shown that keys turn by them.

    Raises:
        UserError: positions work in another way.
    """
    if model not in _shown:
        try:
            _shown[model] = _frequencies(model)
        except UserError as err:
            _shown[model] = err
    found = _shown[model]
    if isinstance(found, UserError):
        raise found
    return found


def is_relative(model: Any) -> bool:
    """Whether a window can be moved over this model's positions."""
    try:
        rotary_frequencies(model)
    except UserError:
        return False
    return True


@torch.inference_mode()
def _frequencies(model: Any) -> torch.Tensor:
    """Rotary frequencies [R], tried out.

    A token alone attends to itself, so that its keys at two positions differ by the turn
    alone, in every layer.

    Raises:
        UserError: positions work in another way.
    """
    rotary = getattr(model.text_body(), "rotary_emb", None)
    inv_freq_R = getattr(rotary, "inv_freq", None)
    if inv_freq_R is None or getattr(rotary, "rope_type", "default") in ("dynamic", "longrope"):
        raise _not_relative("has no rotary embedding of fixed frequencies")
    here, there = (_keys_at(model, position) for position in (0, PROBE_SHIFT))
    cos_KR, sin_KR = angles(np.array([PROBE_SHIFT]), inv_freq_R)
    for a, b in zip(here, there, strict=True):
        moved = turned(a, cos_KR.to(a.device), sin_KR.to(a.device))
        if not torch.allclose(moved.float(), b.float(), atol=_tolerance(b), rtol=0):
            raise _not_relative("does not turn its keys as Llama does")
    return inv_freq_R.detach().clone()


def _tolerance(keys: torch.Tensor) -> float:
    return float(keys.abs().max()) * (1e-4 if keys.dtype == torch.float32 else 3e-2)


def _keys_at(model: Any, position: int) -> list[torch.Tensor]:
    """Keys [1, H, 1, D] of each layer of one token at `position`."""
    cache = StreamCache(model.text_config.num_hidden_layers, room=1)
    embeds_LD = model.embed_ids(torch.tensor([0], device=model.device))
    places = torch.tensor([[position]], device=model.device)
    model.run_text(embeds_LD, cache, places)
    return [layer.keys[:, :, :1] for layer in cache.stored]


def _not_relative(problem: str) -> UserError:
    return UserError("window", f"this language model {problem}", "stream it with --window none")


def stream_cache(model: Any, window: Window | None = None, room: int = ROOM) -> StreamCache:
    """An empty cache for a stream through `model`.

    Raises:
        UserError: the window does not go with the model.
    """
    config = model.text_config
    limit = getattr(config, "max_position_embeddings", None)
    if window and limit and window.capacity > limit:
        problem = f"{window.capacity} positions, the language model knows {limit}"
        raise UserError("window", problem, "keep fewer seconds (--window) or less text")
    return StreamCache(
        config.num_hidden_layers,
        window,
        rotary_frequencies(model) if window else None,
        tokens_per_frame=model.tokens.tokens_per_frame,
        frame_span=model.frame_span,
        room=room,
    )
