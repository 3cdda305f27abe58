"""The chip as a debugger shows it at the start of a cycle: between grants and issues of that cycle.

A hart issues a load or store in one cycle, and it takes place in a later one. What is shown is in
the order of the program: an access that takes place in this cycle is done, the next instruction has
not been issued. So memory that a person changes here changes at the start of the next cycle: no
instruction of this one asks for it before.

A hart whose access is not granted yet stands at its load or store, which has not been done; one
that sleeps at the event unit, at its event load.
"""

from functools import cached_property

from soc.aot.units import csr_read
from soc.chip.state import Chip
from soc.debug.lookahead import EVERYTHING, Window
from soc.debug.session import Session
from soc.debug.whereabouts import is_pending, pc_of_access
from soc.prelude.decoded import STORE
from soc.result import read_memory


class View:
    """What harts and memories are to whoever looks at a session in its present cycle."""

    def __init__(self, session: Session):
        self.session, self.chip, self.cycle = session, session.chip, session.cycle

    @cached_property
    def _after(self) -> tuple[Chip, Window]:
        """The chip at the start of the next cycle, and what happens until then."""
        scout = self.session.scout_at(self.cycle)
        window, _ = scout.look(self.cycle + 1, EVERYTHING)
        return scout.chip, window

    @cached_property
    def _is_over(self) -> bool:
        return self.session.end is not None

    @cached_property
    def done(self) -> frozenset[int]:
        """Harts whose access takes place in this cycle, as a whole."""
        if self._is_over or not any(map(is_pending, self.chip.harts)):
            return frozenset()
        window = self._after[1]
        harts = range(self.chip.harts.size)
        return frozenset(
            h for h in harts if is_pending(self.chip.harts[h]) and window.accesses(h).size
        )

    def is_under_way(self, h: int) -> bool:
        """Does a hart stand at an access that is not done?"""
        return is_pending(self.chip.harts[h]) and h not in self.done

    def pc(self, h: int) -> int:
        """The instruction that a hart has not done yet."""
        hart = self.chip.harts[h]
        return pc_of_access(self.chip, hart) if self.is_under_way(h) else int(hart["pc"])

    def register(self, h: int, number: int) -> int:
        """An entry of a hart's register file, unsigned: floats of their own from 32 on."""
        harts = self.chip.harts
        if self.is_loaded(h, number):
            harts = self._after[0].harts
        return int(harts["regs"][h, number]) & 0xFFFFFFFF

    def is_loaded(self, h: int, number: int) -> bool:
        """Is an entry of a hart's register file loaded in this cycle?"""
        if not number or h not in self.done:
            return False
        row = self.chip.code[int(self.chip.harts[h]["row"])]
        return row["kind"] != STORE and int(row["rd"]) == number

    def csr(self, h: int, number: int) -> int:
        """A control and status register as an instruction would read it."""
        return int(csr_read(self.chip.harts[h], number, self.cycle)) & 0xFFFFFFFF

    def read(self, address: int, size: int) -> bytes:
        """Bytes of L1 or L2, with what is stored, and was changed by hand, in this cycle.

        raises    ValueError if they are not in one memory
        """
        is_edited = any(edit.cycle == self.cycle + 1 for edit in self.session.edits)
        is_copied = int(self.chip.wheel[0]["dma_busy"]) != 0
        is_stored = is_edited or is_copied or any(self._stores(h) for h in self.done)
        chip = self._after[0] if is_stored else self.chip
        return read_memory(chip, self.session.spec, address, size)

    def _stores(self, h: int) -> bool:
        return self.chip.code[int(self.chip.harts[h]["row"])]["kind"] == STORE
