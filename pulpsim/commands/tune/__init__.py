"""pulpsim tune."""
