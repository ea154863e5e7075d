"""Sequences: timelines and frame times -> interleaved ids, labels and times. Pure."""
