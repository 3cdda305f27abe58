"""Sessions, checkpoints."""
