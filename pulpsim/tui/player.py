"""The clock of what is watched, in a person's hands: run, pause, step, go back, break."""

from time import perf_counter

import numpy as np

from pulpsim.tui.clock import RATES, Speed, even_width
from pulpsim.tui.source import Source
from soc.prelude.wheel import NEVER

SLICE = 0.05
"""Seconds between two looks at what the person wants while it runs."""

WITHIN = 100_000
"""Cycles for which an instruction is waited for."""


class Player:
    """A source and its clock.

    rate         cycles a second at most; 0: no limit
    goal         cycle to run to
    zoom         cycles of a column; 0: so many that everything is seen
    selected     number of the hart whose code and registers are shown
    message      why it stopped, or what was wrong with what was asked for
    """

    def __init__(self, source: Source, rate: int = 0, is_running: bool = False):
        self.source = source
        self.rate, self.is_running, self.to_barrier = rate, is_running, False
        self.goal, self.zoom, self.selected = NEVER, 0, 0
        self.message = ""
        self.speed = Speed()
        self.owed = 0.0
        self._first = self._followed = 0

    @property
    def state(self) -> str:
        """ "running", "to barrier", "paused" or "ended"."""
        if self.is_running:
            return "to barrier" if self.to_barrier else "running"
        return "ended" if self.source.is_over else "paused"

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
            self.pause(stop.reason if stop else self.source.end)
            self._select_reason(stop.harts if stop else ())

    def _select_reason(self, harts: tuple[int, ...]) -> None:
        """Move to a hart that has stopped or ended the run."""
        if self.source.culprit is not None:
            self.selected = self.source.culprit
        elif harts and self.selected not in harts:
            self.selected = harts[0]

    def pause(self, message: str = "") -> None:
        """Stop where it is; say why."""
        self.is_running, self.to_barrier, self.goal = False, False, NEVER
        self.message = message

    def start(self, goal: int = NEVER, to_barrier: bool = False) -> None:
        """Run, up to a cycle or a barrier."""
        if self._has_ended():
            return
        self.is_running, self.goal, self.to_barrier, self.message = True, goal, to_barrier, ""
        self.speed.restart()

    def toggle(self) -> None:
        """Run, or pause."""
        if self.is_running:
            self.pause()
        else:
            self.start()

    def go_to(self, cycle: int) -> None:
        """Be at a cycle that is known, or run up to it."""
        self.pause()
        latest = self.source.latest
        self.source.go_to(min(max(0, cycle), latest))
        if cycle > latest:
            self.start(cycle)

    def go_to_text(self, text: str) -> None:
        """The same with a cycle as it is typed. Raises ValueError if it is none."""
        digits = text.replace(",", "").replace("_", "")
        if not digits.isdecimal():
            raise ValueError(f"{text!r} is no cycle: a number as 12,345")
        self.go_to(int(digits))

    def go_to_latest(self) -> None:
        """Be as far as it is known."""
        self.go_to(self.source.latest)

    def step(self, cycles: int) -> None:
        """Some cycles on or back, at once."""
        self.pause()
        if cycles < 0 or not self._has_ended():
            self.source.go_to(max(0, self.source.cycle + cycles))

    def step_instruction(self) -> None:
        """The selected hart's next instruction."""
        self.pause()
        if not self.source.step_instruction(self.selected, WITHIN):
            name = self.source.names[self.selected]
            self.message = f"{name} executes nothing in {WITHIN:,} cycles, or no more"

    def _has_ended(self) -> bool:
        """Can it not go on? Then say so."""
        if self.source.is_over:
            self.pause(f"{self.source.end}; ← or home go back")
        return self.source.is_over

    def toggle_breakpoint(self, place: str) -> None:
        """Set or remove one at "main", "main+0x10" or "0x1c008080"; "*" removes all.

        raises    ValueError if that is no address of code
        """
        if place == "*":
            self.source.breakpoints.clear()
        elif place:
            self.source.breakpoints ^= {self.source.address_of(place)}

    def select(self, hart: int) -> None:
        """Another hart."""
        self.selected = hart % len(self.source.names)

    def change_rate(self, by: int) -> None:
        """Run faster or slower."""
        place = RATES.index(self.rate) + by
        self.rate = RATES[min(max(place, 0), len(RATES) - 1)]
        self.owed = 0.0

    def change_zoom(self, factor: float, columns: int, at: int | None = None) -> None:
        """More or fewer cycles a column; 0: all.

        at    the column that stays where it is; that of the current cycle if left out
        """
        edges = self.edges(columns)
        width = int(edges[1] - edges[0])
        self.zoom = min(max(1, int(width * factor)), 1 << 40) if factor else 0
        here = self.source.cycle - int(edges[0])
        if at is None:
            at = min(max(0, here // width), columns - 1)
            self._first = self.source.cycle - at * self.zoom
        else:
            self._first = int(edges[at]) - at * self.zoom

    def pan(self, columns: int, by: float) -> None:
        """Other cycles: by so much of what is seen."""
        edges = self.edges(columns)
        self.zoom = int(edges[1] - edges[0])
        self._first = int(edges[0]) + int(columns * by) * self.zoom

    def edges(self, columns: int) -> np.ndarray:
        """The cycles between so many columns; the current cycle is among them when it moves."""
        if not self.zoom:
            return np.arange(columns + 1) * even_width(self.source.latest, columns)
        width = max(self.zoom, self.source.grain) if self.is_running else self.zoom
        cycle, span = self.source.cycle, columns * width
        if cycle != self._followed:
            self._followed = cycle
            if cycle > self._first + span:
                self._first = cycle - span + width - 1
            elif cycle <= self._first:
                self._first = cycle - 1 - span // 4
        latest = max(0, self.source.latest - width)
        self._first = min(max(0, self._first), latest)
        return (self._first // width + np.arange(columns + 1)) * width
