"""A video's sound on the video's own clock.

Input: a video file, and which of its audio tracks. Output: mono float32 samples at 16 kHz.
Invariant: sample n is what sounds n / 16,000 s after the first video frame's PTS, wherever the
sound begins and however long it pauses: a late or broken-off track is filled with silence, what
comes before the first frame is cut off.

Memory: 64 kB a second (a half of 50 minutes: 192 MB); nothing else of the file is kept.
"""

from dataclasses import dataclass, field
from pathlib import Path

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.container import InputContainer

from data_prep.asr.base import RATE
from vlm_tsi.errors import UserError
from vlm_tsi.video.opening import FETCH, opened, said_duration
from vlm_tsi.video.reader import RESTART

DRIFT = 0.05
"""Seconds by which a timestamp may differ from the samples counted so far and be let be."""
UNKNOWN = 6 * 3600.0
"""Seconds that a file may last that does not say how long it is."""
_BYTES = np.dtype(np.float32).itemsize


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """Samples (mono, float32, -1 to 1, at `RATE`), and how many packets were damaged."""

    samples: np.ndarray
    damaged: int


def load_sound(path: str | Path, track: int = 0) -> Sound | None:
    """The sound of a video's audio track (counted from 0), or None if it has no such track.

    Raises:
        UserError: the file cannot be read, has no video, or nothing of its sound decodes.
    """
    origin = _first_frame_time(Path(path))
    with opened(Path(path)) as (container, video):
        if track >= len(container.streams.audio):
            return None
        placed = Placed(origin, (said_duration(container, video) or UNKNOWN) + 60)
        damaged = _decode(container, track, placed)
    if not placed.count:
        raise UserError(path, "nothing of its sound can be decoded", FETCH)
    return Sound(placed.samples(), damaged)


def _first_frame_time(path: Path) -> float:
    """The first video frame's PTS (s)."""
    with opened(path) as (container, stream):
        try:
            for frame in container.decode(stream):
                pts = frame.pts if frame.pts is not None else frame.dts
                known = pts is not None and frame.time_base is not None
                return float(pts * frame.time_base) if known else 0.0  # type: ignore[operator]
        except (av.FFmpegError, OSError) as err:
            problem = f"its video cannot be decoded ({getattr(err, 'strerror', None) or err})"
            raise UserError(path, problem, FETCH) from err
    raise UserError(path, "no frame of it can be decoded", FETCH)


def _decode(container: InputContainer, track: int, placed: "Placed") -> int:
    """Place all frames of a track; returns how many packets would not decode."""
    damaged = 0
    packets = container.demux(container.streams.audio[track])
    while True:
        try:
            packet = next(packets, None)
        except (av.FFmpegError, OSError):
            damaged, packet = damaged + 1, None
        if packet is None:
            break
        try:
            for frame in packet.decode():
                placed.add(frame)
        except av.EOFError:
            break
        except (av.FFmpegError, OSError):
            damaged += 1
    placed.flush()
    return damaged


@dataclass
class Placed:
    """Decoded frames, each at its time: silence where none is, no sample twice.

    Attributes:
        origin: the time (s) of sample 0.
        longest: seconds beyond which a timestamp is not believed.
        count: samples so far.
    """

    origin: float
    longest: float
    count: int = 0
    _skip: int = 0
    _data: bytearray = field(default_factory=bytearray)
    _resampler: AudioResampler | None = None

    def add(self, frame: AudioFrame) -> None:
        """Resample a frame and put it where it belongs."""
        if frame.pts is not None and frame.time_base is not None:
            self._move_to(float(frame.pts * frame.time_base))
        if self._resampler is None:
            self._resampler = AudioResampler(format="flt", layout="mono", rate=RATE)
        self._append(self._resampler.resample(frame))

    def _move_to(self, time: float) -> None:
        """Go to a frame's time, where it is not simply the next one's."""
        ahead = round((time - self.origin) * RATE) - (self.count - self._skip)
        if abs(ahead) <= DRIFT * RATE and self._resampler is not None:
            return
        is_mad = time - self.origin > self.longest
        is_restart = self.count > 0 and ahead <= -RESTART * RATE
        if is_mad or is_restart:  # a broken or restarted clock: go on where we are
            self.origin = time - (self.count - self._skip) / RATE
            return
        self.flush()
        self._resampler = None
        if ahead > 0:
            self._put(np.zeros(ahead, np.float32))
        else:
            self._skip -= ahead

    def flush(self) -> None:
        """Take what the resampler still holds."""
        if self._resampler is not None:
            self._append(self._resampler.resample(None))

    def _append(self, frames: list[AudioFrame]) -> None:
        for frame in frames:
            self._put(frame.to_ndarray()[0])

    def _put(self, samples: np.ndarray) -> None:
        skipped = min(self._skip, len(samples))
        self._skip -= skipped
        self._data += samples[skipped:].astype(np.float32, copy=False).tobytes()
        self.count = len(self._data) // _BYTES

    def samples(self) -> np.ndarray:
        """All samples; shares its memory."""
        return np.frombuffer(self._data, np.float32)
