"""How a run or a recording comes to a terminal, and what is there when the person leaves."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path

from isa.program import Program
from pulpsim.cli.run_config import PreparedRun
from pulpsim.cli.terminal import one_line, progress
from pulpsim.tui.player import Player
from pulpsim.tui.simulation_source import RunSource
from soc.config.toml import ConfigError
from soc.debug.session import Session
from soc.result import RunResult

WITHOUT_TEXTUAL = "--tui needs Textual: pip install 'pulpsim[tui]'"


def is_served() -> bool:
    """Is this the process that textual-serve has started for a browser?"""
    return "TEXTUAL_DRIVER" in os.environ


def has_terminal() -> bool:
    """Can keys be read, and pictures be drawn, where Textual does that?"""
    is_able = os.environ.get("TERM", "" if os.name == "nt" else "dumb") not in ("dumb", "unknown")
    drawn_on = sys.stdout if os.name == "nt" else sys.stderr
    return is_served() or is_able and sys.stdin.isatty() and drawn_on.isatty()


def check_textual() -> None:
    """Refuse to show anything without Textual.

    raises    ConfigError
    """
    if find_spec("textual") is None:
        raise ConfigError([WITHOUT_TEXTUAL])


def watch(program: Program, ready: PreparedRun) -> RunResult:
    """Run a program under the person's eyes; what it leaves when the person leaves.

    raises    as soc.run.run_program does; ConfigError without Textual
    """
    check_textual()
    is_shown = False

    def telling(message: str) -> AbstractContextManager[object]:
        return nullcontext() if is_shown or is_served() else progress(message)

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
    source = RunSource(session, f"{Path(program.name).name} on {ready.chip.name}")
    _show(lambda: Player(source, is_running=True))
    return source.result()


def replay(path: Path) -> None:
    """Look at a recording.

    raises    TraceError if it cannot be read; ConfigError where there is no terminal or no Textual
    """
    from pulpsim.tui.trace_source import TraceSource

    if not has_terminal():
        message = f"{path}: --tui needs a terminal; `pulpsim trace show` without it does not"
        raise ConfigError([message])
    check_textual()

    def get_ready() -> Player:
        source = TraceSource.open(path)
        return Player(source, rate=source.usual_rate)

    _show(get_ready, one_line(path.name))


def _show(get_ready: Callable[[], Player], subject: str = "") -> None:
    """Let a view have the terminal until the person leaves it; what ends it otherwise is raised."""
    from pulpsim.tui.view import LiveView

    view = LiveView(get_ready, subject)
    with _signals_left_to_the_view():
        view.run()
    view.worker.close()
    if view.failure:
        raise view.failure


@contextmanager
def _signals_left_to_the_view() -> Iterator[None]:
    """Let the view replace what is done on signals, and have that back after it."""
    handled = [s for name in ("SIGINT", "SIGTERM", "SIGHUP") if (s := getattr(signal, name, None))]
    before = {number: signal.getsignal(number) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(TypeError, ValueError):
                signal.signal(number, handler)
