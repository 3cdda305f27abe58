"""Commands of the command line, a package each."""
