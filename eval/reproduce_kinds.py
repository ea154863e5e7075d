"""The demo's kinds of turn as groups, so that `eval.groups --csv` can split its scores.

Input: a finished run of the demo. Output: a CSV of stretches (`video_id,start,end,group`), and
what both models said on the held-out clips, under fixed names.
Invariant: each scored turn is one row; nothing is scored here.
"""

import csv
import io
import shutil
from collections.abc import Mapping
from pathlib import Path

from eval.demo_plan import SCHEMES
from eval.demo_stream import Place, test_jobs
from vlm_tsi.files import atomic_path, read_json, write_text
from vlm_tsi.timeline import read_timelines


def take_kinds(folder: Path, world: str, groups: Path, said: Mapping[str, Path]) -> None:
    """The demo's kinds as a CSV of groups, and what both models said under a fixed name.

    Args:
        folder: the demo's.
        world: whose clips.
        groups: the CSV to write: one row a scored turn, its kind the group.
        said: by scheme, where its utterances go.
    """
    chosen = read_json(folder / "thresholds.json")["chosen"]
    jobs = test_jobs(Place(folder, folder / "data", folder / "store"), chosen)
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("video_id", "start", "end", "group"))
    for timeline in read_timelines(jobs[world, SCHEMES[0]].datapoints):
        for turn in timeline.utterances:
            if turn.eval:
                kind = turn.meta.get("kind", "none")
                table.writerow((timeline.video_id, turn.start, turn.end, f"mid-sentence: {kind}"))
    write_text(groups, text.getvalue())
    for scheme, target in said.items():
        with atomic_path(target) as temp:
            shutil.copyfile(jobs[world, scheme].out, temp)
