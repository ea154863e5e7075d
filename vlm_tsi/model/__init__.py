"""Models: vision encoder, connector and language model as one PreTrainedModel."""
