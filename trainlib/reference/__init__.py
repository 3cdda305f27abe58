"""References of the primitives in float64, and how far float32 may be off: a file per family."""
