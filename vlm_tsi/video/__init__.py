"""Video: decoded by real timestamps, features kept by content."""
