"""How a run or a recording comes to a terminal, and what is there when the person leaves."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console

from isa.program import Program
from pulpsim.config import Run
from pulpsim.console import one_line, progress
from pulpsim.live.app import App
from pulpsim.live.run_source import RunSource
from pulpsim.live.terminal import show
from soc.result import RunResult
from soc.session import Session
from soc.toml_file import ConfigError


def has_terminal() -> bool:
    """Can keys be read and pictures be drawn?"""
    is_able = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return is_able and sys.stdin.isatty() and sys.stdout.isatty()


def watch(program: Program, ready: Run, region_names: Mapping[int, str]) -> RunResult:
    """Run a program under the person's eyes; what it leaves when the person leaves.

    raises    as soc.run.run_program does
    """
    is_shown = False

    def telling(message: str) -> AbstractContextManager[None]:
        return nullcontext() if is_shown else progress(message)

    session = Session(
        program,
        ready.chip,
        engine=ready.engine,
        max_cycles=ready.max_cycles,
        on_console=lambda text: source.print(text),
        progress=telling,
        guards=ready.guards,
    )
    session.get_ready()
    is_shown = True
    source = RunSource(session, f"{Path(program.name).name} on {ready.chip.name}", region_names)
    show(App(source, Console(highlight=False)))
    return source.result()


def replay(path: Path) -> None:
    """Look at a recording.

    raises    TraceError if it cannot be read; ConfigError where there is no terminal
    """
    from pulpsim.live.trace_source import TraceSource

    if not has_terminal():
        message = f"{path}: --tui needs a terminal; `pulpsim trace show` without it does not"
        raise ConfigError([message])
    with progress(one_line(f"reading {path}")):
        source = TraceSource.open(path)
    show(App(source, Console(highlight=False), rate=source.usual_rate, is_running=False))
