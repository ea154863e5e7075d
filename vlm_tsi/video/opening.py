"""Opening a video file, camera or stream.

Input: a path, device or URL. Output: the open container and its video stream.
Invariant: what cannot be opened, or holds no video, is a UserError of one line; the
container is closed when the `with` block is left.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import av
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from vlm_tsi.errors import UserError, os_error

_TIMEOUT = (10.0, 30.0)  # s to open a stream, to wait for its next packet
_CAMERAS = {"linux": "v4l2", "darwin": "avfoundation", "win32": "dshow"}
FETCH = "fetch it again or re-encode it (ffmpeg -i IN -c:v libx264 OUT.mp4)"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The container and its video stream, closed at the end."""
    _check_file(path)
    try:
        container = av.open(f"file:{path}", "r", metadata_errors="replace")
    except (av.FFmpegError, OSError, ValueError) as err:
        problem = f"cannot be read as a video ({getattr(err, 'strerror', None) or err})"
        raise UserError(path, problem, FETCH) from err
    with container:
        yield container, _video_stream(path, container)


@contextlib.contextmanager
def opened_live(name: str) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The same for a camera (a number or device) or a stream's URL."""
    is_url = "://" in name
    device = f"/dev/video{name}" if name.isdecimal() and sys.platform == "linux" else name
    try:
        container = av.open(
            device,
            "r",
            format=None if is_url else _CAMERAS.get(sys.platform),
            timeout=_TIMEOUT,
            metadata_errors="replace",
        )
    except (av.FFmpegError, OSError, ValueError) as err:
        problem = f"cannot be opened ({getattr(err, 'strerror', None) or err})"
        mend = "check the address" if is_url else "check that the camera is plugged in and free"
        raise UserError(device, problem, mend) from err
    with container:
        yield container, _video_stream(device, container)


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise UserError(path, "is a folder", "name a video file")
        with path.open("rb") as file:
            if not file.read(1):
                raise UserError(path, "is empty (0 bytes)", "fetch it again")
    except OSError as err:
        raise os_error(path, err) from err


def _video_stream(name: str | Path, container: InputContainer) -> VideoStream:
    stream = first_video_stream(container)
    if stream is None:
        problem = "holds sound but no video" if container.streams.audio else "holds no video"
        raise UserError(name, problem, "name a file with a video stream")
    if stream.codec_context is None:
        raise UserError(name, "its video codec is unknown here", FETCH)
    stream.thread_type = "AUTO"
    return stream


def said_duration(container: InputContainer, stream: VideoStream) -> float | None:
    """The shorter of what the stream and the file say (s); None if neither does."""
    said = []
    if stream.duration and stream.time_base:
        said.append(float(stream.duration * stream.time_base))
    if container.duration:
        said.append(container.duration / av.time_base)
    return min(said, default=None)


def first_video_stream(container: InputContainer) -> VideoStream | None:
    """The first video stream that is not an attached cover picture."""
    covers = Disposition.attached_pic | Disposition.timed_thumbnails
    return next((s for s in container.streams.video if not s.disposition & covers), None)
