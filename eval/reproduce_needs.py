"""What a rerun of the paper's tables needs: is it there, what is missing, how to get it.

Input: the paths that the user names. Output: `Need` values, each with a real check behind it.
Invariant: a path that is named and not there is the user's error (UserError); one that is there
but does not hold what it should, or is not named, is a need that is missing, told in one line
with the way to get it. Nothing is fetched and nothing is written.
"""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.common.annotations import read_annotation_file
from data_prep.common.folders import visible_files
from data_prep.holoassist.videos import PUBLISHED_NAME
from data_prep.soccernet.transcribe import find_halves
from data_prep.soccernet.transcript import find_transcripts, read_transcript
from eval.group_events import LABELS_FILE
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_object
from vlm_tsi.model.loading import ADAPTER_CONFIG, config_at
from vlm_tsi.scoring.embed import PAPER_EMBEDDER, find_embedder

HOLOASSIST_VIDEOS = 1758
"""Videos in the published training and validation list (v1.1)."""
_SOCCERNET = (
    "SoccerNet's videos come under a non-disclosure agreement: sign it, then fetch 1_224p.mkv and "
    "2_224p.mkv of each match with the official Python package `SoccerNet` and the password that "
    "the agreement gives; name the folder with --soccernet"
)
_HOLOASSIST = (
    "HoloAssist's annotation file (data-annotation-trainval-v1_1.json) is on the corpus' own page, "
    "under its terms; name it with --holoassist"
)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a table needs.

    Attributes:
        name: what it is.
        tables: which tables use it.
        found: what is there, in a few words; empty where it is missing.
        why: what is missing, in one line; empty where it is there.
        how: the way to get it.
    """

    name: str
    tables: tuple[str, ...]
    found: str
    why: str
    how: str

    @property
    def is_there(self) -> bool:
        """Whether it can be used."""
        return not self.why


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the user names; None where nothing is named."""

    soccernet: Path | None = None
    echoes: Path | None = None
    labels: Path | None = None
    holoassist: Path | None = None
    holoassist_videos: Path | None = None
    soccernet_tsi: Path | None = None
    soccernet_turn_based: Path | None = None
    holoassist_tsi: Path | None = None
    holoassist_turn_based: Path | None = None
    embedder: str | None = None


FOLDERS = (
    *("soccernet", "echoes", "labels", "holoassist_videos", "soccernet_tsi"),
    *("soccernet_turn_based", "holoassist_tsi", "holoassist_turn_based"),
)
MODELS = FOLDERS[4:]


def check_given(given: Given) -> None:
    """Refuse a path that is named and not there (UserError)."""
    for name in FOLDERS:
        path = getattr(given, name)
        if path is not None and not path.is_dir():
            raise UserError(f"--{name.replace('_', '-')}", f"{path} is no folder", "check the path")
    if given.holoassist is not None and not given.holoassist.is_file():
        problem = f"{given.holoassist} is no file"
        raise UserError("--holoassist", problem, "name the annotation file")


def find_needs(given: Given, tables: Sequence[str]) -> dict[str, Need]:
    """All needs of some tables, by key, each checked.

    Raises:
        UserError: a path that is named is not there, or an embedder that is named is none.
    """
    check_given(given)
    found = {
        "soccernet": _corpus(given.soccernet),
        "actions": _actions(given.soccernet),
        "labels": _labels(given.labels),
        "echoes": _echoes(given.echoes),
        "recogniser": _package("faster_whisper", "speech recogniser", "asr"),
        "language": _package("py3langid", "language of a text", "data"),
        "holoassist": _annotations(given.holoassist),
        "holoassist_videos": _holoassist_videos(given),
        **{name: _model(name, getattr(given, name)) for name in MODELS},
        "embedder": _embedder(given.embedder),
    }
    return {key: need for key, need in found.items() if set(need.tables) & set(tables)}


def _need(name: str, tables: str, how: str, path: Path | None, look: Callable[[Path], str]) -> Need:
    """A need of a path: not named, or what `look` says of it (a UserError: why it is missing)."""
    where = tuple(f"table{k}" for k in tables)
    if path is None:
        return Need(name, where, "", "not named", how)
    try:
        return Need(name, where, look(path), "", how)
    except UserError as err:
        return Need(name, where, "", f"{err.thing}: {err.problem}", how)


def _corpus(path: Path | None) -> Need:
    def look(root: Path) -> str:
        return f"{len(find_halves(root)):,} halves"

    return _need("SoccerNet videos", "123", _SOCCERNET, path, look)


def _actions(path: Path | None) -> Need:
    def look(root: Path) -> str:
        count = sum(p.name == LABELS_FILE for p in visible_files(root))
        if not count:
            raise UserError(root, f"no {LABELS_FILE} in it", "fetch it")
        return f"{count:,} matches"

    how = f"fetch {LABELS_FILE} of each match with the official Python package `SoccerNet`, "
    how += "beside its videos"
    return _need(f"SoccerNet's action labels ({LABELS_FILE})", "3", how, path, look)


def _labels(path: Path | None) -> Need:
    def look(root: Path) -> str:
        files = find_transcripts(root)
        half, first = files[0]
        if any(s.is_pbp is None for s in read_transcript(first, half).segments):
            raise UserError(first, "its sentences have no is_pbp", "label them")
        return f"{len(files)} halves"

    how = "the hand-labelled play-by-play transcripts (five matches) are part of the paper's "
    how += "published data; name their folder with --labels"
    return _need("play-by-play labels", "123", how, path, look)


def _echoes(path: Path | None) -> Need:
    def look(root: Path) -> str:
        files = [
            p.parts[-4:] for p in visible_files(root) if p.name in ("1_asr.json", "2_asr.json")
        ]
        if not files:
            raise UserError(root, "no {1,2}_asr.json in it", "fetch it")
        more = len(files) - len(set(files))
        told = f", {more:,} of them other versions of a half: name one version's folder"
        return f"{len(files):,} files{told if more else ''}"

    how = "SoccerNet's public ASR release (SoccerNet-Echoes): clone it and name one version's "
    how += "folder (Dataset/whisper_v3) with --echoes; it stands in for transcribing the videos"
    return _need("public transcripts", "123", how, path, look)


def _package(module: str, name: str, extra: str) -> Need:
    why = "" if importlib.util.find_spec(module) else "not installed"
    found = "" if why else "installed"
    how = f"pip install '.[{extra}]' in this repository"
    tables = ("table1", "table2", "table3")
    return Need(f"{name} (package {module})", tables, found, why, how)


def read_records(path: Path) -> list[Any]:
    """HoloAssist's list of videos (UserError: it is none)."""
    records = read_annotation_file(path)
    if not isinstance(records, list) or not records:
        raise UserError(path, "lists no video", "name HoloAssist's annotation file")
    return records


def _annotations(path: Path | None) -> Need:
    def look(file: Path) -> str:
        return f"{len(read_records(file)):,} of {HOLOASSIST_VIDEOS:,} videos"

    return _need("HoloAssist annotations", "124", _HOLOASSIST, path, look)


def _holoassist_videos(given: Given) -> Need:
    def look(root: Path) -> str:
        count = sum(1 for _ in root.glob(f"*/{PUBLISHED_NAME}"))
        if not count:
            raise UserError(root, f"holds no <video>/{PUBLISHED_NAME}", "fetch them")
        return f"{count:,} videos"

    how = "HoloAssist's pitch-shifted videos are on the corpus' own page, under its terms; unpack "
    how += f"them to <video>/{PUBLISHED_NAME} and name the folder with --holoassist-videos"
    return _need("HoloAssist videos", "24", how, given.holoassist_videos, look)


def _model(name: str, path: Path | None) -> Need:
    corpus, _, scheme = name.partition("_")
    tables = "23" if corpus == "soccernet" else "24"
    title = "VLM-TSI" if scheme == "tsi" else "turn-based"
    how = _TRAINING[name] + f"; name its folder with --{name.replace('_', '-')}"
    kind = f"{title} checkpoint for {'SoccerNet' if corpus == 'soccernet' else 'HoloAssist'}"
    return _need(kind, tables, how, path, _look_at_model)


_BASE = (
    "weights/videollm-online-8b-v1plus, which python -m data_prep.import_live makes of "
    "VideoLLM-Online's released adapter, Llama-3-8B-Instruct and SigLIP-L/16-384"
)
_TRAINING = {
    "soccernet_tsi": "python train.py --config configs/paper/soccernet_tsi.yaml, from " + _BASE,
    "soccernet_turn_based": "python train.py --config configs/paper/soccernet_turn_based.yaml, "
    "from " + _BASE,
    "holoassist_tsi": "python -m data_prep.goalstep, then python train.py --config "
    "configs/paper/goalstep_tsi.yaml, from " + _BASE,
    "holoassist_turn_based": "the paper takes VideoLLM-Online's 8B v1+ as it is: " + _BASE,
}


def _look_at_model(folder: Path) -> str:
    config_at(folder)
    if not list(folder.glob("*.safetensors")):
        raise UserError(folder, "holds no .safetensors file", "name a finished checkpoint")
    return "an adapter" if (folder / ADAPTER_CONFIG).is_file() else "a whole model"


def _embedder(preferred: str | None) -> Need:
    tables = ("table1", "table2", "table3", "table4")  # the play-by-play filter reads with it too
    name, how = f"sentence embedder ({PAPER_EMBEDDER})", "make weights"
    try:
        found = find_embedder(preferred)
    except UserError as err:
        if preferred is not None:
            raise
        return Need(name, tables, "", err.problem, how)
    differs = "" if found.is_papers else ", which is not the paper's"
    return Need(name, tables, f"{found.name}{differs}", "", how)


def demo_is_done(folder: Path) -> bool:
    """Whether a run of the demo has left its result.

    Raises:
        UserError: there is a result, and it is another command's.
    """
    file = folder / "result.json"
    if not file.is_file():
        return False
    stored = read_object(file)
    if not {"signals", "assembly", "difference", "thresholds"} <= stored.keys():
        raise UserError(file, "is no result of the demo", "name another folder: --demo")
    return True
