"""The report's tables and curves as HTML.

Input: parts of a `Report`. Output: HTML strings. Invariant: every text is escaped; a
missing or NaN number is a dash; the best number of a group (as printed) is bold.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from eval.report_data import COLUMNS, MEANING, Interval, Scores, Sweep, label

_SERIES = tuple(f"var(--c{i})" for i in range(6))
Points = Sequence[tuple[float, float]]


def number(value: float | None, digits: int = 1) -> str:
    """A printed number; a dash where there is none."""
    return f"{value:.{digits}f}" if value is not None and math.isfinite(value) else "–"


def heading(column: str) -> str:
    """A column's heading, `S_start` with its subscript."""
    base, _, sub = COLUMNS.get(column, column.replace("_", " ")).partition("_")
    text = escape(base) + (f"<sub>{escape(sub)}</sub>" if sub else "")
    told = MEANING.get(column)
    return f'<abbr title="{escape(told)}">{text}</abbr>' if told else text


def score_table(
    groups: Mapping[str, Mapping[str, Scores]],
    first: str = "World",
    spans: Mapping[str, Mapping[str, Mapping[str, Interval]]] | None = None,
) -> str:
    """One group of rows for each key (world or kind), one row for each system.

    `spans`: group -> system -> column -> interval, shown small below the number.
    """
    columns = [c for c in COLUMNS if any(c in s for g in groups.values() for s in g.values())]
    head = "".join(f'<th class="num">{heading(c)}</th>' for c in columns)
    body = "".join(
        _group(label(name), schemes, columns, (spans or {}).get(name, {}))
        for name, schemes in groups.items()
    )
    return table(f"<th>{escape(first)}</th><th>System</th>{head}", body)


def _group(
    name: str,
    schemes: Mapping[str, Scores],
    columns: list[str],
    spans: Mapping[str, Mapping[str, Interval]],
) -> str:
    rows = []
    for i, (scheme, scores) in enumerate(schemes.items()):
        lead = f'<th rowspan="{len(schemes)}" scope="rowgroup">{escape(name)}</th>' if not i else ""
        around = spans.get(scheme, {})
        cells = "".join(_cell(scores, schemes.values(), c, around.get(c)) for c in columns)
        rows.append(f'<tr>{lead}<th scope="row">{escape(label(scheme))}</th>{cells}</tr>')
    return f"<tbody>{''.join(rows)}</tbody>"


def _cell(scores: Scores, peers: Iterable[Scores], column: str, span: Interval | None) -> str:
    printed = number(scores.get(column))
    values = [float(n) for s in peers if (n := number(s.get(column))) != "–"]
    is_best = printed != "–" and len(values) > 1 and float(printed) == max(values)
    around = f'<small class="ci">{span.low:.1f} – {span.high:.1f}</small>' if span else ""
    return f'<td class="num">{f"<b>{printed}</b>" if is_best else printed}{around}</td>'


def table(head: str, body: str) -> str:
    """A table that scrolls inside its own box where the page is narrow."""
    table = f"<table><thead><tr>{head}</tr></thead>{body}</table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'


def difference_table(differences: Mapping[str, Mapping[str, Interval]]) -> str:
    """Each difference with its interval, in numbers and drawn on one scale."""
    every = [d for columns in differences.values() for d in columns.values() if _finite(d)]
    reach = max([1.0, *(abs(v) for d in every for v in (d.low, d.high))]) * 1.05
    body = ""
    for world, columns in differences.items():
        rows = []
        for i, (column, d) in enumerate(columns.items()):
            lead = f'<th rowspan="{len(columns)}">{escape(label(world))}</th>' if not i else ""
            rows.append(f"<tr>{lead}<th>{heading(column)}</th>{_difference(d, reach)}</tr>")
        body += f"<tbody>{''.join(rows)}</tbody>"
    heads = "<th>World</th><th>Score</th><th class='num'>Difference</th><th>95% interval</th>"
    return table(heads + "<th class='plot'>Turn-based better · TSI better</th>", body)


def _finite(d: Interval) -> bool:
    return all(map(math.isfinite, (d.value, d.low, d.high)))


def _difference(d: Interval, reach: float) -> str:
    if not _finite(d):
        return "<td class='num'>–</td><td>–</td><td></td>"
    x0, x, x1 = (100 + 96 * v / reach for v in (d.low, d.value, d.high))
    kind = "up" if d.low > 0 else "down" if d.high < 0 else "open"
    plot = (
        f'<svg class="interval {kind}" viewBox="0 0 200 16" role="img" '
        f'aria-label="{d.low:+.1f} to {d.high:+.1f}"><path class="zero" d="M100 0V16"/>'
        f'<path d="M{x0:.1f} 8H{x1:.1f}"/><circle cx="{x:.1f}" cy="8" r="4"/></svg>'
    )
    return (
        f'<td class="num"><b>{d.value:+.1f}</b></td><td>{d.low:+.1f} to {d.high:+.1f}</td>'
        f'<td class="plot">{plot}</td>'
    )


def sweep_table(sweep: Sweep) -> str:
    """Scores at each threshold; the chosen row is marked."""
    columns = [c for c in COLUMNS if any(c in scores for _, scores in sweep.points)]
    head = "<th class='num'>Threshold</th>"
    head += "".join(f'<th class="num">{heading(c)}</th>' for c in columns)
    rows = []
    for threshold, scores in sweep.points:
        is_chosen = math.isclose(threshold, sweep.chosen)
        cells = "".join(f'<td class="num">{number(scores.get(c))}</td>' for c in columns)
        mark = " <span class='tag'>chosen</span>" if is_chosen else ""
        name = f'<th class="num">{threshold:g}{mark}</th>'
        rows.append(f"<tr{' class=chosen' if is_chosen else ''}>{name}{cells}</tr>")
    return table(head, f"<tbody>{''.join(rows)}</tbody>")


def seeds_table(seeds: Mapping[str, Mapping[str, Mapping[str, Scores]]]) -> str:
    """TRACE, S_overlap, F1 and content accuracy of each seed."""
    keep = ("trace", "s_overlap", "f1", "content_accuracy")
    groups = {
        f"{label(world)}, seed {seed}": {
            scheme: {c: scores[c] for c in keep if c in scores}
            for scheme, scores in schemes.items()
        }
        for seed, worlds in seeds.items()
        for world, schemes in worlds.items()
    }
    return score_table(groups, first="World and seed")


def plain_table(rows: Mapping[str, str]) -> str:
    """Two columns: a name and what it is."""
    body = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
    return f'<div class="scroll"><table class="plain"><tbody>{body}</tbody></table></div>'


def chart(title: str, series: Mapping[str, Points]) -> str:
    """Lines over a shared scale, with the least and the greatest value written out."""
    clean = {n: [p for p in points if all(map(math.isfinite, p))] for n, points in series.items()}
    points = [p for line in clean.values() for p in line]
    if not points:
        return ""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    box = (min(xs), max(xs), min(ys), max(ys))
    lines = "".join(
        f'<polyline style="stroke:{_colour(name, i)}" points="{_path(line, box)}"/>'
        for i, (name, line) in enumerate(clean.items())
    )
    key = " ".join(
        f'<span class="key" style="--c:{_colour(name, i)}">{escape(label(name))}</span>'
        for i, name in enumerate(clean)
    )
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 320 150" role="img" aria-label="{escape(title)}">'
        f'<path class="frame" d="M40 8V122H312"/>{lines}<g class="labels">'
        f'<text x="36" y="16" text-anchor="end">{box[3]:.3g}</text>'
        f'<text x="36" y="122" text-anchor="end">{box[2]:.3g}</text>'
        f'<text x="40" y="140">{box[0]:g}</text>'
        f'<text x="312" y="140" text-anchor="end">{box[1]:g}</text></g></svg>'
        f'<p class="keys">{key}</p></figure>'
    )


def _colour(name: str, index: int) -> str:
    fixed = {"TSI": _SERIES[0], "Turn-based": _SERIES[1]}  # also in charts with other lines
    return fixed.get(label(name), _SERIES[index % len(_SERIES)])


def _path(line: Points, box: tuple[float, float, float, float]) -> str:
    x0, x1, y0, y1 = box
    across, up = 272 / ((x1 - x0) or 1), 110 / ((y1 - y0) or 1)
    return " ".join(f"{40 + (x - x0) * across:.1f},{120 - (y - y0) * up:.1f}" for x, y in line)
