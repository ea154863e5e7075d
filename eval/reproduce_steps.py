"""The steps behind the paper's tables: which of this project's commands can be run.

Input: what the user names, which needs are there, the tables. Output: the steps that can be
run, in an order in which each follows what it builds on (`eval/reproduce_run.py` runs them).
Invariant: a step is planned only where all that it needs is there; the demo's worlds stand in
only for a table of which nothing else can be measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.demo_plan import SCHEMES, WORLDS
from eval.demo_steps import python
from eval.paper_tables import FPS, THRESHOLDS
from eval.reproduce_kinds import take_kinds
from eval.reproduce_needs import Given, Need, demo_is_done
from eval.reproduce_run import Step


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to run."""

    out: Path
    demo: Path
    preset: str
    limit: int | None = None
    workers: int = 1
    device: str = "cpu"


@dataclass(frozen=True)
class Planner:
    """Builds the steps of the tables that are asked for."""

    given: Given
    needs: Mapping[str, Need]
    tables: Sequence[str]
    settings: Settings

    def has(self, *keys: str) -> bool:
        """Whether all of these needs are there."""
        return all(key in self.needs and self.needs[key].is_there for key in keys)

    def wants(self, *tables: str) -> tuple[str, ...]:
        """Those of these tables that are asked for."""
        return tuple(t for t in tables if t in self.tables)

    @property
    def has_transcripts(self) -> bool:
        """Whether filtered transcripts of SoccerNet can be made."""
        from_videos = self.has("soccernet", "recogniser")
        return self.has("labels", "embedder") and (self.has("echoes", "language") or from_videos)

    def models(self, corpus: str) -> list[str]:
        """The schemes that can be streamed over a corpus' videos."""
        table = "table3" if corpus == "soccernet" else "table4"
        if not self.wants("table2", table) or not self.has("embedder"):
            return []
        ready = (
            self.has("soccernet") and self.has_transcripts
            if corpus == "soccernet"
            else self.has("holoassist", "holoassist_videos")
        )
        return [s for s in SCHEMES if ready and self.has(f"{corpus}_{s}")]

    def stands_in(self, table: str) -> bool:
        """Whether the demo's worlds stand in for a table: nothing of it can be measured."""
        if table == "table1":
            own = self.has_transcripts or self.has("labels") or self.has("holoassist")
        elif table == "table2":
            own = bool(self.models("soccernet") or self.models("holoassist"))
        elif table == "table3":
            own = len(self.models("soccernet")) == 2 and self.has("actions")
        else:
            own = len(self.models("holoassist")) == 2
        return table in self.tables and not own

    def steps(self) -> list[Step]:
        """All of them, in an order in which each follows what it builds on."""
        return [*self.soccernet(), *self.holoassist(), *self.demo()]

    def soccernet(self) -> list[Step]:
        """Transcripts, filter, datapoints; the labelled halves by themselves; streaming."""
        found = []
        if self.has_transcripts and (self.wants("table1") or self.models("soccernet")):
            found += self._soccernet_data(self.wants("table1", "table2", "table3"))
        if self.has("labels") and self.wants("table1"):
            found += self._labelled()
        points = self.settings.out / "soccernet/timelines/test_datapoints.jsonl"
        return found + self._streaming("soccernet", points, "build", "table3")

    def _soccernet_data(self, tables: tuple[str, ...]) -> list[Step]:
        out = self.settings.out / "soccernet"
        built = out / "timelines/timelines.jsonl"
        labels = self.given.labels
        assert labels is not None, "has_transcripts"
        if self.has("echoes", "language"):
            found = self._from_echoes(out, tables, labels)
        else:
            assert self.given.soccernet is not None, "has_transcripts"
            words = ("all", "--videos", self.given.soccernet, "--labels", labels, "--out", out)
            inputs = (self.given.soccernet, labels)
            command = self._prep("soccernet", *words, *self._embedder())
            found = [
                Step(
                    name="build",
                    tables=tables,
                    command=command,
                    how=self._resume(),
                    inputs=inputs,
                    outputs=(built,),
                )
            ]
        return found + self._stats("stats-soccernet", built, "build")

    def _from_echoes(self, out: Path, tables: tuple[str, ...], labels: Path) -> list[Step]:
        """Import, train the filter, filter, build: a step each."""
        echoes, videos = self.given.echoes, self.given.soccernet
        assert echoes is not None, "has_transcripts"
        said, trained, filtered, built = (
            out / name for name in ("echoes", "filter", "filtered", "timelines")
        )
        from_videos = ("--videos", videos) if videos is not None else ()
        words: dict[str, tuple[Any, ...]] = {
            "import-echoes": ("--echoes", echoes, "--out", said),
            "train-filter": ("--labels", labels, "--out", trained, *self._embedder()),
            "filter": (
                "--transcripts",
                said / "transcripts",
                "--filter",
                trained,
                "--out",
                filtered,
                *self._embedder(),
            ),
            "build": ("--transcripts", filtered, *from_videos, "--out", built),
        }
        reads = {"import-echoes": (echoes,), "train-filter": (labels,), "filter": ()}
        leaves = {
            "import-echoes": said / "report.json",
            "train-filter": trained / "classifier.json",
            "filter": filtered / "report.json",
            "build": built / "timelines.jsonl",
        }
        after = {"filter": ("import-echoes", "train-filter"), "build": ("filter",)}
        return [
            Step(
                name=name,
                tables=tables,
                command=self._prep("soccernet", name, *given, limited=name != "train-filter"),
                how=self._resume(),
                outputs=(leaves[name],),
                after=after.get(name, ()),
                inputs=reads.get(name, (videos,) if videos is not None else ()),
            )
            for name, given in words.items()
        ]

    def _labelled(self) -> list[Step]:
        """The hand-labelled halves need no filter: their labels say what tells the play."""
        labels, out = self.given.labels, self.settings.out / "labelled"
        assert labels is not None, "has labels"
        words = ("build", "--transcripts", labels, "--out", out)
        built = out / "timelines.jsonl"
        step = Step(
            name="labelled",
            tables=("table1",),
            command=self._prep("soccernet", *words),
            inputs=(labels,),
            outputs=(built,),
        )
        return [step, *self._stats("stats-labelled", built, "labelled")]

    def holoassist(self) -> list[Step]:
        """Datapoints by both sets of rules; streaming."""
        file, out = self.given.holoassist, self.settings.out
        if file is None or not self.has("holoassist"):
            return []
        wanted = self.wants("table1") or self.models("holoassist")
        found: list[Step] = []
        for rules in ("paper", "released") if self.wants("table1") else ("paper",):
            if not wanted:
                break
            name = "holoassist" if rules == "paper" else "holoassist-released"
            videos = self.given.holoassist_videos if rules == "paper" else None
            words = ["--annotations", file, "--out", out / name, "--rules", rules]
            words += ["--videos", videos] if videos is not None else []
            tables = self.wants("table1", "table2", "table4") if rules == "paper" else ("table1",)
            built = out / name / "timelines.jsonl"
            found.append(
                Step(
                    name=name,
                    tables=tables,
                    command=self._prep("holoassist", *words),
                    inputs=(file,),
                    outputs=(built,),
                )
            )
            split = ("--split-at-user",) if rules == "paper" else ()
            found += self._stats(f"stats-{name}", built, name, *split)
        points = out / "holoassist/datapoints.jsonl"
        return found + self._streaming("holoassist", points, "holoassist", "table4")

    def _streaming(self, corpus: str, points: Path, after: str, table: str) -> list[Step]:
        """Stream each model, score it, compare the two, and split by group."""
        found, models, out = [], self.models(corpus), self.settings.out
        for scheme in models:
            name, model = f"{corpus}-{scheme}", getattr(self.given, f"{corpus}_{scheme}")
            words = [
                "--timeline",
                points,
                "--model",
                model,
                "--out",
                out / "said" / name,
                "--policy",
                scheme,
                "--fps",
                f"{FPS:g}",
                "--device",
                self.settings.device,
            ]
            if scheme == "turn_based":
                words += ["--threshold", THRESHOLDS[corpus]]
            root = getattr(self.given, "soccernet" if corpus == "soccernet" else f"{corpus}_videos")
            said = out / "said" / name / "utterances.jsonl"
            found.append(
                Step(
                    name=f"stream-{name}",
                    tables=self.wants("table2", table),
                    command=_words("infer_stream.py", *words),
                    outputs=(said,),
                    after=(after,),
                    how=("--workers", str(self.settings.workers)),
                    inputs=(model, root),
                )
            )
            score = _words(
                *_module("eval.tglg"),
                "--ref",
                points,
                "--pred",
                said,
                "--out",
                self.score_file(corpus, scheme),
                *self._scoring(),
            )
            found.append(
                Step(
                    name=f"score-{name}",
                    tables=self.wants("table2"),
                    command=score,
                    outputs=(self.score_file(corpus, scheme),),
                    after=(f"stream-{name}",),
                )
            )
        if len(models) == 2:
            found += self._both(corpus, points, table)
        return [step for step in found if step.tables]

    def _both(self, corpus: str, points: Path, table: str) -> list[Step]:
        out, names = self.settings.out, [f"{corpus}-{s}" for s in SCHEMES]
        first, second = (self.score_file(corpus, s) for s in SCHEMES)
        target, split = out / f"{corpus}-compare.json", out / f"{table}.json"
        found = [
            Step(
                name=f"compare-{corpus}",
                tables=self.wants("table2"),
                outputs=(target,),
                command=_words(*_module("eval.compare"), first, second, "--out", target),
                after=tuple(f"score-{n}" for n in names),
            )
        ]
        by: list[Any] = ["--holoassist"]
        reads: tuple[Path, ...] = ()
        if corpus == "soccernet":
            assert self.given.soccernet is not None, "models()"
            by, reads = ["--soccernet", self.given.soccernet], (self.given.soccernet,)
        if corpus == "holoassist" or self.has("actions"):
            said = [out / "said" / n / "utterances.jsonl" for n in names]
            words = ("--ref", points, "--pred", said[0], "--against", said[1], "--out", split)
            command = _words(*_module("eval.groups"), *words, *by, *self._scoring())
            found.append(
                Step(
                    name=table,
                    tables=self.wants(table),
                    command=command,
                    outputs=(split,),
                    inputs=reads,
                    after=tuple(f"stream-{n}" for n in names),
                )
            )
        return found

    def demo(self) -> list[Step]:
        """The demo, if it has not run; its timelines' statistics; its kinds as groups."""
        tables = tuple(t for t in self.tables if self.stands_in(t))
        if not tables:
            return []
        folder, out, found = self.settings.demo, self.settings.out / "demo", []
        after: tuple[str, ...] = ()
        if not demo_is_done(folder):
            words = ("--preset", self.settings.preset, "--out", folder)
            found.append(
                Step(
                    name="demo",
                    tables=tables,
                    outputs=(folder / "result.json",),
                    command=_words(*_module("eval.demo"), *words),
                )
            )
            after = ("demo",)
        if "table1" in tables:
            for world in WORLDS:
                points = folder / f"data/{world}-test/datapoints.jsonl"
                found += self._stats(f"stats-{world}", points, *after, inputs=(points,))
        for table, world in (("table3", "signals"), ("table4", "assembly")):
            if table in tables and self.has("embedder"):
                found += self._kinds(table, world, out, after)
        return found

    def _kinds(self, table: str, world: str, out: Path, after: tuple[str, ...]) -> list[Step]:
        folder = self.settings.demo
        points, groups = folder / f"data/{world}-test/datapoints.jsonl", out / f"{world}.csv"
        said = {s: out / f"{world}-{s}.jsonl" for s in SCHEMES}
        take = Step(
            name=f"kinds-{world}",
            tables=(table,),
            after=after,
            outputs=(groups, *said.values()),
            command=["take", f"{world}'s kinds and utterances", str(folder)],
            inputs=(points, folder / "thresholds.json", folder / "spoken"),
            work=lambda: take_kinds(folder, world, groups, said),
        )
        split = self.settings.out / f"{table}-demo.json"
        words = (
            "--ref",
            points,
            "--pred",
            said["tsi"],
            "--against",
            said["turn_based"],
            "--csv",
            groups,
            "--out",
            split,
            *self._scoring(),
        )
        return [
            take,
            Step(
                name=f"{table}-demo",
                tables=(table,),
                after=(take.name,),
                command=_words(*_module("eval.groups"), *words),
                outputs=(split,),
            ),
        ]

    def score_file(self, corpus: str, scheme: str) -> Path:
        """Where a model's scores go."""
        return self.settings.out / "scores" / f"{corpus}-{scheme}.json"

    def _stats(
        self, name: str, file: Path, *words: str, inputs: tuple[Path, ...] = ()
    ) -> list[Step]:
        """Table 1's columns of a file; `words` are steps before it, then options."""
        if not self.wants("table1"):
            return []
        options = [w for w in words if w.startswith("--")]
        target = self.settings.out / f"{name}.json"
        command = _words(*_module("data_prep.stats"), file, *options, "--out", target)
        after = tuple(w for w in words if w not in options)
        return [
            Step(
                name=name,
                tables=("table1",),
                command=command,
                outputs=(target,),
                after=after,
                inputs=inputs,
            )
        ]

    def _prep(self, corpus: str, *words: Any, limited: bool = True) -> list[str]:
        limit = self.settings.limit if limited else None
        tail = [] if limit is None else ["--limit", limit]
        return _words(*_module(f"data_prep.{corpus}"), *words, *tail)

    def _resume(self) -> tuple[str, ...]:
        return ("--resume", "--workers", str(self.settings.workers))

    def _embedder(self) -> list[str]:
        return [] if self.given.embedder is None else ["--embedder", self.given.embedder]

    def _scoring(self) -> list[str]:
        return [*self._embedder(), "--embed-cache", str(self.settings.out / "embeddings")]


def _module(name: str) -> tuple[str, str]:
    return "-m", name


def _words(*words: Any) -> list[str]:
    return python(*(str(word) for word in words))
