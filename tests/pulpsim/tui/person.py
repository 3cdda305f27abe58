"""A person at the live view: keys and what the screen shows; no terminal, no threads."""

from dataclasses import replace

import numpy as np
from rich.text import Text

from isa.program import Program
from pulpsim.tui import overview, panels
from pulpsim.tui.charts import Paint
from pulpsim.tui.frame import Frame, Look, Registers, frame
from pulpsim.tui.keys import ACTS, KEYS
from pulpsim.tui.palette import DARK
from pulpsim.tui.player import Player
from pulpsim.tui.simulation_source import RunSource
from pulpsim.tui.source import Source
from soc.debug.session import Session

SEED = 4
"""Of the random program that is looked at."""

PAINT = Paint(DARK)
BY_KEY = {name: key.name for key in KEYS if key.act for name in key.keys.split(",")}


class Person:
    """Presses keys and looks at the screen."""

    def __init__(self, source: Source, width: int = 100, height: int = 30):
        self.player = Player(source)
        self.layout = overview.layout(width, height, len(source.names), source.banks)
        self.registers = Registers()
        self.panel = "code"

    @property
    def source(self) -> Source:
        return self.player.source

    def press(self, *keys: str) -> None:
        """Do what keys stand for, and let it run until it stops by itself."""
        for key in keys:
            ACTS[BY_KEY[key]](self.player, self.layout.right)
            while self.player.is_running:
                self.player.go_on()

    def go_to(self, text: str) -> None:
        self.player.go_to_text(text)
        while self.player.is_running:
            self.player.go_on()

    @property
    def frame(self) -> Frame:
        edges = self.player.edges(self.layout.right)
        is_exact = self.source.refine(edges, lambda: True)
        assert is_exact
        assert np.diff(edges).min() >= 1
        look = Look(self.layout.right, (0x10000000, 256))
        return frame(self.player, look, self.registers, 0, is_exact)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without its colours."""
        now, place = self.frame, self.layout
        found: list[Text] = overview.status(now, place.width, False, PAINT)
        found += overview.heading(now, place, PAINT)
        found += [overview.hart_line(now, h, place, PAINT) for h in range(len(now.harts))]
        found += overview.legend(now, place, PAINT)
        found += overview.cluster(now, place, PAINT) if place.heat else []
        for name in panels.panel_names(now):
            page = self.page(name, now)
            found += [page.line(k) for k in range(page.count)]
        return [line.plain for line in found]

    def page(self, name: str, now: Frame) -> panels.Page:
        width, listing = self.layout.width, self.source.code
        return {
            "code": lambda: panels.code(now, listing, width, PAINT),
            "registers": lambda: panels.registers(now, panels.x_names(now), "hex", 80, 9, PAINT),
            "floats": lambda: panels.registers(now, panels.f_names(now), "float", 80, 9, PAINT),
            "memory": lambda: panels.memory(now, "hex", width, PAINT),
            "regions": lambda: panels.regions(now, PAINT),
            "banks": lambda: panels.banks(now, self.layout.left, PAINT),
            "console": lambda: panels.console(now),
            "stops": lambda: panels.stops(now, PAINT),
        }[name]()

    @property
    def screen(self) -> str:
        return "\n".join(self.lines)


def live(program: Program, **how: int) -> RunSource:
    source: RunSource
    named = replace(program, regions={0: "first"})
    session = Session(named, on_console=lambda text: source.print(text), **how)
    source = RunSource(session, "a program")
    return source
