"""Runnable modules: scoring and paper-reproduction commands."""
