"""A run that stops where its program says so, lets memory be read and written, and goes on.

    exchange = Exchange(program, "pulp")
    while exchange.go_on().code == NEXT:
        exchange.write(address, data)

The program stops by a store to CORE_STATUS with the end bit, as at its end; the core that does so
waits for a load of the same register before it reads what is written. Between two cycles the
simulation stands still: what is read and written there takes no time.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np

from isa.program import Program
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.result import Exit, RunResult, read_memory
from soc.run import prepare

if TYPE_CHECKING:
    from soc.board.memory import BoardMemory


class Exchange:
    """A program on a chip, between two stops.

    seconds    of processor time that the simulation took so far
    """

    def __init__(
        self,
        program: Program | str | PathLike,
        chip: SocSpec | str = "pulp",
        *,
        engine: str = "compiled",
        on_console: Callable[[str], None] | None = None,
        progress: Callable = nullcontext,
    ) -> None:
        """Get ready; arguments and exceptions as in soc.run.run_program."""
        self._simulation = prepare(program, chip, engine, on_console, progress)
        self._end = Exit("interrupted")
        self.seconds = 0.0

    @property
    def chip(self) -> Chip:
        """The chip's state now."""
        return self._simulation.chip

    @property
    def cycle(self) -> int:
        """Cycles simulated so far."""
        return int(self._simulation.cycle)

    def go_on(self, max_cycles: int | None = None) -> Exit:
        """Simulate up to the next stop, or so many cycles from here at most.

        raises    ValueError if the run has ended in another way than by a stop
        """
        if self.cycle and self._end.reason != "exit":
            raise ValueError(f"the run has ended: {self._end.message or self._end.reason}")
        started = thread_time()
        self._simulation.ending.exit = None
        if self.cycle:
            self._simulation.is_repeatable = False
        limit = None if max_cycles is None else self.cycle + max_cycles
        self._end = self._simulation.run(limit)
        if self._end.reason != "max_cycles":
            self._simulation.console.finish()
        self.seconds += thread_time() - started
        return self._end

    def read(self, address: int, size: int) -> bytes:
        """Bytes of L1 or L2, or of the HyperRAM, whose addresses count from 0.

        raises    ValueError if they are not in one memory
        """
        if self._is_ram(address, size):
            return self._ram.read(address, size)
        return read_memory(self.chip, self._simulation.spec, address, size)

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into L2, where no code may lie, or into the HyperRAM.

        raises    ValueError if they do not lie in it
        """
        if self._is_ram(address, len(data)):
            self._simulation.is_repeatable = False
            self._ram.write(address, data)
            return
        l2, start = self._simulation.spec.l2, address - self._simulation.spec.l2.base
        if not 0 <= start <= start + len(data) <= l2.size:
            raise ValueError(
                f"{len(data)} bytes at {address:#010x} are not in L2 ({l2.base:#010x}, {l2.size})"
            )
        self._simulation.is_repeatable = False
        self.chip.l2.view(np.uint8)[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def _is_ram(self, address: int, size: int) -> bool:
        return 0 <= address <= address + size <= self._simulation.spec.hyperram.size

    @property
    def _ram(self) -> "BoardMemory":
        platform = self._simulation.platform
        assert platform
        return platform.ram

    def result(self) -> RunResult:
        """What the run leaves here, as soc.run.run_program returns it: the last act."""
        result = self._simulation.result(self._end, self.seconds)
        return replace(result, processor_seconds=self.seconds)
