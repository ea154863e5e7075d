"""Speech to words with times: one interface, two backends (faster-whisper, WhisperX)."""
