"""The options of speech recognition, and what can be told of them before the work.

Input: an argparse parser, then its result. Output: `AsrSettings`.
Invariant: what is plainly missing (a package, an environment, a model's folder) is refused
before anything is read; folders are absolute, so that they mean the same in other processes.
"""

import argparse
from pathlib import Path
from typing import get_args

from data_prep.asr.base import COMPUTE_TYPES, AsrSettings, Backend, Device, NotLoaded
from data_prep.asr.faster import need_package
from data_prep.asr.whisperx_backend import need_environment


def add_asr_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `asr_settings` reads."""
    group = parser.add_argument_group("speech recognition")
    group.add_argument(
        "--backend",
        "--asr",
        dest="backend",
        choices=get_args(Backend),
        default="faster-whisper",
        help="faster-whisper (default; extra asr), or whisperx (`make whisperx`): the paper's, "
        "which aligns words by sound and tells speakers apart",
    )
    group.add_argument(
        "--model",
        default="large-v2",
        help="a Whisper size that the hub knows (default: large-v2, the paper's), or a local "
        "CTranslate2 folder",
    )
    group.add_argument(
        "--language", default="en", metavar="CODE", help="the one that is kept (default: en)"
    )
    group.add_argument(
        "--batch-size", type=int, default=8, metavar="N", help="clips at once (default: 8)"
    )
    group.add_argument(
        "--device",
        choices=get_args(Device),
        default="auto",
        help="default: an accelerator if this machine shows one to this environment; with Ray, "
        "cuda takes one for each task",
    )
    group.add_argument(
        "--compute-type",
        choices=COMPUTE_TYPES,
        default="default",
        help="default: int8 on the CPU, else float16",
    )
    group.add_argument("--diarize", action="store_true", help="tell speakers apart (whisperx)")
    group.add_argument("--align-model", metavar="DIR", help="whisperx: a local wav2vec2 folder")
    group.add_argument("--diarize-model", metavar="DIR", help="whisperx: a local pyannote pipeline")
    group.add_argument(
        "--whisperx-python", default="", metavar="FILE", help="default: .venv-whisperx/bin/python"
    )


def asr_settings(args: argparse.Namespace) -> AsrSettings:
    """Checked settings, device and number format told; no model is loaded yet.

    Raises:
        UserError: an option that is out of range or that the backend does not have.
        NotLoaded: a package, an environment or a model's folder is missing.
    """
    settings = AsrSettings(
        backend=args.backend,
        model=_whole(args.model) or args.model,
        batch_size=args.batch_size,
        device=args.device,
        compute_type=args.compute_type,
        language=args.language,
        diarize=args.diarize,
        align_model=_whole(args.align_model),
        diarize_model=_whole(args.diarize_model),
        whisperx_python=args.whisperx_python,
    )
    need_model(settings.model)
    if settings.backend == "faster-whisper":
        need_package()
    else:
        need_environment(settings)
    return settings.resolved()


def _whole(name: str | None) -> str | None:
    """A folder's absolute path; another name (the hub's) as it is."""
    return str(Path(name).resolve()) if name and Path(name).is_dir() else name


def need_model(model: str) -> None:
    """Refuse a path that holds no CTranslate2 model, where it cannot be a name of the hub's."""
    path = Path(model)
    is_path = path.is_absolute() or model.startswith(".") or model.count("/") > 1
    mend = "give a folder that holds a CTranslate2 Whisper (model.bin), or a size such as large-v2"
    if path.is_dir():
        if not (path / "model.bin").is_file():
            raise NotLoaded(f"--model {model}", "not loaded (no model.bin in it)", mend)
    elif path.exists() or is_path or ("/" in model and path.parent.is_dir()):
        raise NotLoaded(f"--model {model}", "not loaded (no such folder)", mend)
