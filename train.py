"""Train a VLM-TSI or a turn-based baseline.

    accelerate launch train.py --config configs/demo/tsi.yaml optim.lr=3e-4
    python train.py --config configs/paper/soccernet_tsi.yaml data.timelines=[my.jsonl]

Input: YAML and `key=value` words. Output: `<run.out>/model`. All work is in vlm_tsi.training.
"""

import sys
from collections.abc import Sequence

from vlm_tsi.config import parse_train_config
from vlm_tsi.errors import command


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Parse first, so that a bad key costs no second; then train."""
    config = parse_train_config(sys.argv[1:] if argv is None else argv)
    from vlm_tsi.training.run import run_training

    return run_training(config)


if __name__ == "__main__":
    sys.exit(main())
