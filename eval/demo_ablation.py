"""What the weight on silent frames (and two other choices) is worth, on validation.

Input: a demo (its data and base are made first where absent). Output: `ablation.json` under
the run, and a Markdown table on the terminal. Invariant: test clips are never touched; every
variant starts from the same base and trains for the same number of updates.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from data_prep.worlds import WORLDS as WORLD_OBJECTS
from eval.demo_plan import WORLDS
from eval.demo_steps import CORES
from eval.demo_stream import Job, job, stream_jobs
from vlm_tsi.files import write_json
from vlm_tsi.scoring.content import content_accuracy
from vlm_tsi.scoring.embed import SentenceEmbedder, find_embedder
from vlm_tsi.scoring.trace_score import group_by_video, references_of, score
from vlm_tsi.timeline import read_generated, read_timelines

if TYPE_CHECKING:
    from eval.demo import Demo

COLUMNS = ("trace", "s_a", "s_start", "s_end", "s_overlap", "f1", "precision", "recall")


@dataclass(frozen=True)
class Variant:
    """One way to train or to hand out tokens; `trained` names the weights it streams with."""

    name: str
    trained: str
    overrides: tuple[str, ...] = ()
    rounding: str = "accumulate"
    eager_close: bool | None = None


def _weights(silence: float, bridge: float) -> tuple[str, ...]:
    return (f"scheme.silence_weight={silence}", f"scheme.bridge_weight={bridge}")


VARIANTS = (
    Variant("silence 0, bridge 0 (the paper's labels)", "s0-b0", _weights(0, 0)),
    Variant("the same, closing only at frames", "s0-b0", _weights(0, 0), eager_close=False),
    Variant("silence 0.1, bridge 0.3", "s0.1", _weights(0.1, 0.3)),
    Variant("silence 1, bridge 0.3 (the demo's)", "demo"),
    Variant("the same, tokens rounded up", "demo", rounding="ceil"),
    Variant("the same, closing also between frames", "demo", eager_close=True),
)


def ablate(demo: "Demo") -> None:
    """Train and stream every variant; print and keep the table."""
    demo.make_data()
    demo.pretrain()
    demo.fine_tune()
    trained = {v.trained: v.overrides for v in VARIANTS if v.trained != "demo"}
    names = list(trained)
    for i in range(0, len(names), CORES):
        some = names[i : i + CORES]
        commands = [train_variant(demo, n, trained[n]) for n in some]
        folders = [demo.out / "ablation" / n for n in some]
        demo.steps.run("ablation " + "+".join(some), commands, together=True, clear=folders)
    jobs = {(v.name, w): variant_job(demo, v, w) for v in VARIANTS for w in WORLDS}
    demo.steps.call("ablation streaming", lambda: stream_jobs(list(jobs.values())), names)
    embed = find_embedder(cache=demo.out / "embeddings")
    rows = {f"{w}: {v.name}": scores(jobs[v.name, w], w, embed) for w in WORLDS for v in VARIANTS}
    write_json(demo.out / "ablation.json", rows)
    print(markdown(rows))


def train_variant(demo: "Demo", name: str, overrides: tuple[str, ...]) -> list[str]:
    """The TSI stage's command with other weights and its own folder."""
    return [*demo.stage("tsi", 1), f"run.out={demo.out / 'ablation' / name}", *overrides]


def variant_job(demo: "Demo", variant: Variant, world: str) -> Job:
    """Stream one variant over validation."""
    folder = demo.out / "ablation"
    how = "" if variant.eager_close is None else f"-eager-{variant.eager_close}"
    plain = job(demo.place, world, "val", "tsi", None)
    return Job(
        model=plain.model if variant.trained == "demo" else str(folder / variant.trained / "model"),
        datapoints=plain.datapoints,
        out=str(folder / "spoken" / f"{world}-{variant.trained}-{variant.rounding}{how}.jsonl"),
        store=plain.store,
        scheme="tsi",
        rounding=variant.rounding,
        eager_close=variant.eager_close,
    )


def scores(done: Job, world: str, embed: SentenceEmbedder) -> dict[str, Any]:
    """Percentages of one variant."""
    references = references_of(read_timelines(done.datapoints))
    result = score(references, group_by_video(read_generated(done.out)), embed)
    content = content_accuracy(result.pairs, WORLD_OBJECTS[world].content_words).f1
    return {**{c: round(result.micro[c], 1) for c in COLUMNS}, "content": round(content or 0, 1)}


def markdown(rows: dict[str, dict[str, Any]]) -> str:
    """The table, as docs/ablation.md keeps it."""
    heads = [*COLUMNS, "content"]
    lines = ["| variant | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    lines += [f"| {n} | " + " | ".join(str(r[h]) for h in heads) + " |" for n, r in rows.items()]
    return "\n".join(lines)
