"""Ego4D Goal-Step -> timelines of spoken guidance, and the dialogue that streaming models read.

Input: Goal-Step's annotation (steps and substeps), or a streaming dialogue made from it; told
apart by shape. Output: `timelines.jsonl`, `dialogue.json`, `report.json`. Invariant: every
segment or turn has one fate, and the fates add up; the same file, options and seed give the
same bytes (with rewriting: as long as its cache is kept).

    python -m data_prep.goalstep --annotations FILE --out DIR
"""
