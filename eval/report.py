"""A demo run as one self-contained HTML page.

Input: a `DemoRun`. Output: one file that needs nothing else (style, charts and thumbnails
are inside it). Invariant: every text from outside is escaped; the file appears whole or
not at all; a video that cannot be read gives a placeholder and a note, not a failure.
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path

from eval.report_data import DemoRun, Interval, label
from eval.report_tables import (
    chart,
    difference_table,
    number,
    plain_table,
    score_table,
    seeds_table,
    sweep_table,
)
from eval.report_template import PAGE, STYLE
from eval.report_timeline import timeline_html
from vlm_tsi.files import write_text


def write_report(path: str | Path, run: DemoRun) -> list[str]:
    """Write the page.

    Args:
        path: where to; folders are made.
        run: what to show.

    Returns:
        One note for each video that could not be read (they also stand in the page).

    Raises:
        UserError: the place cannot be written to.
    """
    page, notes = report_html(run)
    write_text(path, page)
    return notes


def report_html(run: DemoRun) -> tuple[str, list[str]]:
    """The page's text, and a note for each video that could not be read."""
    videos, notes = _videos(run)
    sections = [_headline(run), _details(run), videos, _curves(run), _making(run)]
    page = PAGE.substitute(title=escape(run.title), style=STYLE, body="\n".join(sections))
    return page.encode("utf-8", "replace").decode("utf-8"), notes


def _headline(run: DemoRun) -> str:
    embedder = f"Texts are compared with <b>{escape(run.embedder)}</b>. " if run.embedder else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in run.notes)
    return (
        f'<div class="lead">{_lead(run)}</div><h2>Scores</h2>'
        f'<p class="quiet">Percent, best in bold, in the columns of the paper’s Table 2. {embedder}'
        "Content: colour, place and part words that are right in matched utterances.</p>"
        f"{score_table(run.scores)}" + (f"<ul>{notes}</ul>" if notes else "")
    )


def _lead(run: DemoRun) -> str:
    lines = []
    for world, schemes in run.scores.items():
        values = ", ".join(
            f"{escape(label(s))} {number(v.get('trace'))}" for s, v in schemes.items()
        )
        gap = run.differences.get(world, {}).get("trace")
        lines.append(
            f"<p><b>{escape(label(world))}.</b> TRACE: {values}.{_verdict(gap) if gap else ''}</p>"
        )
    return "".join(lines)


def _verdict(gap: Interval) -> str:
    """What the interval allows to be said, and no more."""
    points = f"{gap.value:+.1f} points, 95% interval {gap.low:+.1f} to {gap.high:+.1f}"
    if gap.low > 0:
        return f' <span class="good">TSI is better</span> ({points}).'
    if gap.high < 0:
        return f' <span class="bad">TSI is worse</span> ({points}).'
    return f" No clear difference ({points})."


def _section(title: str, lead: str, body: str) -> str:
    return f'<section><h2>{title}</h2><p class="quiet">{lead}</p>{body}</section>' if body else ""


def _details(run: DemoRun) -> str:
    kinds = "".join(
        f"<h3>{escape(label(world))}</h3>{score_table(by_kind, first='Kind')}"
        for world, by_kind in run.by_kind.items()
    )
    sweeps = "".join(
        f"<h3>{escape(label(world))}</h3>{sweep_table(sweep)}"
        for world, sweep in run.sweeps.items()
    )
    return "".join(
        (
            _section(
                "TSI less turn-based",
                "Paired over clips: both systems watched the same videos. An interval that leaves "
                "out zero is coloured.",
                difference_table(run.differences) if run.differences else "",
            ),
            _section("By kind", "What happened while the speaker was talking.", kinds),
            _section(
                "Seeds",
                "Both systems trained anew from each seed.",
                seeds_table(run.seeds) if run.seeds else "",
            ),
            _section(
                "Turn-based threshold",
                "Chosen on validation, never on the clips scored above.",
                sweeps,
            ),
        )
    )


def _videos(run: DemoRun) -> tuple[str, list[str]]:
    drawn = [timeline_html(view) for view in run.videos]
    notes = [note for _, note in drawn if note]
    schemes = {key: None for view in run.videos for key in view.lanes}
    colours = {"tsi": "var(--tsi)", "turn_based": "var(--turn)"}
    keys = "".join(
        f'<span class="key" style="--c:{colours.get(key, "var(--quiet)")}">'
        f"{escape(label(key))}</span>"
        for key in schemes
    )
    legend = (
        f'<p class="keys"><span class="key" style="--c:var(--ref)">Reference</span>{keys}'
        '<span class="key dash">no match</span><span class="key shade">evaluation window</span></p>'
    )
    body = legend + "".join(html for html, _ in drawn) if drawn else ""
    lead = (
        "Time runs to the right. A line joins two utterances that were matched; bars that overlap "
        "stand below each other. Hover over a bar, or open the transcript, for the whole text."
    )
    return _section("Timelines", lead, body), notes


def _curves(run: DemoRun) -> str:
    charts = "".join(chart(title, series) for title, series in run.curves.items())
    body = f'<div class="charts">{charts}</div>' if charts else ""
    return _section("Training", "Each line over its updates.", body)


def _making(run: DemoRun) -> str:
    commands = escape("\n".join(run.commands))
    total = {**run.seconds, "all": sum(run.seconds.values())} if run.seconds else {}
    seconds = {phase: f"{number(value)} s" for phase, value in total.items()}
    tables = _named("Time", seconds) + _named("Versions", run.versions)
    return (
        _section("Commands", "What made this page.", f"<pre>{commands}</pre>" if commands else "")
        + f'<div class="columns">{tables}</div>'
    )


def _named(title: str, rows: Mapping[str, str]) -> str:
    return f"<section><h2>{title}</h2>{plain_table(rows)}</section>" if rows else ""
