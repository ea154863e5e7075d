"""Score generated utterances with TGLG's TRACE metric.

Input: references (timeline JSONL, or published annotation .json) and predictions
(generated-utterance JSONL, or published .csv). Output: Table 2's columns on the terminal, and
JSON with `micro`, `macro`, `intervals`, `per_video`, `pairs`, `params`, `embedder`, `counts`;
`failures` (the kinds of Appendix E, counted; each pair names its own) and `unmatched`
utterances; with --sensitivity `sensitivity`.
Invariant: all scores are percentages; whatever was estimated, ignored or unknown is counted.
"""

import argparse
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eval.making import making
from eval.score_details import (
    add_detail_options,
    failure_line,
    failure_values,
    rules_of,
    sensitivity_values,
    show_sensitivity,
)
from eval.scoring_options import (
    add_metric_options,
    add_scoring_options,
    check_options,
    check_references,
    params_of,
    read_all_predictions,
    read_all_references,
)
from vlm_tsi.errors import Parser, command
from vlm_tsi.files import check_target, write_json
from vlm_tsi.scoring.content import content_accuracy
from vlm_tsi.scoring.embed import PAPER_EMBEDDER, SentenceEmbedder, find_embedder
from vlm_tsi.scoring.failures import find_failures
from vlm_tsi.scoring.groups import by_kind, intervals
from vlm_tsi.scoring.params import TraceParams
from vlm_tsi.scoring.sensitivity import remembered, sensitivity
from vlm_tsi.scoring.trace_score import TraceResult, group_by_video, references_of, score
from vlm_tsi.scoring.whole_videos import source_of, whole_video
from vlm_tsi.timeline import Generated, Timeline

COLUMNS = {
    "trace": "TRACE", "s_a": "S_a", "s_t": "S_t", "s_start": "S_start", "s_end": "S_end",
    "s_overlap": "S_overlap", "f1": "F1", "precision": "Prec", "recall": "Recall",
}  # fmt: skip

EXAMPLES = """
examples:
  python -m eval.tglg --ref ref.jsonl --pred pred.jsonl --out scores.json
  python -m eval.tglg --ref annotations.json --pred predictions.csv --out scores.json
  python -m eval.tglg --ref ref.jsonl --pred pred.jsonl --out scores.json \\
      --embedder weights/all-mpnet-base-v2 --content-words red,green,blue,left,right
  several files of one system, and the choices of the paper's released code:
  python -m eval.tglg --ref a.json b.json --pred a.csv b.csv --out scores.json --released
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    p = Parser(
        prog="python -m eval.tglg",
        description=__doc__.split("\n")[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_scoring_options(p)
    p.add_argument("--content-words", help="comma-separated words to check in matched pairs")
    add_metric_options(p)
    add_detail_options(p)
    return p


def count(
    timelines: Sequence[Timeline], predictions: Sequence[Generated], result: TraceResult
) -> dict[str, int]:
    """How much of everything there was, was estimated, or was left out."""
    said = [u for t in timelines for u in t.utterances]
    unknown = set(result.unknown_videos)
    n_unknown = sum(g.video_id in unknown for g in predictions)
    n_ref = sum(s.n_ref for s in result.per_video.values())
    return {
        "videos": len(timelines),
        "videos_with_nothing_to_score": sum(t.video_id not in result.per_video for t in timelines),
        "references": n_ref,
        "context_utterances": len(said) - n_ref,
        "user_utterances_marked_eval": sum(u.role == "user" and u.eval for u in said),
        "videos_without_predictions": sum(
            s.n_ref > 0 and not s.n_gen for s in result.per_video.values()
        ),
        "videos_in_several_files": 0,  # whoever read the files knows
        "generated": len(predictions),
        "repeated": len(predictions)
        - len({(g.video_id, g.start, g.end, g.text) for g in predictions}),
        "matched": len(result.pairs),
        "ends_estimated": sum(g.end_is_estimated for g in predictions),
        "generated_without_text": sum(not g.text.strip() for g in predictions),
        "unknown_videos": len(unknown),
        "unknown_video_utterances": n_unknown,
        "ignored_utterances": n_unknown if result.params.unknown_videos == "ignore" else 0,
    }


def differing(params: TraceParams) -> dict[str, Any]:
    """The parameters that are not the paper's."""
    papers = asdict(TraceParams())
    return {name: value for name, value in asdict(params).items() if value != papers[name]}


def evaluate(
    timelines: Sequence[Timeline],
    predictions: Sequence[Generated],
    embedder: SentenceEmbedder,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Everything that goes into the JSON file."""
    references = references_of(timelines, args.all_assistant)
    generated, embed = group_by_video(predictions), remembered(embedder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = score(references, generated, embed, params_of(args))
    scores, sources = result.video_scores(), source_of(timelines)
    videos = {v: sources.get(v, whole_video(v)) for v in result.per_video}
    report: dict[str, Any] = {
        "micro": result.micro,
        "macro": result.macro,
        "intervals": {
            pool: {
                name: asdict(x)
                for name, x in intervals(
                    result, pool=pool, resamples=args.resamples, seed=args.seed, videos=videos
                ).items()
            }
            for pool in ("micro", "macro")
        },
        "embedder": embedder.name,
        "params": asdict(result.params),
        "not_the_papers": differing(result.params),
        "resamples": args.resamples,
        "seed": args.seed,
        "whole_videos": len(set(videos.values())),
        "sources": {v: whole for v, whole in videos.items() if v != whole},
        "counts": count(timelines, predictions, result),
        "warnings": list(result.warnings),
        "unknown_videos": list(result.unknown_videos),
    }  # fmt: skip
    kinds = by_kind(result, references)
    if kinds:
        report["by_kind"] = kinds
    if args.content_words:
        words = {w.strip() for w in args.content_words.split(",") if w.strip()}
        report["content_accuracy"] = asdict(content_accuracy(result.pairs, words))
    report["per_video"] = {v: {**s._asdict(), **scores[v]} for v, s in result.per_video.items()}
    report |= failure_values(
        result, find_failures(result, references, generated, rules_of(args))
    )  # fmt: skip
    if args.sensitivity:
        found = sensitivity(references, generated, embed, result.params)
        report["sensitivity"] = sensitivity_values(found)
    return report


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print Table 2's columns, and what the reader must know beside them."""
    table = Table(
        title=f"TRACE, percent (embedder: {report['embedder']})", box=None, padding=(0, 1, 0, 0)
    )
    table.add_column("", no_wrap=True)
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for pool in ("micro", "macro"):
        table.add_row(pool, *(f"{report[pool][name]:.1f}" for name in COLUMNS))
        for side in ("low", "high"):
            found = report["intervals"][pool]
            table.add_row(f"  95% {side}", *(f"{found[name][side]:.1f}" for name in COLUMNS))
    for kind, scores in report.get("by_kind", {}).items():
        row = [f"{scores[n]:.1f}" if n in scores else "" for n in COLUMNS]
        table.add_row(f"  {kind}", *row)
    console.print(table)
    counts = report["counts"]
    console.print(
        f"{counts['references']} references, {counts['generated']} generated, "
        f"{counts['matched']} matched; intervals from {report['resamples']} resamples of "
        f"{report['whole_videos']} whole video(s)",
        highlight=False,
        soft_wrap=True,
    )
    if report["not_the_papers"]:
        told = ", ".join(f"{n} {v}" for n, v in report["not_the_papers"].items())
        console.print(f"not the paper's: {told}", highlight=False, soft_wrap=True)
    content = report.get("content_accuracy")
    if content:
        f1 = "none in matched pairs" if content["f1"] is None else f"{content['f1']:.1f}%"
        console.print(f"content words: {f1}", highlight=False)
    console.print(failure_line(report["failures"]), highlight=False, soft_wrap=True)
    if "sensitivity" in report:
        show_sensitivity(report["sensitivity"], report["params"], console)


def notes(report: Mapping[str, Any]) -> list[str]:
    """One line for each thing that was repaired, left out or is not as in the paper."""
    counts = report["counts"]
    lines = list(report["warnings"])
    if report["embedder"].rsplit("/", 1)[-1] != PAPER_EMBEDDER:
        lines.append(f"embedder is not the paper's {PAPER_EMBEDDER}: S_a and TRACE differ from it")
    for name, text in (
        ("ends_estimated", "generated end(s) are estimates"),
        ("generated_without_text", "generated utterance(s) have no text; they are scored"),
        ("user_utterances_marked_eval", "user utterance(s) have eval true; not scored"),
        ("videos_with_nothing_to_score", "video(s) have neither references nor predictions"),
        ("videos_without_predictions", "video(s) with references have no prediction"),
        ("videos_in_several_files", "video(s) are in several --pred files; all of it is scored"),
        (
            "repeated",
            "generated utterance(s) repeat another of the same video word for word and "
            "second for second; they are scored",
        ),
    ):
        if counts[name]:
            lines.append(f"{counts[name]} {text}")
    return lines


def _places(timelines: Sequence[Timeline], file_of: Mapping[str, str]) -> dict[str, Any]:
    """Where each video is and how long (s), for whoever draws it."""
    return {
        t.video_id: {
            "path": str(Path(file_of[t.video_id]).parent / t.video_path) if t.video_path else "",
            "duration": t.duration,
        }
        for t in timelines
    }


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Read, score, write, print."""
    args = parser().parse_args(argv)
    check_options(args)
    rules_of(args)
    check_target(args.out, [*args.ref, *args.pred])
    timelines, file_of = read_all_references(args.ref)
    predictions, in_several = read_all_predictions(args.pred)
    check_references(args.ref, references_of(timelines, args.all_assistant))
    embedder = find_embedder(args.embedder, cache=args.embed_cache)
    report = evaluate(timelines, predictions, embedder, args)
    report["counts"]["videos_in_several_files"] = in_several
    report |= {
        "references": args.ref,
        "predictions": args.pred,
        "videos": _places(timelines, file_of),
    }
    report |= making("eval.tglg", argv)
    show(report, Console())
    write_json(args.out, report)
    for line in notes(report):
        print(f"note: {line}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
