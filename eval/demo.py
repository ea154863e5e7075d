"""The whole loop on one machine: make data, train, stream, score, report.

    python -m eval.demo --preset full          what `make demo` runs
    python -m eval.demo --preset smoke         the same at its smallest, about two minutes
    python -m eval.demo --seeds 0 1 2          three training seeds, one table
    python -m eval.demo --ablation             weights on silent frames, on validation

Input: nothing but the preset. Output, under the folder: `result.json`, `report.html`, the
models, what they said, and the Table 2 columns on the terminal.
Invariant: both schemes start from the same base weights, see the same data for the same
number of updates, and are streamed over the same held-out clips.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.demo_plan import PRESETS, SCHEMES, WORLDS
from eval.demo_score import finish
from eval.demo_steps import CORES, Steps, python, train
from eval.demo_stream import Place, stream_test, sweep_threshold
from vlm_tsi.errors import Parser, UserError, command
from vlm_tsi.files import make_folder
from vlm_tsi.scoring.embed import find_embedder

CONFIGS = Path("configs/demo")


class Demo:
    """One run of the demo under one folder."""

    def __init__(
        self, preset: str, out: Path, data: Path, seed: int, encoder: Path | None = None
    ) -> None:
        self.name, self.preset, self.seed = preset, PRESETS[preset], seed
        self.out, self.data = out, data
        self.encoder = encoder or out  # the run whose captions model and features are used
        self.place = Place(out, data, self.encoder / "store")
        self.steps = Steps(make_folder(out), total=9 if self.encoder == out else 7)

    def run(self) -> None:
        """All steps in order."""
        find_embedder()  # better no embedder now than after the training
        self.make_data()
        self.pretrain()
        self.fine_tune()
        chosen = sweep_threshold(self.steps, self.place, self.preset)
        stream_test(self.steps, self.place, chosen)
        self.report()

    def report(self, seeds: Mapping[str, Any] | None = None) -> None:
        """Score, print, and write the report; with other seeds' results beside this one's."""
        finish(self.steps, self.place, self.preset, self.name, self.seed, seeds or {})

    def fine_tune(self) -> None:
        """Both schemes from the same base, side by side."""
        stages = [self.stage(s, 1) for s in SCHEMES]
        folders = [self.out / s for s in SCHEMES]
        self.steps.run("fine-tuning", stages, together=True, clear=folders)

    def make_data(self) -> None:
        """Videos, timelines, captions, and a tokenizer for their words."""
        self.steps.run("videos", [self.world(w, s) for w in WORLDS for s in self.preset.clips[w]])
        timelines = [str(self.data / f"{w}-train/timelines.jsonl") for w in WORLDS]
        captions = [str(self.data / f"{w}-train/captions.jsonl") for w in WORLDS]
        words = ("--timelines", *timelines, "--captions", *captions)
        tokenizer = str(self.out / "tokenizer")
        self.steps.run(
            "tokenizer", [python("-m", "data_prep.tokenizer", *words, "--out", tokenizer)]
        )

    def world(self, world: str, split: str) -> list[str]:
        """The command that renders one split."""
        count, folder = self.preset.clips[world][split], str(self.data / f"{world}-{split}")
        rate = "2" if split == "train" else "8"  # the sampling rate: a quarter of the time
        seed = "2" if split == "test" else "0"  # 0's and 1's test clips were seen while tuning
        where = ["--out", folder, "--count", str(count), "--seed", seed, "--split", split]
        how = ["--fps", rate, "--workers", str(CORES)]
        return python("-m", "data_prep.worlds", world, *where, *how)

    def pretrain(self) -> None:
        """Captions, then features of every frame, then the turn-based base."""
        if self.encoder == self.out:
            self.encode()
        self.steps.run("base", [self.stage("base", CORES)], clear=[self.out / "base"])

    def encode(self) -> None:
        """Train the encoder on captions, then keep the features of every frame."""
        self.steps.run("captions", [self.stage("captions", CORES)], clear=[self.out / "captions"])
        files = [
            str(self.data / f"{w}-{s}/timelines.jsonl")
            for w in WORLDS
            for s in self.preset.clips[w]
        ]
        encode = ("-m", "data_prep.encode_frames", "--timelines", *files)
        model, store = str(self.out / "captions/model"), str(self.out / "store")
        where = ("--model", model, "--store", store, "--workers", str(CORES))
        self.steps.run("features", [python(*encode, *where)])

    def stage(self, name: str, processes: int) -> list[str]:
        """The command of one training stage."""
        kind = "captions" if name == "captions" else "timelines"
        files = ",".join(str(self.data / f"{w}-train/{kind}.jsonl") for w in WORLDS)
        words = [f"run.out={self.out / name}", f"run.seed={self.seed}", f"data.{kind}=[{files}]"]
        if name == "captions":
            words.append(f"model.tokenizer={self.out / 'tokenizer'}")
        else:
            base = self.encoder / "captions" if name == "base" else self.out / "base"
            words += [f"model.base={base / 'model'}", f"data.store={self.encoder / 'store'}"]
        config = str(CONFIGS / f"{name}.yaml")
        return train(config, *words, *self.preset.stage(name), processes=processes)


def check_place() -> None:
    """The demo runs the repository's own commands, so it runs from its root."""
    if not CONFIGS.is_dir():
        raise UserError(CONFIGS, "is not here", "run the demo from the repository's root")


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = Parser(
        prog="python -m eval.demo",
        description=__doc__.split("\n")[0] if __doc__ else "",
        epilog="example: python -m eval.demo --preset smoke --out runs/smoke",
    )
    parser.add_argument("--preset", choices=sorted(PRESETS), default="full")
    parser.add_argument("--out", type=Path, help="results (default: runs/demo, or runs/<preset>)")
    parser.add_argument("--data", type=Path, help="videos (default: <out>/data)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0], help="of the training, not of the videos"
    )
    parser.add_argument("--ablation", action="store_true", help="weights on silent frames instead")
    args = parser.parse_args(argv)
    check_place()
    out = args.out or Path("runs/demo" if args.preset == "full" else f"runs/{args.preset}")
    demo = Demo(args.preset, out, args.data or out / "data", args.seeds[0])
    if args.ablation:
        from eval.demo_ablation import ablate

        ablate(demo)
    elif len(args.seeds) > 1:
        from eval.demo_seeds import run_seeds

        run_seeds(demo, args.seeds)
    else:
        demo.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
