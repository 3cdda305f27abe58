"""The live view: a run, or a recording of one, on a terminal, with its clock in one's hands."""

from pathlib import Path


def replay(path: Path) -> None:
    """Look at a recording until the person leaves.

    raises    TraceError if it cannot be read; ConfigError where there is no terminal
    """
    from pulpsim.tui.command import replay as look

    look(path)
