"""A report as one self-contained HTML page.

Input: a `Report`. Output: one file that needs nothing else (style, charts and thumbnails
are inside it). Invariant: every text from outside is escaped; the file appears whole or
not at all; a video that cannot be read gives a placeholder and a note, not a failure.
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path

from eval.report_charts import (
    MOST_DOTS,
    facts_html,
    failure_table,
    latency_html,
    scatter,
    sensitivity_html,
)
from eval.report_data import COLUMNS, MEANING, Interval, Report, label
from eval.report_pairs import pairs_html
from eval.report_tables import (
    chart,
    difference_table,
    heading,
    number,
    plain_table,
    score_table,
    seeds_table,
    sweep_table,
)
from eval.report_template import PAGE, STYLE
from eval.report_timeline import timeline_html
from vlm_tsi.files import write_text


def write_report(path: str | Path, report: Report) -> list[str]:
    """Write the page.

    Args:
        path: where to; folders are made.
        report: what to show.

    Returns:
        One note for each video that could not be read (they also stand in the page).

    Raises:
        UserError: the place cannot be written to.
    """
    page, notes = report_html(report)
    write_text(path, page)
    return notes


def report_html(report: Report) -> tuple[str, list[str]]:
    """The page's text, and a note for each video that could not be read."""
    videos, notes = _videos(report)
    sections = [
        _headline(report), _details(report), _scatter(report), videos, _failures(report),
        _latency(report), _sensitivity(report), _curves(report), _pairs(report), _making(report),
    ]  # fmt: skip
    page = PAGE.substitute(title=escape(report.title), style=STYLE, body="\n".join(sections))
    return page.encode("utf-8", "replace").decode("utf-8"), notes


def _headline(report: Report) -> str:
    embedder = (
        f"Texts are compared with <b>{escape(report.embedder)}</b>. " if report.embedder else ""
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return (
        f'<div class="lead">{_lead(report)}</div><h2>Scores</h2>'
        f'<p class="quiet">Percent, best in bold, in the columns of the paper’s Table 2. {embedder}'
        "</p>"
        f"{score_table(report.scores, _first(report), _spans(report))}{_meaning(report)}"
        + (f"<ul>{notes}</ul>" if notes else "")
        + _contents(report)
    )


def _first(report: Report) -> str:
    return "World" if report.differences else "Videos"


def _spans(report: Report) -> Mapping[str, Mapping[str, Mapping[str, Interval]]]:
    return {g: {n: s.scores for n, s in group.items()} for g, group in report.systems.items()}


def _meaning(report: Report) -> str:
    columns = [
        c for c in COLUMNS if any(c in s for g in report.scores.values() for s in g.values())
    ]
    rows = "".join(f"<dt>{heading(c)}</dt><dd>{escape(MEANING[c])}</dd>" for c in columns)
    small = " Small: the 95% interval, from a bootstrap over videos." if report.systems else ""
    return (
        "<details><summary>What the columns mean</summary>"
        f'<dl class="meaning">{rows}</dl><p class="quiet">All in percent, more is better.{small}'
        "</p></details>"
    )


def _contents(report: Report) -> str:
    """Links to the parts that this page has."""
    parts = {
        "Quality and timing": report.systems, "Timelines": report.videos,
        "Failures": report.systems, "Latency": _latency(report),
        "Sensitivity": _sensitivity(report), "Training": report.curves, "Pairs": _pairs(report),
        "Commands": report.commands,
    }  # fmt: skip
    links = (f'<a href="#{_anchor(name)}">{name}</a>' for name, there in parts.items() if there)
    return f'<nav aria-label="Parts of this page">{" ".join(links)}</nav>'


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _scatter(report: Report) -> str:
    drawn = "".join(scatter(label(name), group) for name, group in report.systems.items())
    return _section(
        "Quality and timing",
        "Up: more alike in text. Right: better timed. The large mark is the system with its 95% "
        f"intervals, each small dot one of its videos (at most {MOST_DOTS}; hover for its name).",
        f'<div class="wide">{drawn}</div>' if drawn else "",
    )


def _failures(report: Report) -> str:
    return _section(
        "Failures",
        "How often each kind of the paper’s Appendix E occurs: missed as a share of references, "
        "the others of what was said. One utterance may fail in several ways.",
        failure_table(report.systems),
    )


def _latency(report: Report) -> str:
    return _section(
        "Latency",
        "What one step (a frame and the words after it) took. A real-time factor below 1 keeps up.",
        latency_html(report.systems),
    )


def _sensitivity(report: Report) -> str:
    return _section(
        "Sensitivity",
        "The metric’s parameters are set by hand: how TRACE moves with one, the others as scored.",
        sensitivity_html(report.systems),
    )


def _pairs(report: Report) -> str:
    return _section(
        "Pairs",
        "Every match, miss and extra. Scores lie in 0 to 1. Click a heading to sort.",
        pairs_html(report.systems),
    )


def _lead(report: Report) -> str:
    lines = []
    for world, schemes in report.scores.items():
        values = ", ".join(
            f"{escape(label(s))} {number(v.get('trace'))}" for s, v in schemes.items()
        )
        gap = report.differences.get(world, {}).get("trace")
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
    anchor = f'id="{_anchor(title)}"'
    return (
        f'<section {anchor}><h2>{title}</h2><p class="quiet">{lead}</p>{body}</section>'
        if body
        else ""
    )


def _details(report: Report) -> str:
    kinds = "".join(
        f"<h3>{escape(label(world))}</h3>{score_table(by_kind, first='Kind')}"
        for world, by_kind in report.by_kind.items()
    )
    sweeps = "".join(
        f"<h3>{escape(label(world))}</h3>{sweep_table(sweep)}"
        for world, sweep in report.sweeps.items()
    )
    return "".join(
        (
            _section(
                "TSI less turn-based",
                "Paired over clips: both systems watched the same videos. An interval that leaves "
                "out zero is coloured.",
                difference_table(report.differences) if report.differences else "",
            ),
            _section("By kind", "What happened while the speaker was talking.", kinds),
            _section(
                "Seeds",
                "Both systems trained anew from each seed.",
                seeds_table(report.seeds) if report.seeds else "",
            ),
            _section(
                "Turn-based threshold",
                "Chosen on validation, never on the clips scored above.",
                sweeps,
            ),
        )
    )


def _videos(report: Report) -> tuple[str, list[str]]:
    drawn = [timeline_html(view) for view in report.videos]
    notes = [note for _, note in drawn if note]
    schemes = dict.fromkeys((i, k) for view in report.videos for i, k in enumerate(view.lanes))
    keys = "".join(
        f'<span class="key" style="--c:var(--c{i % 6})">{escape(label(key))}</span>'
        for i, key in schemes
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


def _curves(report: Report) -> str:
    charts = "".join(chart(title, series) for title, series in report.curves.items())
    body = f'<div class="charts">{charts}</div>' if charts else ""
    return _section("Training", "Each line over its updates.", body)


def _making(report: Report) -> str:
    commands = escape("\n".join(report.commands))
    total = {**report.seconds, "all": sum(report.seconds.values())} if report.seconds else {}
    seconds = {phase: f"{number(value)} s" for phase, value in total.items()}
    tables = _named("Time", seconds) + _named("Versions", report.versions)
    return (
        _section("Commands", "What made this page.", f"<pre>{commands}</pre>" if commands else "")
        + facts_html(report.systems)
        + f'<div class="columns">{tables}</div>'
    )


def _named(title: str, rows: Mapping[str, str]) -> str:
    return f"<section><h2>{title}</h2>{plain_table(rows)}</section>" if rows else ""
