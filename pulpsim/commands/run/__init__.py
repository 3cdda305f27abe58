"""pulpsim run."""
