"""The report's drawings as SVG and HTML: scatter, failure bars, latency, sensitivity.

Input: groups of `System`s. Output: HTML strings. Invariant: every text is escaped; a system is
told from another by shape and label, not by colour alone; nothing is drawn outside its frame.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from eval.report_data import Interval, Latency, System, label
from eval.report_tables import chart, number, plain_table, table
from vlm_tsi.scoring.failures import KINDS, NAMES

Group = Mapping[str, System]
MOST_DOTS = 300
"""Of one system's videos; more of them say no more."""
_LEFT, _TOP, _SIDE = 44, 10, 400
_SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    "M-4.6 -4.6H4.6V4.6H-4.6Z",
    "M0 -6L5.6 4.4H-5.6Z",
    "M0 -6.4L6 0L0 6.4L-6 0Z",
    "M0 6L5.6 -4.4H-5.6Z",
    "M-2 -6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
)


def series(index: int) -> str:
    """The class that gives the index-th system of a group its colours."""
    return f"s{index % len(_SHAPES)}"


def run_names(groups: Mapping[str, Group]) -> dict[tuple[str, str], str]:
    """(group, system) -> a name that no other has: the group's is added where that is needed."""
    held = [name for group in groups.values() for name in group]
    return {
        (g, n): f"{label(n)} ({label(g)})" if held.count(n) > 1 else label(n)
        for g, group in groups.items()
        for n in group
    }


def scatter(title: str, group: Group) -> str:
    """S_a against S_t: a mark with whiskers for each system, a dot for each of its videos."""
    dots = "".join(_dots(i, s) for i, s in enumerate(group.values()))
    marks = "".join(_mark(i, n, s) for i, (n, s) in enumerate(group.items()))
    names = _names(group)
    ticks = range(0, 101, 20)
    grid = "".join(f'<path class="grid" d="M{_x(t)} {_TOP}V{_y(0)}M{_x(0)} {_y(t)}H{_x(100)}"/>'
                   for t in ticks)  # fmt: skip
    labels = "".join(
        f'<text x="{_x(t)}" y="{_y(0) + 16}" text-anchor="middle">{t}</text>'
        f'<text x="{_x(0) - 6}" y="{_y(t) + 4}" text-anchor="end">{t}</text>'
        for t in ticks
    )
    axes = (
        f'<text x="{_x(50)}" y="{_y(0) + 34}" text-anchor="middle">when it was said: '
        f"S_t, percent</text>"
        f'<text transform="rotate(-90)" x="{-_y(50)}" y="11" text-anchor="middle">'
        f"what was said: S_a, percent</text>"
    )
    name = escape(title)
    return (
        f'<figure class="chart"><figcaption>{name}</figcaption>'
        f'<svg viewBox="0 0 460 460" role="img" aria-label="quality against timing, {name}">'
        f'{grid}<g class="labels">{labels}{axes}</g>{dots}{marks}{names}</svg></figure>'
    )


def _x(percent: float) -> float:
    return round(_LEFT + _SIDE * min(max(percent, 0.0), 100.0) / 100, 1)


def _y(percent: float) -> float:
    return round(_TOP + _SIDE * (1 - min(max(percent, 0.0), 100.0) / 100), 1)


def _dots(index: int, system: System) -> str:
    videos = [(v, s) for v, s in system.per_video.items() if "s_a" in s and "s_t" in s]
    step = max(1, math.ceil(len(videos) / MOST_DOTS))
    return f'<g class="dots {series(index)}">' + "".join(
        f'<circle cx="{_x(s["s_t"])}" cy="{_y(s["s_a"])}" r="2.6"><title>{escape(v)}: '
        f"S_a {number(s['s_a'])}, S_t {number(s['s_t'])}, TRACE {number(s.get('trace'))}"
        "</title></circle>" for v, s in videos[::step]
    ) + "</g>"  # fmt: skip


def _mark(index: int, name: str, system: System) -> str:
    a, t = system.scores["s_a"], system.scores["s_t"]
    told = f"{escape(label(name))}: S_a {_told(a)}, S_t {_told(t)}"
    return (
        f'<g class="mark {series(index)}"><title>{told}</title>'
        f'<path class="whisker" d="M{_x(t.low)} {_y(a.value)}H{_x(t.high)}'
        f'M{_x(t.value)} {_y(a.low)}V{_y(a.high)}"/>'
        f'<path d="{_SHAPES[index % len(_SHAPES)]}" '
        f'transform="translate({_x(t.value)} {_y(a.value)})"/></g>'
    )


def _told(x: Interval) -> str:
    return f"{x.value:.1f} ({x.low:.1f} to {x.high:.1f})"


def _names(group: Group) -> str:
    """Each system's name beside its mark, pushed apart where marks are close."""
    places = sorted(
        (_y(s.scores["s_a"].value), _x(s.scores["s_t"].value), i, n)
        for i, (n, s) in enumerate(group.items())
    )
    below, texts = -math.inf, []
    for y, x, i, name in places:
        below = max(y - 10, below + 15)
        right = x < _LEFT + _SIDE * 0.6
        anchor, at = ("start", x + 10) if right else ("end", x - 10)
        shown = name if len(name) <= 34 else name[:33] + "…"
        texts.append(
            f'<text class="name {series(i)}" x="{at}" y="{below:.1f}" text-anchor="{anchor}">'
            f"{escape(label(shown))}</text>"
        )
    return "".join(texts)


def failure_table(groups: Mapping[str, Group]) -> str:
    """How often each kind of Appendix E occurs: a share of what was said, or of references."""
    return "".join(_failures(name, group) for name, group in groups.items())


def _failures(title: str, group: Group) -> str:
    first = next(iter(group.values()))
    heads = "".join(
        f'<th class="num {series(i)}">{escape(label(name))}</th><th></th>'
        for i, name in enumerate(group)
    )
    rows = "".join(
        f"<tr><th scope='row'>{NAMES[kind]}{_threshold(first, kind)}</th>"
        + "".join(_count(kind, s, i) for i, s in enumerate(group.values())) + "</tr>"
        for kind in KINDS
    )  # fmt: skip
    return f"<h3>{escape(label(title))}</h3>" + table(
        f"<th>Kind</th>{heads}", f"<tbody>{rows}</tbody>"
    )


def _threshold(system: System, kind: str) -> str:
    seconds = system.thresholds.get(kind)
    return f' <span class="quiet">by more than {seconds:g} s</span>' if seconds is not None else ""


def _count(kind: str, system: System, index: int) -> str:
    whole = system.counts["references" if kind == "missed" else "generated"]
    count = system.failures.get(kind, 0)
    share = 100 * count / whole if whole else 0.0
    of = "references" if kind == "missed" else "utterances"
    return (
        f'<td class="num">{count}</td><td class="share" title="{share:.1f}% of {whole} {of}">'
        f'<span class="{series(index)}" style="width:{min(share, 100):.1f}%"></span>'
        f"<small>{share:.0f}%</small></td>"
    )


def latency_html(groups: Mapping[str, Group]) -> str:
    """Step times over each run, and their summary; runs without are left out."""
    names = run_names(groups)
    named = {
        names[g, name]: s.latency
        for g, group in groups.items()
        for name, s in group.items()
        if s.latency
    }
    if not named:
        return ""
    curves = {
        "Step time over the run, median of each stretch (ms by frame)": {
            n: [(x, 1e3 * median) for x, median, _ in lat.curve] for n, lat in named.items()
        },
        "The longest step of each stretch (ms by frame)": {
            n: [(x, 1e3 * top) for x, _, top in lat.curve] for n, lat in named.items()
        },
    }
    charts = "".join(chart(title, lines) for title, lines in curves.items())
    return _latencies(named) + (f'<div class="charts">{charts}</div>' if charts else "")


def _latencies(named: Mapping[str, Latency]) -> str:
    heads = ("Frames", "Median", "95%", "Longest", "Real-time factor", "Dropped")
    head = "<th>Run</th>" + "".join(f'<th class="num">{h}</th>' for h in heads)
    rows = "".join(
        f"<tr><th scope='row'>{escape(label(name))}</th><td class='num'>{lat.frames}</td>"
        + "".join(f"<td class='num'>{1e3 * x:.1f} ms</td>" for x in (lat.p50, lat.p95, lat.max))
        + f"<td class='num'>{lat.real_time_factor:.2f}</td><td class='num'>{lat.dropped}</td></tr>"
        for name, lat in named.items()
    )
    return table(head, f"<tbody>{rows}</tbody>")


def sensitivity_html(groups: Mapping[str, Group]) -> str:
    """TRACE along each parameter, the others as scored."""
    axes: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    names = run_names(groups)
    for title, group in groups.items():
        for name, system in group.items():
            for axis, line in system.sensitivity.items():
                axes.setdefault(f"TRACE over {axis}", {})[names[title, name]] = sorted(line.items())
    charts = "".join(chart(title, lines) for title, lines in axes.items())
    return f'<div class="charts">{charts}</div>' if charts else ""


def facts_html(groups: Mapping[str, Group]) -> str:
    """Parameters and what was left out, a table a system."""
    parts = [
        f"<section><h3>{escape(label(name))}</h3>{plain_table(system.facts)}</section>"
        for group in groups.values()
        for name, system in group.items()
        if system.facts
    ]
    return f'<div class="columns">{"".join(parts)}</div>' if parts else ""
