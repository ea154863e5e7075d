"""Key-value cache of one stream, grown in place.

Input: the keys and values of the next positions, layer by layer. Output: all so far.
Invariant: what is stored is never moved by a step (room doubles when it is full, so the
copying is paid once in a while, not at each step); a step's cost is its attention over
the context, nothing is recomputed.
"""

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class GrowingLayer(CacheLayerMixin):
    """Keys and values [1, heads, room, head_dim], of which the first `length` are used."""

    is_sliding = False

    def __init__(self, room: int = 256) -> None:
        super().__init__()
        self.keys: torch.Tensor
        self.values: torch.Tensor
        self.room, self.length = room, 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate on the first keys' device and dtype."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = _with_room(key_states, self.room)
        self.values = _with_room(value_states, self.room)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append [1, heads, n, head_dim]; return views of all that is stored."""
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
        while self.room < needed:
            self.room *= 2
        old = self.keys[:, :, : self.length], self.values[:, :, : self.length]
        self.keys, self.values = (_with_room(t, self.room) for t in old)
        for new, kept in zip((self.keys, self.values), old, strict=True):
            new[:, :, : self.length] = kept

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
    return like.new_empty((*like.shape[:2], room, like.shape[3]))


def stream_cache(num_layers: int, room: int = 256) -> Cache:
    """A cache for one stream through a model of `num_layers` layers."""
    return Cache(layers=[GrowingLayer(room) for _ in range(num_layers)])
