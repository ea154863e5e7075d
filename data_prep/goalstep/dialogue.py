"""The streaming dialogue `[{video_uid, conversation: [{role, content, time}]}]`, both ways.

Input: such a list, and durations if known. Output: `Video`s; and such a list from timelines.
Invariant: no record raises; each entry of a conversation is one entry.

Beside the published keys we write and read `duration` (s) and `system`: the format itself has
no place for them, and a loader that looks for its own keys does not see them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from data_prep.common.annotations import (
    BEFORE_ZERO,
    NO_TIME,
    read_annotation_file,
    seconds,
    string,
    text_repairs,
    words,
)
from data_prep.goalstep.turns import NO_NAME, NOT_A_VIDEO, Entry, Turn, Video, mark_order
from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Timeline

NOT_A_TURN, ODD_ROLE = "turn is no object", "role is neither user nor assistant"
ACTION = "user action in parentheses"
NO_CONVERSATION, SECOND = "conversation is no list", "a further dialogue of its video"


def read_videos(
    records: list[Any], durations: Mapping[str, float], limit: int | None
) -> list[Video]:
    """The videos of a streaming dialogue; a video's second dialogue is named `<uid>/2`."""
    videos = [_video(r, durations) for r in records[:limit]]
    count: dict[str, int] = {}
    taken = {v.uid for v in videos}
    for video in videos:
        uid = video.uid
        count[uid] = count.get(uid, 0) + 1
        video.meta = {"corpus": "goalstep", "video_uid": uid}
        if count[uid] > 1 and not video.dropped:
            video.uid = _new_name(uid, count, taken)
            video.oddities.append(SECOND)
    return videos


def _new_name(uid: str, count: dict[str, int], taken: set[str]) -> str:
    while f"{uid}/{count[uid]}" in taken:
        count[uid] += 1
    return f"{uid}/{count[uid]}"


def _video(record: Any, durations: Mapping[str, float]) -> Video:
    if not isinstance(record, Mapping):
        return Video("", dropped=NOT_A_VIDEO)
    video = Video(string(record.get("video_uid")), system=string(record.get("system")))
    video.repairs = [m for name in ("video_uid", "system") for m in text_repairs(record.get(name))]
    told = seconds(record.get("duration"))
    video.duration = durations.get(video.uid, told if told and told > 0 else None)
    listed = record.get("conversation")
    if not isinstance(listed, list):
        video.oddities.append(NO_CONVERSATION)
        listed = []
    video.entries = [_entry(r, f"{video.uid}: turn {k}") for k, r in enumerate(listed)]
    mark_order(video.entries)
    if not video.uid:
        video.leave_out(NO_NAME)
    return video


def _entry(record: Any, where: str) -> Entry:
    if not isinstance(record, Mapping):
        return Entry(where, dropped=NOT_A_TURN)
    role, time = record.get("role"), seconds(record.get("time"))
    said = words(record.get("content"))
    entry = Entry(where, repairs=list(said.repairs))
    if role not in ("user", "assistant"):
        entry.dropped = ODD_ROLE
    elif said.problem:
        entry.dropped = said.problem
    elif role == "user" and said.text.startswith("(") and said.text.endswith(")"):
        entry.dropped = ACTION
    elif time is None or time < 0:
        entry.dropped = NO_TIME if time is None else BEFORE_ZERO
    else:
        entry.turn = Turn(role, said.text, time)
    return entry


def conversations(timelines: Iterable[Timeline]) -> list[dict[str, Any]]:
    """The streaming dialogue of some timelines."""
    return [
        {
            "video_uid": t.video_id,
            "conversation": [
                {"role": u.role, "content": u.text, "time": u.start} for u in t.utterances
            ],
            "duration": t.duration,
            "system": t.system,
        }
        for t in timelines
    ]


def read_durations(path: str) -> dict[str, float]:
    """Seconds by video_uid, from one of three files.

    `{uid: seconds}`, the published statistics `{uid: {fps, num_frames}}`, or Goal-Step's
    annotation (its `end_time`).
    """
    data = read_annotation_file(path)
    listed = data.get("videos") if isinstance(data, dict) else None
    if isinstance(listed, list):
        data = {
            string(v.get("video_uid")): v.get("end_time") for v in listed if isinstance(v, dict)
        }
    if not isinstance(data, dict):
        mend = "use {video_uid: seconds}, or Goal-Step's annotation file"
        raise UserError(path, "holds no durations", mend)
    return {string(uid): _length(path, uid, value) for uid, value in data.items()}


def _length(path: str, uid: str, value: Any) -> float:
    told = seconds(value)
    if isinstance(value, dict):
        fps, frames = seconds(value.get("fps")), seconds(value.get("num_frames"))
        told = seconds(frames / fps) if fps and fps > 0 and frames is not None else None
    if told is None or told <= 0:
        problem = f"{uid!r} has the duration {str(value)[:60]!r}"
        raise UserError(path, problem, "use seconds above 0, or {fps, num_frames}")
    return told
