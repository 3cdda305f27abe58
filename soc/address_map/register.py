"""Registers and their fields, declared as tables."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Field:
    """Bits low .. low + width - 1 of a register."""

    name: str
    low: int
    width: int
    meaning: str

    @property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.low


@dataclass(frozen=True)
class Register:
    """A 32-bit register, or `count` of them `stride` bytes apart.

    offset    bytes from the start of its block
    """

    name: str
    offset: int
    meaning: str
    fields: tuple[Field, ...] = ()
    count: int = 1
    stride: int = 4
    reset: int = 0


@dataclass(frozen=True)
class Block:
    """The registers of one component."""

    name: str
    source: str
    registers: tuple[Register, ...]

    def register(self, name: str) -> Register:
        """Raises KeyError for a name that the block does not have."""
        if found := self._by_name.get(name):
            return found
        names = ", ".join(register.name for register in self.registers)
        raise KeyError(f"{self.name} has no register {name}; it has {names}")

    def offset(self, name: str, index: int = 0) -> int:
        """Bytes from the start of the block to a register, the index-th of its kind."""
        register = self.register(name)
        return register.offset + register.stride * index

    def at(self, offset: int) -> tuple[Register, int] | None:
        """The register whose word lies at an offset, and its index; None if none does."""
        return self.by_offset.get(offset)

    @cached_property
    def _by_name(self) -> dict[str, Register]:
        return {register.name: register for register in reversed(self.registers)}

    @cached_property
    def by_offset(self) -> dict[int, tuple[Register, int]]:
        """Registers, and their indices, by the offsets of their words."""
        return {
            register.offset + register.stride * index: (register, index)
            for register in reversed(self.registers)  # the first one of two at an offset
            for index in range(register.count)
        }
