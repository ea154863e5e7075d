"""What the demo does at each preset.

Input: a preset's name. Output: how many clips, which thresholds, which overrides.
Invariant: test clips come from a split of their own, whose seeds no other split shares; they
are streamed once, with settings chosen on the validation split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WORLDS = ("signals", "assembly")
SCHEMES = ("tsi", "turn_based")
CAPABILITY = {"signals": "Perceptual updating", "assembly": "Contingency awareness"}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Sizes of one preset; `overrides` are `key=value` words for each training stage."""

    clips: Mapping[str, Mapping[str, int]]
    thresholds: Sequence[float] = (0.3, 0.5, 0.725, 0.9, 0.97)
    overrides: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pictures: int = 3

    def stage(self, name: str) -> tuple[str, ...]:
        """The overrides of a training stage (captions, base, tsi, turn_based)."""
        return tuple(self.overrides.get(name, ()))


PRESETS = {
    "full": Preset(
        clips={
            "signals": {"train": 1100, "val": 24, "test": 80},
            "assembly": {"train": 600, "val": 16, "test": 40},
        },
    ),
    "smoke": Preset(
        clips={
            "signals": {"train": 16, "val": 2, "test": 4},
            "assembly": {"train": 16, "val": 2, "test": 4},
        },
        # So little training ends in silence, and the scorer would see nothing: silence weighs
        # less for TSI, and the baseline's thresholds are high.
        thresholds=(0.725, 0.97),
        overrides={
            "captions": ("optim.max_steps=20", "data.limit=8"),
            "base": ("optim.max_steps=60",),
            "tsi": ("optim.max_steps=60", "scheme.silence_weight=0.1"),
            "turn_based": ("optim.max_steps=60",),
        },
        pictures=1,
    ),
}
