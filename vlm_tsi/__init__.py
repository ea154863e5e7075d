"""VLM-TSI: vision-language models that speak while they watch."""

__version__ = "0.1.0"
