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

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from time import perf_counter

import numpy as np

from isa.assembler.names import F_NAMES, X_NAMES
from isa.declare import Isa
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.config.toml import ConfigError
from soc.debug.address_expression import parse_place
from soc.debug.barriers import harts_at_barrier_of_bench, is_barrier_complete
from soc.debug.checkpoint import copy, is_idle
from soc.debug.checkpoint_file import save
from soc.debug.checkpoint_store import History
from soc.debug.edits import Edit
from soc.debug.hits import Hit, Position, Stops, Watchpoint
from soc.debug.lookahead import EVERYTHING, Scout, Wanted, Window
from soc.debug.windows import Windows
from soc.guards import DEFAULT_GUARDS, Guards
from soc.prelude.wheel import NEVER
from soc.result import Exit, RunResult, read_memory
from soc.run import prepare
from soc.simulation import Simulation
from soc.trace.recorder import Recording

PIECE = 0.05
"""Seconds that a run may take between two chances for a checkpoint."""

WINDOW = 1024
"""Cycles that a scout goes ahead at a time, at first."""

LONGEST_LOOK = 1 << 17
"""Cycles of which all instructions are looked at together, at most."""

MOST_HITS = 1 << 16
"""Events that are looked at together for the last one of them."""

STEPS_BACK = (1 << 17, 1 << 13)
"""Cycles before the one gone back to at which checkpoints are kept, too."""


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
    watchpoints    bytes whose accesses are hits, too
    edits          what was changed by hand, by cycle
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
        self._windows = Windows(self.scout_at)
        self._stop = Stop("breakpoint", -1)
        self.breakpoints: set[int] = set()
        self.watchpoints: set[Watchpoint] = set()
        self.edits: list[Edit] = []
        self.end: Exit | None = None
        self.latest = 0
        self.seconds = 0.0

    @property
    def chip(self) -> Chip:
        """The chip's state now; another object after going back."""
        return self._simulation.chip

    @property
    def program(self) -> Program:
        """The program that runs."""
        return self._simulation.program

    @property
    def spec(self) -> SocSpec:
        """Spec of the chip."""
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
        self.scout_at(self.cycle)

    def go_to(self, cycle: int) -> None:
        """Be at the start of a cycle, before or after this one; or at the program's end.

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
            window = self.window(EVERYTHING)
            cycles = window.issues(hart)[0]
            cycles = cycles[cycles >= self.cycle]
            if cycles.size and cycles[0] < end:
                self._advance(int(cycles[0]) + 1)
                return self.cycle > cycles[0]
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
            window = self.window(Stops(self.breakpoints).wanted, WINDOW if to_barrier else NEVER)
            stop = self._next_stop(window)
            target = min(end, window.end)
            if stop:
                target = min(target, stop.cycle)
            if to_barrier and window.has_barriers and self._walk_to_barrier(target):
                return Stop("barrier", self.cycle)
            self._advance(target)
            if stop and self.cycle == stop.cycle and self.end is None:
                passed = self._stop.harts if self._stop.cycle == self.cycle else ()
                self._stop = replace(stop, harts=(*passed, *stop.harts))
                return stop
        return None

    def _next_stop(self, window: Window) -> Stop | None:
        """The next cycle of a window in which harts come to breakpoints, and these harts."""
        passed = self._stop.harts if self.cycle == self._stop.cycle else ()
        stops, after = Stops(self.breakpoints), Position(self.cycle)
        while (hit := stops.first(window, after)) and hit.position.cycle == self.cycle:
            if hit.position.hart not in passed:
                break
            after = hit.position
        harts, cycle = [], hit.position.cycle if hit else NEVER
        while hit and hit.position.cycle == cycle:
            harts += [hit.position.hart] * (cycle > self.cycle or hit.position.hart not in passed)
            hit = stops.first(window, hit.position)
        return Stop("breakpoint", cycle, tuple(harts)) if harts else None

    def window(self, wanted: Wanted, longest: int = NEVER, until: int = 0) -> Window:
        """What happens in this cycle and those after it, as far as is looked ahead.

        until    up to this cycle at least
        """
        window, end = self._windows.window(self.cycle, wanted, longest, until)
        if end and end.reason == "interrupted":
            self.end = end
        return window

    def known_window(self, start: int, end: int) -> Window | None:
        """What has happened between two cycles, if it was looked at lately."""
        return self._windows.known(start, end, EVERYTHING)

    @property
    def stops(self) -> Stops:
        """The breakpoints and watchpoints."""
        return Stops(self.breakpoints, self.watchpoints)

    def search_back(self, before: Position) -> Iterator[Hit | None]:
        """The last hit before a position, however far back; None for each part that has none."""
        stops, end = self.stops, before.cycle + 1
        for start in reversed([0, *self._history.cycles(end)]):
            window, _ = self.scout_at(start).look(end, stops.wanted, MOST_HITS)
            hit = stops.last(window, before)
            yield hit
            if hit:
                return
            end = start

    def last_issues(self, hart: int, before: int, count: int) -> list[int]:
        """Cycles of the last instructions that a hart has issued before a cycle, at most so many.

        The latest first.
        """
        found: list[int] = []
        length, end = WINDOW, before
        while end and len(found) < count:
            start = max(0, end - length)
            window = self._windows.known(start, end, EVERYTHING)
            if window is None:
                window, _ = self.scout_at(start).look(end, EVERYTHING)
                self._windows.keep(window, EVERYTHING)
            cycles = window.issues(hart)[0]
            found += cycles[(cycles >= start) & (cycles < end)][::-1].tolist()
            length, end = min(8 * length, LONGEST_LOOK), start
        return found[:count]

    def scout_at(self, cycle: int) -> Scout:
        """A simulation of its own at a cycle of the run."""
        now = self._simulation
        scout = Scout(now.program, now.spec, now.engine, now.progress)
        if cycle == now.cycle and is_idle(now):
            copy(now, scout)
        else:
            self._history.restore(scout, cycle)
            self._carry(scout, cycle)
        scout.carry = partial(self._carry, scout)
        return scout

    def edit(self, edit: Edit) -> None:
        """Change something in this cycle or the next, and in every way through it from now on.

        What was changed later is forgotten: the run goes on anew.
        """
        here = self.cycle
        kept = [each for each in self.edits if each.cycle <= here + 1]
        self.edits = sorted([*kept, edit], key=lambda each: each.cycle)
        if edit.cycle == here:
            edit.apply(self._simulation)
        self._history.forget_after(here)
        self._windows.forget()
        self.latest, self._shown = min(self.latest, self.cycle), min(self._shown, self._written)

    def save(self, file: Path) -> None:
        """Write a checkpoint of this cycle, see soc.debug.checkpoint_file.

        raises    ConfigError if that cannot be
        """
        if self.edits:
            raise ConfigError([f"{file}: what was changed by hand would be lost; reset first"])
        save(self._simulation, file)

    def record(self, file: Path, first: int, end: int) -> int:
        """Write a trace of these cycles, before `end`; returns how many events it has.

        raises    ConfigError if it cannot be written
        """
        now = self._simulation
        recording = Recording(file, filters=(f"cycle={first}-{end}",))
        silent: Callable[[str], None] = lambda text: None  # noqa: E731
        again = Simulation(now.program, now.spec, now.engine, silent, now.progress, recording)
        over = self._carry(again, end) or Exit("interrupted", 0, f"recorded up to cycle {end}")
        return again.result(over, 0.0).trace_events or 0

    def forget_edits(self) -> None:
        """Let the run be what it is without them, from the start on."""
        if self.edits:
            self._history.forget_after(-1)
            self._windows.forget()
            self.edits = []
        self.go_to(0)

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
            now.program,
            now.spec,
            now.engine,
            self._print,
            nullcontext,
            guards=now.guards,
            code_cache=now.code_cache,
        )
        self._history.restore(self._simulation, cycle)
        self._written = sum(map(len, self._simulation.console.text))
        self.end = None
        for distance in STEPS_BACK:  # whoever goes back once most likely does so again
            if cycle - self._simulation.cycle > 2 * distance:
                self._carry(self._simulation, cycle - distance)
                self._history.keep_near(self._simulation)
        self._carry(self._simulation, self._simulation.cycle)

    def _carry(self, simulation: Simulation, cycle: int) -> Exit | None:
        """Run a simulation up to a cycle, with what was changed on the way."""
        for edit in self.edits:
            if simulation.cycle <= edit.cycle <= cycle:
                end = simulation.run_on(edit.cycle)
                if end:
                    return end
                edit.apply(simulation)
        return simulation.run_on(cycle)

    def advance(self, cycle: int) -> None:
        """Run towards a cycle for a moment, as long as one wants to wait for an interrupt."""
        self._advance(min(cycle, self.cycle + self._piece))

    def _advance(self, cycle: int) -> None:
        """Run up to a cycle, in pieces, with checkpoints between them."""
        cycle = min(cycle, self._limit)
        while self.cycle < cycle and self.end is None:
            target = min(cycle, self.cycle + self._piece)
            is_whole, is_new = target - self.cycle == self._piece, target > self.latest
            started = perf_counter()
            self.end = self._carry(self._simulation, target)
            if self.end:
                self._simulation.console.finish()
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
