"""VideoLLM-Online's released checkpoints in, and ours out in their form.

Input: the published folders. Output: a checkpoint folder, or an adapter folder. Invariant:
see `vlm_tsi.model.backbones.live_llama`.

    python -m data_prep.import_live --adapter DIR --llama DIR --siglip DIR --out DIR
    python -m data_prep.import_live --export runs/mine/model --out DIR
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.model.backbones.live_llama import VARIANTS, export_live, import_live
from vlm_tsi.quiet import quiet_libraries


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = Parser(
        prog="python -m data_prep.import_live",
        description="VideoLLM-Online's released layout into this project's, or back.",
        epilog="example: python -m data_prep.import_live --adapter videollm-online-8b-v1plus "
        "--llama Meta-Llama-3-8B-Instruct --siglip siglip-large-patch16-384 "
        "--out weights/videollm-online-8b-v1plus",
    )
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="the released LoRA adapter")
    parser.add_argument("--llama", type=Path, metavar="DIR", help="Llama, with its tokenizer")
    parser.add_argument("--siglip", type=Path, metavar="DIR", help="SigLIP, or its vision part")
    parser.add_argument("--variant", choices=list(VARIANTS), help="default: as its config says")
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="an adapter of ours to write out"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    args = parser.parse_args(argv)
    quiet_libraries()
    parts = {"adapter": args.adapter, "llama": args.llama, "siglip": args.siglip}
    given = [name for name, path in parts.items() if path is not None]
    if args.export is not None:
        if given:
            raise UserError("--export", f"does not go with --{given[0]}", "leave one of them out")
        export_live(args.export, args.out)
        print(f"wrote {args.out}")
        return 0
    for name, path in parts.items():
        if path is None:
            raise UserError(f"--{name}", "is not given", "name its folder, or use --export")
    found = import_live(args.adapter, args.llama, args.siglip, args.out, args.variant)
    told = ", ".join(f"{n} weights of {kind}" for kind, n in found.taken.items())
    print(f"wrote {args.out} and its base {args.out / 'base'}: {told}")
    left = ", ".join(f"{n} of {kind}" for kind, n in found.left_out.items() if n)
    if left:
        print(f"left out, as no frame or text goes through them: {left}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
