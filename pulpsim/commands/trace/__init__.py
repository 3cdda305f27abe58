"""pulpsim trace."""
