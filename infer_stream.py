"""Stream a video, a camera or a file of datapoints through a model.

    python infer_stream.py clip.mp4 --model runs/demo/tsi/model --out runs/clip
    python infer_stream.py --timeline test.jsonl --model DIR --out DIR --workers 2

Input: a source and a checkpoint. Output: utterances as JSONL, SRT and WebVTT, and run.json.
All work is in vlm_tsi.streaming.
"""

import sys
from collections.abc import Sequence

from vlm_tsi.errors import command


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Parse, stream, write."""
    from vlm_tsi.streaming.cli import run

    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
