"""Training: transformers' Trainer on interleaved sequences."""
