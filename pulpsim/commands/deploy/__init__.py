"""pulpsim deploy."""
