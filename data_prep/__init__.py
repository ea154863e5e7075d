"""Runnable modules: raw corpora -> timelines and frame features."""
