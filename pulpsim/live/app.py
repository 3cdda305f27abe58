"""What the live view shows of a source, and all that a person can do with it."""

from collections.abc import Callable
from time import perf_counter

import numpy as np
from rich.console import Console, Group

from pulpsim.live.clock import RATES, Speed, even_width
from pulpsim.live.panels import LINES_WANTED, OF_HARTS, panel_lines, panel_names
from pulpsim.live.screen import Layout, View, draw, layout, too_small
from pulpsim.live.source import Source
from pulpsim.report import short
from soc.state import NEVER

SLICE = 0.05
"""Seconds between two looks at the keys while it runs."""

SLOW = 0.3
"""Seconds that a person notices."""

WITHIN = 100_000
"""Cycles for which an instruction is waited for."""


class App:
    """A source on a terminal.

    goal     cycle to run to
    zoom     cycles of a column; 0: so many that everything is seen
    """

    def __init__(self, source: Source, console: Console, rate: int = 0, is_running: bool = True):
        self.source, self.console = source, console
        self.rate, self.is_running, self.to_barrier = rate, is_running, False
        self.goal, self.zoom, self.selected = NEVER, 0, 0
        self.panel, self.address = panel_names(source)[0], 0x10000000
        self.message, self.typed = "", ""
        self.prompt: tuple[str, Callable[[str], None]] | None = None
        self.speed = Speed()
        self.owed = 0.0
        self.has_quit = self.is_slow = False
        self.show: Callable[[], None] = lambda: None

    def go_on(self) -> None:
        """Run for a slice of time, or as far as is wanted."""
        started = perf_counter()
        end = self.goal
        if self.rate:
            self.owed += self.rate * self.speed.since_last(started)
            cycles, self.owed = int(self.owed), self.owed % 1.0
            end = min(end, self.source.cycle + min(cycles, max(1, self.rate)))
        before = self.source.cycle, self.source.instructions
        stop = self.source.run(SLICE, end, self.to_barrier)
        self.speed.note(self.source.cycle - before[0], self.source.instructions - before[1])
        if stop or self.source.is_over or self.source.cycle >= self.goal:
            self.pause(stop or (self.source.end if self.source.is_over else ""))

    def pause(self, message: str) -> None:
        """Stop where it is; say why."""
        self.is_running, self.to_barrier, self.goal = False, False, NEVER
        self.message = message

    def quit(self) -> None:
        """Leave."""
        self.has_quit = True

    def start(self, goal: int = NEVER, to_barrier: bool = False) -> None:
        """Run, up to a cycle or a barrier."""
        if self.source.is_over:
            self.message = f"{self.source.end}; ← or home go back"
            return
        self.is_running, self.goal, self.to_barrier, self.message = True, goal, to_barrier, ""
        self.speed.restart()

    def type(self, key: str) -> None:
        """Take a key of what is asked for."""
        assert self.prompt
        if key == "enter":
            (_, take), self.prompt = self.prompt, None
            try:
                take(self.typed.strip())
            except ValueError as error:
                self.message = str(error)
        elif key == "escape":
            self.prompt = None
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif len(key) == 1 or key == "space":
            self.typed += " " if key == "space" else key

    def _ask(self, question: str, take: Callable[[str], None]) -> None:
        self.prompt, self.typed, self.message = (question, take), "", ""

    def go_to(self, cycle: int) -> None:
        """Be at a cycle that is known, or run up to it."""
        self.message = ""
        if cycle > self.source.latest:
            self.source.go_to(self.source.latest)
            self.start(cycle)
        else:
            self._move(cycle)

    def go_to_latest(self) -> None:
        """Be as far as it is known."""
        self.go_to(self.source.latest)

    def _move(self, cycle: int) -> None:
        """Be at a cycle at once; where that has taken long before, say so."""
        if self.is_slow:
            self.message = "on the way ..."
            self.show()
            self.message = ""
        started = perf_counter()
        self.source.go_to(max(0, cycle))
        self.is_slow = perf_counter() - started > SLOW

    def step(self, cycles: int) -> None:
        """Some cycles on or back, at once."""
        if cycles > 0 and self.source.is_over:
            self.message = f"{self.source.end}; ← or home go back"
            return
        self.message = ""
        self._move(self.source.cycle + cycles)

    def step_instruction(self) -> None:
        """The selected hart's next instruction."""
        name = self.source.names[self.selected]
        done = self.source.step_instruction(self.selected, WITHIN)
        self.message = "" if done else f"{name} executes nothing in {WITHIN:,} cycles, or no more"

    def ask_cycle(self) -> None:
        """Go to a cycle that is typed."""
        self._ask("go to cycle: ", self._go_to_typed)

    def _go_to_typed(self, text: str) -> None:
        digits = text.replace(",", "").replace("_", "")
        if not digits.isdecimal():
            raise ValueError(f"{text!r} is no cycle: a number as 12,345")
        self.go_to(int(digits))

    def ask_breakpoint(self) -> None:
        """Set or remove a breakpoint that is typed."""
        self._ask(
            "breakpoint at a function, function+0x10 or 0x1c008080 (again removes it, * all): ",
            self._toggle_breakpoint,
        )

    def _toggle_breakpoint(self, text: str) -> None:
        if text == "*":
            self.source.breakpoints.clear()
        elif text:
            self.source.breakpoints ^= {self.source.address_of(text)}

    def ask_memory(self) -> None:
        """Show memory from an address that is typed."""
        if not self.source.state:
            self.message = "a recording has no registers and no memory"
            return
        find = self.source.state.memory_address
        self._ask("memory at address, or name: ", lambda text: self._show_memory(find(text)))

    def _show_memory(self, address: int) -> None:
        self.address, self.panel = address & ~3, "memory"

    def next_panel(self) -> None:
        """Console, code, registers, memory, and round again."""
        names = panel_names(self.source)
        self.panel = names[(names.index(self.panel) + 1) % len(names)]

    def select(self, by: int) -> None:
        """Another hart."""
        self.selected = (self.selected + by) % len(self.source.names)

    def change_rate(self, by: int) -> None:
        """Run faster or slower."""
        place = RATES.index(self.rate) + by
        self.rate = RATES[min(max(place, 0), len(RATES) - 1)]
        self.owed = 0.0

    def change_zoom(self, factor: float) -> None:
        """More or fewer cycles a column; 0: all."""
        width = int(np.diff(self.edges())[0])
        self.zoom = min(max(1, int(width * factor)), 1 << 40) if factor else 0

    def edges(self) -> np.ndarray:
        """The cycles between the columns."""
        columns = self._layout().right
        if not self.zoom:
            return np.arange(columns + 1) * even_width(self.source.latest, columns)
        width = max(self.zoom, self.source.grain) if self.is_running else self.zoom
        end = -(-max(1, self.source.cycle) // width)
        return np.arange(max(0, end - columns), max(columns, end) + 1) * width

    def _layout(self) -> Layout:
        width, height = self.console.size
        harts, banks = len(self.source.names), self.source.banks
        return layout(width, height, harts, banks, LINES_WANTED[self.panel])

    def picture(self) -> Group:
        """The screen as it is now."""
        problem = too_small(*self.console.size, len(self.source.names))
        if problem:
            return Group(problem)
        place, edges = self._layout(), self.edges()
        if not self.is_running:
            self.source.refine(edges)
        lines = panel_lines(self.source, self.panel, self.selected, self.address, place.panel)
        column = (self.source.cycle - 1 - int(edges[0])) // int(edges[1] - edges[0])
        view = View(
            self.source.title,
            self._state(),
            self._speed(),
            self.source.cycle,
            self.source.latest,
            edges,
            self.source.bins(edges),
            min(max(0, column), place.right - 1),
            self.source.harts(),
            self.selected,
            self.source.regions(),
            f"{self.panel} of {self.source.names[self.selected]}"
            if self.panel in OF_HARTS
            else self.panel,
            lines,
            self.prompt[0] + self.typed + "▏" if self.prompt else self.message,
            [self.source.place(address) for address in sorted(self.source.breakpoints)],
        )
        has_colours = self.console.color_system is not None and not self.console.no_color
        return Group(*draw(view, place, has_colours))

    def _state(self) -> str:
        if self.is_running:
            return "to barrier" if self.to_barrier else "running"
        return "ended" if self.source.is_over else "paused"

    def _speed(self) -> str:
        rate = f"limit {short(self.rate)}/s" if self.rate else ""
        if not self.is_running:
            return f"{rate} "
        cycles, instructions = self.speed.rates()
        return f"{rate}  {short(int(cycles))} cycles/s  {instructions / 1e6:.2f} MIPS "
