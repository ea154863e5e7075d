"""Goal-Step records for tests: segments, videos, a whole meal."""

FLAGS = {"is_continued": False, "is_procedural": False, "is_relevant": "essential", "summary": []}


def segment(start, end, text="Stir soup", category="Stir: Stir the soup", below=None, **fields):
    made = {"start_time": start, "end_time": end, "step_description": text,
            "step_category": category, **FLAGS, **fields}  # fmt: skip
    return made if below == "none" else {**made, "segments": below or []}


def video(*segments, uid="v1", **fields):
    return {"video_uid": uid, "start_time": 0.0, "end_time": 100.0, "goal_category": "COOKING:MAKE_SOUP",
            "goal_description": "Make soup.", "is_procedural": True, "summary": [],
            "segments": list(segments), **fields}  # fmt: skip


def meal(uid="v1"):
    """A step with two substeps, a step that is no use, and one that is gone on with."""
    return video(
        segment(2, 30, "Cuts the onion.", "Cut: Cut onion", [
            segment(2, 9, "peeling onion", "Peel: Peel onion", "none"),
            segment(10, 30, "Slice onion", "Cut: Cut onion", "none"),
        ]),
        segment(31, 35, "Scratch head", "Non cooking", is_relevant="irrelevant"),
        segment(40, 60, "Stir soup"),
        segment(61, 70, "Peel a carrot", "Peel: Peel carrot"),
        segment(80, 90, "Stir soup", is_continued=True),
        uid=uid,
    )  # fmt: skip
