"""Small corpora for a rerun of the paper's tables, and a runner that needs no model.

Input: a folder. Output: files in it, and the options that name them. Invariant: all commands
are the real ones, called in this process, but those that would need a trained filter or model:
`filter` takes the labels over, and a model says the scored turns a little late (the
turn-based one later).
"""

import json
import shutil
from importlib import import_module
from pathlib import Path

from tests.data_prep.pbp_halves import MATCHES, put, put_embedder, put_labels, sentences
from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Generated, read_timelines, write_generated
from vlm_tsi.worlds.datapoints import INTERACTION_BEGINS, INTERACTION_ENDS

LATE = {"tsi": 0.25, "turn_based": 1.0}


def talk(start, end, text, purpose):
    said = {"Conversation Purpose": purpose, "Transcription": text}
    return {"id": int(start), "label": "Conversation", "type": "range", "start": start, "end": end,
            "attributes": said}  # fmt: skip


def put_holoassist(root: Path, count: int = 3) -> list[str]:
    """Annotations and (empty) videos of some lessons; gives the options that name them."""
    records = []
    for k in range(count):
        events = [
            talk(5, 7, "Corner, taken short.", INTERACTION_BEGINS),
            talk(10, 12, "Shot from the left, saved!", INTERACTION_ENDS),
        ]
        length = {"raw": "00:01:00", "seconds": 60}
        records.append({"video_name": f"v{k}", "taskId": "t", "taskType": "setup switch",
                        "videoMetadata": {"duration": length}, "events": events})  # fmt: skip
        video = root / f"holoassist/v{k}/Export_py/Video_pitchshift.mp4"
        video.parent.mkdir(parents=True)
        video.write_bytes(b"")
    (root / "annotations.json").write_text(json.dumps(records))
    return ["--holoassist", str(root / "annotations.json"),
            "--holoassist-videos", str(root / "holoassist")]  # fmt: skip


def put_soccernet(root: Path) -> list[str]:
    """Labels, public transcripts, (empty) videos and action labels of three matches."""
    put_labels(root / "labels")
    for m, match in enumerate(MATCHES):
        goals = []
        for h in (1, 2):
            told = sentences(10 * m + h)
            segments = {str(i): [s["start"], s["end"], s["text"]] for i, s in enumerate(told)}
            put(root / "echoes", f"{match}/{h}_asr", {"segments": segments})
            video = root / "soccernet" / match / f"{h}_224p.mkv"
            video.parent.mkdir(parents=True, exist_ok=True)
            video.write_bytes(b"")
            goals += [{"gameTime": f"{h} - 00:{s:02}", "label": "Goal", "position": str(1000 * s),
                       "visibility": "visible"} for s in range(0, 60, 10)]  # fmt: skip
        put(root / "soccernet", f"{match}/Labels-v2", {"annotations": goals})
    return [word for name in ("labels", "echoes", "soccernet")
            for word in (f"--{name}", str(root / name))]  # fmt: skip


def put_models(root: Path, corpus: str, *schemes: str) -> list[str]:
    """Folders in place of checkpoints (their check is left out by the test)."""
    words = []
    for scheme in schemes:
        folder = root / f"{corpus}-{scheme}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(scheme.encode())
        words += [f"--{corpus}-{scheme.replace('_', '-')}", str(folder)]
    return words


def embedder(root: Path) -> list[str]:
    return ["--embedder", str(put_embedder(root / "embedder"))]


class InProcess:
    """In place of `run_command`: counts the commands, runs them here; some fail on request."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.broken: set[str] = set()

    def __call__(self, command, log) -> None:
        words = [str(word) for word in command[1:]]
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("its log\n")
        self.ran.append(log.stem)
        if log.stem in self.broken:
            raise UserError(log.stem, "ended with code 3", f"see {log}")
        options = dict(zip(words, words[1:], strict=False))
        if words[0] == "infer_stream.py":
            stream(options)
        elif "train-filter" in words:
            Path(options["--out"]).mkdir(parents=True)
            (Path(options["--out"]) / "classifier.json").write_text("{}")
        elif "filter" in words:
            labels = Path(options["--transcripts"]).parents[2].parent / "labels"
            shutil.copytree(labels, options["--out"], dirs_exist_ok=True)
            (Path(options["--out"]) / "report.json").write_text("{}")
        else:
            self.call(words)

    @staticmethod
    def call(words) -> None:
        name = words[1]
        module = import_module(name if name in ("data_prep.stats",) or name.startswith("eval.") else f"{name}.__main__")  # fmt: skip
        code = module.main(words[2:])
        if code:
            raise UserError(name, f"ended with code {code}", "see above")


def stream(options) -> None:
    """What a model with a known delay says over a file of datapoints."""
    late, out = LATE[options["--policy"]], Path(options["--out"])
    said = [
        Generated(t.video_id, u.start + late, u.end + late, u.text)
        for t in read_timelines(options["--timeline"])
        for u in t.utterances
        if u.eval
    ]
    assert said, "nothing to stream"
    write_generated(out / "utterances.jsonl", said)
    (out / "run.json").write_text(json.dumps({"failed": []}))
