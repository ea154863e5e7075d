"""One HoloAssist event -> one turn of a dialogue, a video's narration, or a reason why not.

Input: a record of `events`. Output: `Read`. Invariant: no record raises; what the released
code would have kept is dropped under the paper's rules only where no words are left in it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from data_prep.common.annotations import NO_TEXT, seconds, span, string, words
from vlm_tsi.timeline import Utterance
from vlm_tsi.worlds.datapoints import Rules

CONVERSATION, NARRATION = "Conversation", "Narration"
ACTIONS = ("Coarse grained action", "Fine grained action")
_FIELDS = ("Conversation Purpose", "Transcription", "Transcription Confidence")
_STARTS, _REPLIES = "instructor-start-conversation_", "instructor-reply-to-student_"
_STUDENT = "student-start-conversation_"
PURPOSES = frozenset(
    [
        f"{_STARTS}describing high-level instruction",
        f"{_STARTS}follow-up instruction",
        f"{_STARTS}confirming the previous action",
        f"{_STARTS}correct the wrong action",
        f"{_STARTS}opening remarks",
        f"{_STARTS}closing remarks",
        f"{_STARTS}adjusting to capture better quality video",
        f"{_STARTS}other",
        f"{_REPLIES}follow-up instruction",
        f"{_REPLIES}confirming past or future action",
        f"{_REPLIES}correct the wrong action",
        f"{_REPLIES}other",
        f"{_STUDENT}ask questions",
        f"{_STUDENT}other",
    ]
)
ROLES = {"instructor": "assistant", "student": "user"}
LOW = "low-confidence-transcription"
UNHEARD = re.compile(r"\*unintelligible\*", re.IGNORECASE)
FILLER = "none"

NOT_AN_EVENT, NO_ATTRIBUTES = "event is no object", "attributes are no object"
ACTION, UNKNOWN_LABEL = "action label, not speech", "unknown label"
LOW_CONFIDENCE, LIST_CONFIDENCE = "low confidence", "confidence is a list"
ODD_CONFIDENCE = "unknown confidence"
NO_PURPOSE, NO_SPEAKER = "purpose missing", "purpose names no speaker"
NO_TRANSCRIPTION = "transcription missing"
UNINTELLIGIBLE, FILLED_IN = "wholly unintelligible", "transcription is the filler none"
UNHEARD_CUT = "unintelligible part cut out"
UNHEARD_SOME, UNHEARD_ALL = "unintelligible in part", "unintelligible as a whole"
WORD_NONE = "transcription is the word none"
UNKNOWN_PURPOSE, LISTED = "unknown purpose", "attribute is a list"


@dataclass(frozen=True, slots=True)
class Read:
    """What became of an event: a turn, a narration, or a reason why it is left out."""

    turn: Utterance | None = None
    narration: str = ""
    dropped: str = ""
    repairs: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()


def read_event(event: Any, rules: Rules) -> Read:
    """Read one event under the paper's rules or the released code's."""
    if not isinstance(event, Mapping):
        return Read(dropped=NOT_AN_EVENT)
    label, attributes = event.get("label"), event.get("attributes")
    if not isinstance(attributes, Mapping):
        return Read(dropped=NO_ATTRIBUTES)
    oddities = (LISTED,) if any(isinstance(v, list) for v in attributes.values()) else ()
    if label == CONVERSATION:
        read = _read_turn(event, attributes, rules)
    elif label == NARRATION:
        read = _read_narration(attributes)
    else:
        read = Read(dropped=ACTION if label in ACTIONS else UNKNOWN_LABEL)
    return replace(read, oddities=oddities + read.oddities)


def _read_narration(attributes: Mapping[str, Any]) -> Read:
    told = words(attributes.get("Long form description"))
    if told.problem:
        return Read(dropped=f"narration: {told.problem}")
    if told.text == FILLER:
        return Read(dropped="narration: the filler none")
    return Read(narration=told.text, repairs=told.repairs)


def _read_turn(event: Mapping[str, Any], attributes: Mapping[str, Any], rules: Rules) -> Read:
    purpose, transcription, confidence = (attributes.get(name) for name in _FIELDS)
    oddities = _oddities(purpose, transcription)
    said = words(transcription)
    dropped = _distrusted(confidence) or _speechless(purpose, transcription) or said.problem
    if dropped:
        return Read(dropped=dropped, oddities=oddities)
    text, repairs = said.text, said.repairs
    if rules == "paper" and UNHEARD.search(text):
        text, repairs = _heard(text), (*repairs, UNHEARD_CUT)
    filled = rules == "paper" and text == FILLER
    time = span(event.get("start"), event.get("end"), text)
    dropped = (FILLED_IN if filled else "") or ("" if text else UNINTELLIGIBLE) or time.problem
    if dropped:
        return Read(dropped=dropped, oddities=oddities)
    turn = _turn(str(purpose), text, time.start, time.end)
    return Read(turn, repairs=repairs + time.repairs, oddities=oddities)


def _turn(purpose: str, text: str, start: float, end: float) -> Utterance:
    speaker = purpose.split("-")[0]
    meta = {"purpose": string(purpose)}
    return Utterance(_role(purpose), text, start, end, speaker=speaker, meta=meta)  # type: ignore[arg-type]


def _role(purpose: str) -> str:
    return ROLES.get(purpose.split("-")[0], "")


def _distrusted(confidence: object) -> str:
    """Why a transcription is not trusted: its confidence must be absent, or say none."""
    if isinstance(confidence, list):
        return LIST_CONFIDENCE
    if confidence is None or confidence == FILLER:
        return ""
    return LOW_CONFIDENCE if confidence == LOW else ODD_CONFIDENCE


def _speechless(purpose: object, transcription: object) -> str:
    if not isinstance(purpose, str) or not purpose.strip():
        return NO_PURPOSE
    if not _role(purpose):
        return NO_SPEAKER
    if transcription is None:
        return NO_TRANSCRIPTION
    return "" if isinstance(transcription, str) else NO_TEXT


def _oddities(purpose: object, transcription: object) -> tuple[str, ...]:
    """What is odd about a turn, whatever becomes of it."""
    text = string(transcription)
    found = (
        (UNKNOWN_PURPOSE, isinstance(purpose, str) and purpose not in PURPOSES),
        (UNHEARD_SOME, bool(UNHEARD.search(text)) and bool(_heard(text))),
        (UNHEARD_ALL, bool(UNHEARD.search(text)) and not _heard(text)),
        (WORD_NONE, text.strip(".!?").lower() == FILLER),
    )
    return tuple(name for name, is_so in found if is_so)


def _heard(text: str) -> str:
    """The text without what nobody understood; nothing if only marks are left."""
    rest = UNHEARD.sub(" ", text)
    rest = re.sub(r"\s+([.,!?;:])", r"\1", " ".join(rest.split()))
    return rest.strip() if re.search(r"\w", rest) else ""


def given_duration(video: Mapping[str, Any]) -> float | None:
    """The video's length (s) as its metadata tell it: `HH:MM:SS.ff` if there, else seconds."""
    metadata = video.get("videoMetadata")
    length = metadata.get("duration") if isinstance(metadata, Mapping) else None
    if not isinstance(length, Mapping):
        return None
    match = re.fullmatch(r"(\d{1,4}):(\d\d):(\d\d(?:\.\d+)?)", str(length.get("raw", "")))
    if match:
        hours, minutes, rest = match.groups()
        return 3600 * int(hours) + 60 * int(minutes) + float(rest)
    told = seconds(length.get("seconds"))
    return told if told is not None and told >= 0 else None
