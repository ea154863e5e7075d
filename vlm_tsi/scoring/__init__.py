"""Scoring: JSONL in, numbers out; needs no model."""
