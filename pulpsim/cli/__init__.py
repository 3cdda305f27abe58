"""Options, output and terminal, for all commands."""
