"""Timelines and frames -> training samples.

Input: timeline JSONL (or single-frame captions), and frames from a feature store or from
the videos themselves. Output: map-style datasets of `Sample`.
Invariant: the same record gives the same sample in every epoch and process; what cannot be
used is counted in `left_out`, with the reason. A video without frames leaves its timelines
out; it is an error only where nothing else is left.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler

from vlm_tsi.captions import Captions, read_captions
from vlm_tsi.errors import UserError
from vlm_tsi.sequence.collate import Sample
from vlm_tsi.sequence.interleave import InterleavedSequence, Scheme, interleave
from vlm_tsi.sequence.tokens import Encode, StreamTokens
from vlm_tsi.timeline import Timeline, Utterance, read_timelines
from vlm_tsi.video.features import FeatureStore, content_key
from vlm_tsi.video.reader import iter_frames

Frames = tuple[np.ndarray, torch.Tensor]


class NoFrames(UserError):
    """A video without frames: its timelines cannot be used, those of others can."""


@dataclass
class LeftOut:
    """How many records could not be used, and the first, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        """Count one record."""
        self.counts[reason] += 1
        self.first.setdefault(reason, name)

    def __str__(self) -> str:
        told = [f"{n} {reason} (first: {self.first[reason]})" for reason, n in self.counts.items()]
        return ", ".join(told) or "0"


class FrameSource(Protocol):
    """Frame times [F] (s) and frames of a video: features [F,T,D] or pixels [F,H,W,3]."""

    is_features: bool

    def frames(self, video: Path) -> Frames:
        """All frames of the video at the source's rate.

        Raises:
            NoFrames: there are none of this video.
            UserError: something is damaged that was whole.
        """


class StoreFrames:
    """Frames as stored features."""

    is_features = True

    def __init__(self, store: FeatureStore) -> None:
        self.store = store
        self.keys: dict[Path, str] = {}

    def frames(self, video: Path) -> Frames:
        """Memory-mapped features; a video's content is hashed once."""
        if video not in self.keys:
            with _no_frames():
                self.keys[video] = content_key(video)
        if not self.store.has(self.keys[video]):
            mend = f"run python -m data_prep.encode_frames --store {self.store.root} …"
            raise NoFrames(video, f"has no features in {self.store.root}", mend)
        return self.store.get(self.keys[video])


class VideoFrames:
    """Frames decoded anew each time, letterboxed to `size`."""

    is_features = False

    def __init__(self, fps: float, size: int) -> None:
        self.fps, self.size = fps, size

    def frames(self, video: Path) -> Frames:
        """Decoded pixels, uint8."""
        with _no_frames():
            found = list(iter_frames(video, fps=self.fps, size=self.size))
        pixels_FHWC = np.stack([f.rgb_HWC for f in found])
        return np.array([f.time for f in found]), torch.from_numpy(pixels_FHWC)


@contextlib.contextmanager
def _no_frames() -> Iterator[None]:
    """What cannot be read has no frames."""
    try:
        yield
    except UserError as err:
        raise NoFrames(err.thing, err.problem, err.mend) from err


def read_with_videos(path: str | Path, limit: int | None = None) -> list[tuple[Timeline, Path]]:
    """Timelines of a file with their videos' paths (relative ones are beside the file)."""
    folder = Path(path).parent
    return [(t, folder / t.video_path) for t in read_timelines(path)[:limit]]


class StreamDataset(Dataset[Sample]):
    """One interleaved sequence a timeline."""

    def __init__(
        self,
        paths: Sequence[str],
        source: FrameSource,
        tokens: StreamTokens,
        encode: Encode,
        scheme: Scheme,
        limit: int | None = None,
        max_positions: int = 8192,
    ) -> None:
        self.source, self.tokens = source, tokens
        self.left_out = LeftOut()
        self.rows: list[tuple[InterleavedSequence, Path]] = []
        blind: list[NoFrames] = []
        for timeline, video in (r for p in paths for r in read_with_videos(p, limit)):
            try:
                times_F = source.frames(video)[0]
            except NoFrames as err:
                blind.append(err)
                self.left_out.add(f"whose video {err.problem}", str(video))
                continue
            sequence = interleave(
                timeline.utterances, times_F, tokens, encode, scheme, timeline.system
            )
            if len(sequence) > max_positions:
                self.left_out.add(f"longer than {max_positions} positions", timeline.video_id)
            else:
                self.rows.append((sequence, video))
        if blind and not self.rows:
            raise blind[0]

    @property
    def lengths(self) -> list[int]:
        """Positions of each sample."""
        return [len(sequence) for sequence, _ in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        sequence, video = self.rows[index]
        frames = self.source.frames(video)[1]
        if self.source.is_features:
            return Sample(sequence, features_FTD=frames)
        return Sample(sequence, pixels_FHWC=frames)


class CaptionDataset(Dataset[Sample]):
    """Single frames and what is to be seen on them, as sequences of one frame.

    Reads files of `Captions`. Frames are decoded once and held as
    uint8 (12 kB a frame at 64 pixels).
    """

    def __init__(
        self,
        paths: Sequence[str],
        fps: float,
        size: int,
        tokens: StreamTokens,
        encode: Encode,
        limit: int | None = None,
    ) -> None:
        self.left_out = LeftOut()
        self.tokens, self.encode = tokens, encode
        self.pixels: list[torch.Tensor] = []
        self.captions: list[str] = []
        for path in paths:
            for record in read_captions(path, limit):
                self._add(Path(path).parent / record.video_path, record, fps, size)

    def _add(self, video: Path, record: Captions, fps: float, size: int) -> None:
        captions = dict(zip(record.times, record.captions, strict=True))
        for frame in iter_frames(video, fps=fps, size=size):
            caption = captions.get(round(frame.time, 3))
            if caption is None:
                where = f"{frame.time:g} s of {video}"
                self.left_out.add("frame without a caption at its time", where)
                continue
            self.pixels.append(torch.from_numpy(frame.rgb_HWC))
            self.captions.append(caption)

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> Sample:
        caption = Utterance("assistant", self.captions[index], 0.0, 0.0)
        sequence = interleave([caption], [0.0], self.tokens, self.encode, Scheme(name="turn_based"))
        return Sample(sequence, pixels_FHWC=self.pixels[index][None])


class EpochOrder(Sampler[int]):
    """A seeded order for each epoch, cut to whole global batches.

    The few samples that would make a smaller last batch wait for another epoch's order:
    several processes would fill it up with repeated samples, one process would not. A set
    smaller than one global batch is given whole. With `lengths`, the members of a global
    batch are of similar length (less padding), while batches come in random order.
    """

    def __init__(
        self, samples: int, batch: int, seed: int, lengths: Sequence[int] | None = None
    ) -> None:
        self.samples, self.batch, self.seed, self.epoch = samples, batch, seed, 0
        self.length = samples // batch * batch or samples
        self.lengths = torch.tensor(lengths) if lengths else None

    def set_epoch(self, epoch: int) -> None:
        """Choose an epoch's order (called by the trainer, also when it resumes)."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.samples, generator=generator)[: self.length]
        if self.lengths is not None and self.length >= self.batch:
            order = order[self.lengths[order].argsort(stable=True)].view(-1, self.batch)
            order = order[torch.randperm(len(order), generator=generator)].flatten()
        yield from order.tolist()
