"""Registers that remember what is written to them: the base of all peripherals.

A peripheral is this plus handlers for the registers that do more. On its own it stands for the
blocks whose behaviour nothing in the simulator depends on (GPIO, uDMA, power management, debug).
"""

from collections import Counter
from collections.abc import Callable

from soc.registers import Block

WORD = 0xFFFFFFFF


class RegisterBlock:
    """A block of 32-bit registers.

    Ports
        warn    out   a sentence, once for each offset that has no register

    State: `words`, by offset; `unknown`, accesses by offset where there is no register.
    """

    def __init__(self, name: str, block: Block, warn: Callable[[str], None]):
        self.name, self.block, self.warn = name, block, warn
        self.words: dict[int, int] = {}
        self.unknown: Counter[int] = Counter()
        self.loads: dict[str, Callable[[int], int]] = {}
        """Registers that are not plain storage: index -> value."""
        self.stores: dict[str, Callable[[int, int], None]] = {}
        """(index, value) of a register whose store does something."""

    def read(self, offset: int, size: int) -> int:
        """Load `size` bytes (1, 2, 4) that do not cross a word."""
        found = self.block.at(offset & ~3)
        if found is None:
            self._note_unknown(offset & ~3, "load")
            value = self.words.get(offset & ~3, 0)
        else:
            register, index = found
            load = self.loads.get(register.name)
            value = load(index) if load else self.word(register.name, index)
        return value >> 8 * (offset & 3) & (1 << 8 * size) - 1

    def write(self, offset: int, value: int, size: int) -> None:
        """Store `size` bytes. There are no byte enables: a narrow store writes the whole word."""
        value = (value & (1 << 8 * size) - 1) << 8 * (offset & 3)
        found = self.block.at(offset & ~3)
        if found is None:
            self._note_unknown(offset & ~3, "store")
            self.words[offset & ~3] = value
            return
        register, index = found
        store = self.stores.get(register.name)
        if store:
            store(index, value)
        else:
            self.put(register.name, value, index)

    def word(self, name: str, index: int = 0) -> int:
        """What a register holds: the last store, or its reset value."""
        register = self.block.register(name)
        return self.words.get(register.offset + register.stride * index, register.reset)

    def put(self, name: str, value: int, index: int = 0) -> None:
        """Let a register hold a value."""
        self.words[self.block.offset(name, index)] = value & WORD

    def _note_unknown(self, offset: int, access: str) -> None:
        self.unknown[offset] += 1
        if self.unknown[offset] == 1:
            self.warn(f"{self.name}: {access} at offset {offset:#x}, where it has no register")
