"""HoloAssist's annotation file -> timelines, datapoints, statistics, report.

Input: the published list of videos with their events. Output: `timelines.jsonl`,
`datapoints.jsonl`, `statistics.json`, `report.json`. Invariant: every event has one fate, and
the fates add up; the same file and options give the same bytes.

    python -m data_prep.holoassist --annotations FILE --out DIR
"""
