"""pulpsim new: a project to start from."""
