"""Backbones: parts that transformers does not bring, as PreTrainedModels of ours."""
