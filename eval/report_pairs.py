"""The table of pairs: every match, miss and extra, to sort and filter in the reader's browser.

Input: groups of `System`s. Output: HTML: controls, the first rows written out, all rows as JSON,
and the script that shows them. Invariant: no text can end the JSON's element or become markup;
without a script the first rows still stand there; rows that are left out are told.
"""

import json
from collections.abc import Mapping
from html import escape

from eval.report_charts import Group, run_names
from eval.report_data import Outcome
from eval.report_layout import clock
from eval.report_script import SCRIPT
from vlm_tsi.scoring.failures import KINDS, NAMES

PAGE_ROWS = 50
MOST_ROWS = 20_000
"""About 4 MB of page; a whole SoccerNet test set has five times as many."""
COLUMNS = (
    "Run", "Video", "Time", "Reference", "Generated", "Alike", "Timing", "Start", "End",
    "Overlap", "Failures",
)  # fmt: skip
NUMBERS = range(5, 10)


def pairs_html(groups: Mapping[str, Group]) -> str:
    """The whole section; empty where no system has an outcome."""
    runs, rows = _rows(groups)
    if not rows:
        return ""
    left = len(rows) - MOST_ROWS
    rows = _evenly(rows, MOST_ROWS)
    note = (
        f'<p class="note">{left} of {left + MOST_ROWS} rows are left out, evenly, to keep the page '
        "small; the score files have all of them.</p>"
        if left > 0
        else ""
    )
    data = {"runs": runs, "kinds": [NAMES[k] for k in KINDS], "rows": rows, "page": PAGE_ROWS}
    return (
        f'{note}<div id="pairs">{_controls(runs)}<p class="quiet" id="found" role="status">'
        f"{len(rows)} rows</p>{_table(rows, runs)}{_pager()}</div>"
        f'<script type="application/json" id="pair-data">{_json(data)}</script>'
        f"<script>{SCRIPT}</script>"
    )


def _rows(groups: Mapping[str, Group]) -> tuple[list[str], list[list[object]]]:
    """Run names, and one list a row in the order of `COLUMNS`, times and scores as numbers."""
    runs: list[str] = []
    rows: list[list[object]] = []
    names = run_names(groups)
    for title, group in groups.items():
        for name, system in group.items():
            runs.append(names[title, name])
            rows += [_row(len(runs) - 1, o) for o in system.outcomes]
    return runs, rows


def _row(run: int, o: Outcome) -> list[object]:
    scores = [round(x, 3) for x in o.scores] if o.scores else [None] * 5
    kinds = [KINDS.index(k) for k in o.kinds if k in KINDS]
    texts = [side[0] if side else None for side in (o.ref, o.gen)]
    return [run, o.video_id, round(o.start, 2), *texts, *scores, kinds]


def _evenly(rows: list[list[object]], most: int) -> list[list[object]]:
    return rows if len(rows) <= most else [rows[k * len(rows) // most] for k in range(most)]


def _json(data: object) -> str:
    """JSON that no text of can close a script element or open a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for c in "<>&\u2028\u2029":
        text = text.replace(c, f"\\u{ord(c):04x}")
    return text


def _controls(runs: list[str]) -> str:
    def choice(name: str, title: str, options: list[str]) -> str:
        listed = "".join(f'<option value="{i}">{escape(o)}</option>' for i, o in enumerate(options))
        return (
            f'<label>{title}<select name="{name}"><option value="">all</option>{listed}'
            "</select></label>"
        )

    kinds = [*(NAMES[k] for k in KINDS), "no failure"]
    return (
        '<form class="controls" hidden>'
        '<label>Text or video<input type="search" name="q" placeholder="words to find"></label>'
        f"{choice('run', 'Run', runs)}{choice('kind', 'Failure', kinds)}"
        '<button type="reset">Show all</button></form>'
    )


def _pager() -> str:
    return (
        '<p class="pager" hidden><button type="button" value="-1">Previous</button>'
        '<span id="page"></span><button type="button" value="1">Next</button></p>'
    )


def _table(rows: list[list[object]], runs: list[str]) -> str:
    heads = "".join(
        f'<th scope="col"{" class=num" if i in NUMBERS or i == 2 else ""}>{name}</th>'
        for i, name in enumerate(COLUMNS)
    )
    body = "".join(_cells(row, runs) for row in rows[:PAGE_ROWS])
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="Table of pairs">'
        f'<table class="pairs"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cells(row: list[object], runs: list[str]) -> str:
    run, video, start, ref, gen, *rest = row
    kinds = rest.pop()
    told = ", ".join(NAMES[KINDS[k]] for k in kinds)  # type: ignore[attr-defined]
    texts = "".join(
        f"<td>{escape(str(t))}</td>" if t is not None else '<td class="none">–</td>'
        for t in (ref, gen)
    )
    numbers = "".join(
        f'<td class="num">{f"{x:.3f}" if isinstance(x, float) else "–"}</td>' for x in rest
    )
    return (
        f"<tr><td>{escape(runs[int(str(run))])}</td><td>{escape(str(video))}</td>"
        f'<td class="num">{clock(float(str(start)), with_tenths=True)}</td>{texts}{numbers}'
        f"<td>{told}</td></tr>"
    )
