"""Changes that a person makes to a run: part of it from then on, however often it is repeated."""

from dataclasses import dataclass

import numpy as np

from isa.words import i32
from soc.aot.units import csr_write, set_next_pc
from soc.prelude.decoded import UNDECODED
from soc.simulation import Simulation


@dataclass(frozen=True)
class MemoryEdit:
    """Bytes of L1 or L2 from the start of a cycle on."""

    cycle: int
    address: int
    data: bytes

    def apply(self, simulation: Simulation) -> None:
        """Write them; instructions among them are decoded anew."""
        chip, spec = simulation.chip, simulation.spec
        for memory, words in ((spec.l1, chip.l1), (spec.l2, chip.l2)):
            start = self.address - memory.base
            if 0 <= start and start + len(self.data) <= words.nbytes:
                end = start + len(self.data)
                words.view(np.uint8)[start:end] = np.frombuffer(self.data, np.uint8)
        first = (self.address - spec.l2.base) // 2
        if 0 <= first < spec.l2.size // 2:
            rows = np.arange(max(first - 1, 0), first + len(self.data) // 2 + 1)
            rows = rows[chip.code["kind"][rows] != UNDECODED]
            simulation.decode_again(rows.tolist())


@dataclass(frozen=True)
class RegisterEdit:
    """An entry of a hart's register file; floats of their own have those from 32 on."""

    cycle: int
    hart: int
    number: int
    value: int

    def apply(self, simulation: Simulation) -> None:
        """Write it; x0 stays what it is."""
        if self.number:
            simulation.chip.harts["regs"][self.hart, self.number] = i32(self.value)
            _interpret(simulation, self.hart)


@dataclass(frozen=True)
class CsrEdit:
    """A control and status register of a hart."""

    cycle: int
    hart: int
    number: int
    value: int

    def apply(self, simulation: Simulation) -> None:
        """Write it as an instruction would in this cycle."""
        _interpret(simulation, self.hart)
        csr_write(simulation.chip.harts[self.hart], self.number, self.value, self.cycle)


@dataclass(frozen=True)
class PcEdit:
    """The instruction that a hart issues next."""

    cycle: int
    hart: int
    pc: int

    def apply(self, simulation: Simulation) -> None:
        """Send the hart there, as soon as that is fetched."""
        set_next_pc(simulation.chip, self.hart, self.pc, self.cycle)


def _interpret(simulation: Simulation, hart: int) -> None:
    """Let no machine code go on with what it knows of a hart."""
    simulation.chip.harts["code"][hart] = 0


Edit = MemoryEdit | RegisterEdit | CsrEdit | PcEdit
