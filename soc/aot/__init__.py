"""Step functions into machine code, ahead of time."""
