"""The command line: run programs on a simulated chip, report what they cost."""

__version__ = "0.1.0"
