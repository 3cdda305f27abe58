"""Files, processes and signals of the host."""
