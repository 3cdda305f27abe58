"""What every primitive means, in float64, and how far float32 may be from it: a file per family."""
