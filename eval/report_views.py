"""Which videos a report shows, and what stands in their pictures.

Input: score files of one group. Output: `VideoView`s. Invariant: every reference and every
generated utterance of the stretch that is shown stands in it, with the pairs as scored; a
stretch that is not the whole video is told in the title.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.report_data import VideoView
from eval.report_layout import clock
from eval.report_runs import Stored
from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Generated, Utterance

MOST_SECONDS, MARGIN = 180.0, 3.0
"""Longest stretch of a picture, and what is shown before and after the first and last word."""
Span = tuple[str, float, float]


def views_of(
    groups: Mapping[str, Sequence[Stored]], count: int, wanted: Sequence[str] = ()
) -> list[VideoView]:
    """Pictures of the videos asked for, or of `count` a group from the best to the worst.

    Raises:
        UserError: a video asked for is in no run.
    """
    known = {v for runs in groups.values() for run in runs for v in run.json["per_video"]}
    for video_id in wanted:
        if video_id not in known:
            raise UserError(f"--videos {video_id}", "is in none of the runs", "see the table")
    views = []
    for runs in groups.values():
        ranked = _ranked(runs)
        chosen = [(v, "") for v in wanted if v in ranked] if wanted else _spread(ranked, count)
        views += [_view(runs, video_id, why) for video_id, why in chosen]
    return views


def _ranked(runs: Sequence[Stored]) -> list[str]:
    """Videos with references by the mean TRACE of the runs, best first."""
    mean = {
        v: sum(run.json["per_video"].get(v, {}).get("trace", 0.0) for run in runs)
        for v, _ in runs[0].group
    }
    return sorted(mean, key=lambda v: (-mean[v], v))


def _spread(ranked: Sequence[str], count: int) -> list[tuple[str, str]]:
    """Evenly from the best to the worst, each with its place."""
    last = len(ranked) - 1
    places = sorted({round(k * last / max(count - 1, 1)) for k in range(min(count, last + 1))})
    named = {0: "best", last: "worst"} if last else {}
    return [
        (ranked[p], f"{named.get(p, f'place {p + 1}')} of {len(ranked)} by TRACE") for p in places
    ]


def _view(runs: Sequence[Stored], video_id: str, why: str) -> VideoView:
    told = _side(runs[0].json, video_id, "ref", "reference")
    said = {run.name: _side(run.json, video_id, "gen", "generated") for run in runs}
    place = runs[0].json["videos"].get(video_id, {})
    begin, end, cut = _stretch(float(place.get("duration", 0.0)), told, said.values())
    keep = {name: _within(spans, begin, end) for name, spans in said.items()}
    refs = _within(told, begin, end)
    pairs = {
        run.name: [
            (refs[p["ref_idx"]], keep[run.name][p["gen_idx"]])
            for p in run.json["pairs"]
            if p["video_id"] == video_id and p["ref_idx"] in refs and p["gen_idx"] in keep[run.name]
        ]
        for run in runs
    }
    shown = f"{clock(begin)} to {clock(end)} of {clock(float(place.get('duration', end)))}"
    title = "; ".join(part for part in (video_id, why, shown if cut else "") if part)
    return VideoView(
        video_id=video_id,
        video_path=str(place.get("path", "")),
        duration=end,
        reference=[Utterance("assistant", t, a, b, eval=True) for t, a, b in _kept(told, refs)],
        lanes={
            name: [Generated(video_id, a, b, t) for t, a, b in _kept(spans, keep[name])]
            for name, spans in said.items()
        },
        pairs=pairs,
        title=title,
        begin=begin,
    )


def _side(stored: Mapping[str, Any], video_id: str, short: str, side: str) -> dict[int, Span]:
    """Index -> text, start, end of one side of a video, matched or not."""
    found = {
        p[f"{short}_idx"]: (p[f"{short}_text"], p[f"{short}_start"], p[f"{short}_end"])
        for p in stored["pairs"]
        if p["video_id"] == video_id
    }
    found |= {
        u["idx"]: (u["text"], u["start"], u["end"])
        for u in stored["unmatched"]
        if u["video_id"] == video_id and u["side"] == side
    }
    return dict(sorted(found.items(), key=lambda item: (item[1][1], item[0])))


def _stretch(duration: float, told: Mapping[int, Span], said: Any) -> tuple[float, float, bool]:
    """Seconds to show: all of a short video, else where words are, at most `MOST_SECONDS`."""
    spans = [*told.values(), *(span for lane in said for span in lane.values())]
    if not spans:
        return 0.0, min(duration, MOST_SECONDS), duration > MOST_SECONDS
    first, last = min(s for _, s, _ in spans), max(e for *_, e in spans)
    end = max(duration, last)
    if end <= 60 and first <= 3 * MARGIN:
        return 0.0, end, False
    begin = max(0.0, first - MARGIN)
    if last + MARGIN - begin > MOST_SECONDS:
        starts = sorted(s for _, s, _ in told.values()) or [begin]
        fullest = max(starts, key=lambda t: sum(t <= s < t + MOST_SECONDS for s in starts))
        begin = max(0.0, fullest - MARGIN)
    end = min(end, max(last + MARGIN, begin + 10), begin + MOST_SECONDS)
    return begin, end, True


def _within(spans: Mapping[int, Span], begin: float, end: float) -> dict[int, int]:
    """Index -> place among those that lie in the stretch."""
    inside = [i for i, (_, a, b) in spans.items() if b >= begin and a < end]
    return {index: place for place, index in enumerate(inside)}


def _kept(spans: Mapping[int, Span], places: Mapping[int, int]) -> list[Span]:
    return [spans[i] for i in places]


def videos_missing(views: Sequence[VideoView]) -> list[str]:
    """Videos of the pictures that are not where the score files say."""
    return [v.video_id for v in views if not v.video_path or not Path(v.video_path).is_file()]
