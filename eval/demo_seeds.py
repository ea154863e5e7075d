"""The demo under several training seeds, on the same videos and frame features.

Input: seeds. Output: one run a seed (`<out>` for the first, `<out>-seed<k>` for the others), all
seeds' scores in the first one's `result.json` and report, and a Markdown table on the terminal.
Invariant: all that changes
from run to run is the seed of the base's and both fine-tunings' training (order of the data,
LoRA weights).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eval.demo_plan import SCHEMES, WORLDS
from vlm_tsi.files import read_json

if TYPE_CHECKING:
    from eval.demo import Demo

COLUMNS = ("trace", "s_a", "s_start", "s_end", "s_overlap", "f1", "content_accuracy")


def run_seeds(first: "Demo", seeds: Sequence[int]) -> None:
    """Run what is not done yet, then the table."""
    from eval.demo import Demo

    results = {}
    for k, seed in enumerate(seeds):
        out = first.out if k == 0 else first.out.with_name(f"{first.out.name}-seed{seed}")
        demo = Demo(first.name, out, first.data, seed, encoder=first.out) if k else first
        demo.run()
        results[seed] = read_json(out / "result.json")
    first.report({str(s): summary(r) for s, r in results.items()})
    print(markdown(results))


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """What a seed's run is compared by."""
    return {w: {**result[w], "difference": result["difference"][w]} for w in WORLDS}


def markdown(results: dict[int, dict[str, Any]]) -> str:
    """One row a world, scheme and seed, then TSI less turn-based with its interval."""
    lines = ["| world, scheme, seed | " + " | ".join(COLUMNS) + " |"]
    lines.append("|---" * (len(COLUMNS) + 1) + "|")
    for world in WORLDS:
        for scheme in SCHEMES:
            for seed, result in results.items():
                values = " | ".join(f"{result[world][scheme].get(c, 0):.1f}" for c in COLUMNS)
                lines.append(f"| {world}, {scheme}, {seed} | {values} |")
        for seed, result in results.items():
            lines.append(f"| {world}, difference, {seed} | {gaps(result['difference'][world])} |")
    return "\n".join(lines)


def gaps(differences: dict[str, Any]) -> str:
    """The differences' cells; content accuracy has none."""
    cells = []
    for column in COLUMNS:
        gap = differences.get(column)
        cells.append(
            f"{gap['value']:+.1f} ({gap['low']:+.1f} to {gap['high']:+.1f})" if gap else ""
        )
    return " | ".join(cells)
