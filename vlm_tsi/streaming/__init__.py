"""Streaming: frames in, speech events out, on one clock."""
