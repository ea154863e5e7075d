"""Which whole video a datapoint is from.

Input: timelines, or ids. Output: video_id -> whole video.
Invariant: datapoints cut from one video share it, so that a bootstrap can draw whole videos:
what is said in one match is no independent evidence.
"""

import re
from collections.abc import Iterable

from vlm_tsi.timeline import Timeline

_DATAPOINT = re.compile(r"#\d+$")


def whole_video(video_id: str) -> str:
    """`<id>` of `<id>#<k>`, the name of the k-th datapoint of a video."""
    return _DATAPOINT.sub("", video_id)


def source_of(timelines: Iterable[Timeline]) -> dict[str, str]:
    """Each video_id's whole video: what the datapoint tells, else its id without `#<k>`."""
    told = {t.video_id: t.meta.get("source") for t in timelines}
    return {v: s if isinstance(s, str) and s else whole_video(v) for v, s in told.items()}
