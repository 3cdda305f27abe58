"""The command line: run programs on a simulated chip, report what they cost."""
