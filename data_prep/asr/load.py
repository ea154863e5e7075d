"""A recogniser by its settings.

Input: `AsrSettings`. Output: a loaded `Transcriber`.
Invariant: a process loads each recogniser once, and neither backend's packages are imported
before it is asked for.
"""

from functools import lru_cache

from data_prep.asr.base import AsrSettings, Transcriber


@lru_cache(maxsize=1)
def load_transcriber(settings: AsrSettings) -> Transcriber:
    """Load it, or raise NotLoaded: no package, no model, no environment."""
    if settings.backend == "whisperx":
        from data_prep.asr.whisperx_backend import WhisperX

        return WhisperX(settings)
    from data_prep.asr.faster import FasterWhisper

    return FasterWhisper(settings)
