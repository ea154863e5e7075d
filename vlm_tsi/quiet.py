"""Keeps other libraries' notices off a command's output.

Input: nothing. Output: nothing. Invariant: errors still show; only deprecation notices,
peft's on what our adapters do on purpose, and the bars for loading and saving weights are
silenced, in this process.
"""

import warnings


def quiet_libraries() -> None:
    """Call once at a command's start, before a model is loaded."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    warnings.filterwarnings("ignore", category=FutureWarning, module="peft")
    for notice in ("Could not find a config file in", "Setting `save_embedding_layers`"):
        warnings.filterwarnings("ignore", notice, UserWarning)
