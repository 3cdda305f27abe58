"""A run that stops where one wants, looks around, and goes back.

    session = Session("hello.elf")
    session.breakpoints.add(session.address_of("main"))
    session.go_on()
    session.registers(8)["sp"], session.read(0x1C008000, 16)
    session.step_instruction(8)
    session.go_to(100)

Between two cycles the simulation stands still; how often it did changes no cycle and no counter.
Going back is a simulation anew: from the last checkpoint, else from the start, forward to the
cycle. Runs are deterministic, so it comes to the same state, and what it prints again is not shown.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from time import perf_counter

import numpy as np

from isa.declare import Isa
from isa.names import F_NAMES, X_NAMES
from isa.program import Program
from soc.barriers import harts_at_barrier_of_bench, is_barrier_complete
from soc.checkpoint import copy, is_idle
from soc.chip_state import Chip
from soc.guards import DEFAULT_GUARDS, Guards
from soc.history import History
from soc.places import parse_place
from soc.result import Exit, RunResult, read_memory
from soc.run import prepare
from soc.scout import Scout, Window
from soc.simulation import Simulation
from soc.spec import SocSpec
from soc.state import NEVER

PIECE = 0.05
"""Seconds that a run may take between two chances for a checkpoint."""

WINDOW = 1024
"""Cycles that a scout goes ahead at a time."""


@dataclass(frozen=True)
class Stop:
    """Why `go_on` ended before its time.

    reason    "breakpoint": the harts are about to execute it; "barrier": it is complete
    """

    reason: str
    cycle: int
    harts: tuple[int, ...] = ()


class Session:
    """A program on a chip, at the start of some cycle.

    breakpoints    addresses of instructions before which `go_on` stops
    end            how the program ended, None while it goes on
    latest         the last cycle that was simulated so far
    seconds        that the way to `latest` took
    """

    def __init__(
        self,
        program: Program | str | PathLike,
        chip: SocSpec | str = "pulp",
        *,
        engine: str = "compiled",
        max_cycles: int | None = None,
        on_console: Callable[[str], None] | None = None,
        progress: Callable = nullcontext,
        guards: Guards = DEFAULT_GUARDS,
    ):
        """Get ready; arguments and exceptions as in soc.run.run_program."""
        self._on_console = on_console or (lambda text: None)
        self._written = self._shown = 0
        self._simulation = prepare(program, chip, engine, self._print, progress, guards=guards)
        self._limit = NEVER if max_cycles is None else max_cycles
        self._history = History()
        self._piece = WINDOW
        self._scout: Scout | None = None
        self._window: Window | None = None
        self._stop = Stop("breakpoint", -1)
        self.breakpoints: set[int] = set()
        self.end: Exit | None = None
        self.latest = 0
        self.seconds = 0.0

    @property
    def chip(self) -> Chip:
        """The chip's state now; another object after going back."""
        return self._simulation.chip

    @property
    def program(self) -> Program:
        """What runs."""
        return self._simulation.program

    @property
    def spec(self) -> SocSpec:
        """Of the chip."""
        return self._simulation.spec

    @property
    def isa(self) -> Isa:
        """The instructions of its harts."""
        return self._simulation.isa

    @property
    def cycle(self) -> int:
        """Cycles simulated up to here."""
        return self._simulation.cycle

    def get_ready(self) -> None:
        """Compile now, if it is not kept, what breakpoints and steps need when they come."""
        self._new_scout()

    def go_to(self, cycle: int) -> None:
        """Be at the start of a cycle, before or behind this one; or at the program's end.

        raises    ValueError for a negative cycle
        """
        if cycle < 0:
            raise ValueError(f"cycle {cycle}: a run begins at cycle 0")
        if cycle < self.cycle:
            self._go_back(cycle)
        self._advance(cycle)

    def step(self, cycles: int = 1) -> None:
        """Go on by some cycles; back if they are negative, to the start at most."""
        self.go_to(max(0, self.cycle + cycles))

    def step_instruction(self, hart: int, within: int = 1 << 20) -> bool:
        """Go on until a hart has issued its next instruction; False: not within so many cycles."""
        end = self.cycle + within
        while self.cycle < end and self.end is None:
            window = self._window_here()
            cycle = window.next_issue(hart, self.cycle)
            if cycle is not None and cycle < end:
                self._advance(cycle + 1)
                return self.cycle > cycle
            self._advance(min(end, window.end))
        return False

    def go_on(self, end: int = NEVER, *, to_barrier: bool = False) -> Stop | None:
        """Run up to this cycle, the program's end, a breakpoint.

        to_barrier    or to the cycle in which a barrier is complete
        """
        while self.cycle < end and self.end is None:
            if not self.breakpoints and not to_barrier:
                self._advance(end)
                continue
            window = self._window_here()
            passing = self._stop.harts if self.cycle == self._stop.cycle else ()
            stop = window.next_stop(self.breakpoints, self.cycle, passing)
            target = min(end, window.end)
            if stop:
                target = min(target, stop[0])
            if to_barrier and window.has_barriers and self._walk_to_barrier(target):
                return Stop("barrier", self.cycle)
            self._advance(target)
            if stop and self.cycle == stop[0] and self.end is None:
                passed = self._stop.harts if self._stop.cycle == self.cycle else ()
                self._stop = Stop("breakpoint", self.cycle, (*passed, *stop[1]))
                return Stop("breakpoint", self.cycle, stop[1])
        return None

    def _window_here(self) -> Window:
        """What happens in this cycle and those behind it."""
        if self._window is None or not self._window.start <= self.cycle < self._window.end:
            scout = self._scout
            if scout is None or scout.end is not None or scout.cycle != self.cycle:
                scout = self._new_scout()
            self._window, end = scout.look(self.cycle + WINDOW)
            if end and end.reason == "interrupted":
                self.end, window, self._window = end, self._window, None
                return window
        return self._window

    def _new_scout(self) -> Scout:
        """A scout in this cycle."""
        now = self._simulation
        scout = self._scout = Scout(now.program, now.spec, now.engine, now.progress)
        if is_idle(now):
            copy(now, scout)
        else:
            self._history.restore(scout, self.cycle)
        scout.run_on(self.cycle)
        return scout

    def _walk_to_barrier(self, target: int) -> bool:
        """Go on to this cycle, or to that in which a barrier is complete."""
        while self.cycle < target and self.end is None:
            waiting = harts_at_barrier_of_bench(self.chip)
            self._advance(self.cycle + 1)
            if is_barrier_complete(self.chip, waiting):
                return True
        return False

    def _go_back(self, cycle: int) -> None:
        now = self._simulation
        self._simulation = Simulation(
            now.program, now.spec, now.engine, self._print, nullcontext, guards=now.guards
        )
        self._history.restore(self._simulation, cycle)
        self._written = sum(map(len, self._simulation.text))
        self.end = None

    def _advance(self, cycle: int) -> None:
        """Run up to a cycle, in pieces, with checkpoints between them."""
        cycle = min(cycle, self._limit)
        while self.cycle < cycle and self.end is None:
            target = min(cycle, self.cycle + self._piece)
            is_whole, is_new = target < cycle, target > self.latest
            started = perf_counter()
            self.end = self._simulation.run_on(target)
            seconds = perf_counter() - started
            if is_whole:
                self._piece = min(max(WINDOW, int(self._piece * PIECE / seconds)), 2 * self._piece)
            if is_new:
                self.latest, self.seconds = self.cycle, self.seconds + seconds
                self._history.passed(self._simulation, seconds)
        if self.end is None and self.cycle >= self._limit:
            self.end = Exit("max_cycles", 0, f"cycle limit of {self._limit} reached")

    def _print(self, text: str) -> None:
        """Pass on what the program has not printed before."""
        self._written += len(text)
        fresh = min(len(text), self._written - self._shown)
        if fresh > 0:
            self._shown = self._written
            self._on_console(text[-fresh:])

    def registers(self, hart: int) -> dict[str, int]:
        """A hart's pc and registers by their ABI names, unsigned; floating-point ones as patterns.

        The next instruction is at pc; what is loaded at the time comes later.
        """
        state = self.chip.harts[hart]
        names = [*X_NAMES, *F_NAMES] if state["f_registers"] else X_NAMES
        values = state["regs"][: len(names)].view(np.uint32).tolist()
        return {"pc": int(state["pc"]), **dict(zip(names, values, strict=True))}

    def read(self, address: int, size: int) -> bytes:
        """Bytes of L1 or L2. Raises ValueError if they are not in one memory."""
        return read_memory(self.chip, self.spec, address, size)

    def address_of(self, place: str, *, is_code: bool = True) -> int:
        """The address that "main", "main+0x1c" or "0x1c008080" stands for.

        raises    ValueError if there is no such name, or no code where it has to be
        """
        address = parse_place(place, lambda name: self.program.symbol(name).address)
        l2 = self.spec.l2
        if is_code and (address % 2 or not l2.base <= address < l2.base + l2.size):
            raise ValueError(
                f"{place!r} is address {address:#010x}; instructions lie at even addresses of L2 "
                f"({l2.base:#010x}..{l2.base + l2.size - 1:#010x})"
            )
        return address

    def result(self) -> RunResult:
        """What the run leaves here, as soc.run.run_program returns it: the session's last act."""
        end = self.end or Exit("interrupted", 0, f"interrupted in cycle {self.cycle}")
        result = self._simulation.result(end, self.seconds)
        return replace(result, processor_seconds=self.seconds)
