"""A person at the live view: keys and what the screen shows."""

import re
from io import StringIO

from rich.console import Console

from isa.program import Program
from pulpsim.live.app import App
from pulpsim.live.bindings import press
from pulpsim.live.run_source import RunSource
from pulpsim.live.source import Source
from soc.session import Session

SEED = 4
"""Of the random program that is looked at."""


class Person:
    """Presses keys and looks at the screen."""

    def __init__(self, source: Source, width: int = 100, height: int = 30, colours: bool = True):
        self.console = Console(
            file=StringIO(),
            width=width,
            height=height,
            force_terminal=True,
            color_system="truecolor" if colours else None,
        )
        self.app = App(source, self.console, is_running=False)

    def press(self, *keys: str) -> None:
        for key in keys:
            press(self.app, key)
            while self.app.is_running:
                self.app.go_on()

    def type(self, key: str, text: str) -> None:
        self.press(key, *text, "enter")

    @property
    def lines(self) -> list[str]:
        with self.console.capture() as capture:
            self.console.print(self.app.picture())
        return re.sub(r"\x1b\[[\d;]*m", "", capture.get()).splitlines()

    @property
    def screen(self) -> str:
        return "\n".join(self.lines)


def live(program: Program, **how: int) -> RunSource:
    source: RunSource
    session = Session(program, on_console=lambda text: source.print(text), **how)
    source = RunSource(session, "a program", {0: "first"})
    return source
