"""Does a demo's result hold together? `python scripts/check_result.py runs/smoke`.

Input: a run's folder. Output: one line, exit code 0; or what is wrong, exit code 2.
Invariant: every score named in the README is there, a percentage, and agrees with its parts;
something was said, and matched, in each world by each model.
"""

import sys
from pathlib import Path

from vlm_tsi.errors import UserError, command
from vlm_tsi.files import read_json

NAMES = ("trace", "s_a", "s_t", "s_start", "s_end", "s_overlap", "f1", "precision", "recall")


def check(scores: dict[str, float], where: str) -> None:
    """Ranges, and TRACE = (S_a + S_t) / 2 (Eq. 17)."""
    for name in NAMES:
        if not 0 <= scores.get(name, -1) <= 100:
            raise UserError(f"{where}.{name}", f"is {scores.get(name)}", "look at the scorer")
    if not scores["f1"]:
        raise UserError(f"{where}.f1", "is 0: nothing that was said was matched", "train longer")
    if abs(scores["trace"] - (scores["s_a"] + scores["s_t"]) / 2) > 1e-3:
        raise UserError(f"{where}.trace", "is not the mean of its parts", "look at the scorer")


@command
def main() -> int:
    """Check the folder named on the command line."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
    result = read_json(folder / "result.json")
    for world in ("signals", "assembly"):
        for scheme in ("tsi", "turn_based"):
            check(result[world][scheme], f"{world}.{scheme}")
            if not (folder / scheme / "model" / "adapter_model.safetensors").is_file():
                raise UserError(folder / scheme, "holds no adapter", "run the demo again")
    if "<svg" not in (folder / "report.html").read_text(encoding="utf-8"):
        raise UserError(folder / "report.html", "shows no picture", "look at eval/report.py")
    print(f"{folder}: {result['seconds']} s, scores in range, models and report in place")
    return 0


if __name__ == "__main__":
    sys.exit(main())
