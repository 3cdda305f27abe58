"""Registers of a hart as objects, and which of them code under construction holds.

The convention is that of the psABI's integer registers, chapter 1 of the RISC-V ELF psABI 1.0:

    t0..t6 a0..a7    temporary: a call may change them; a0..a7 carry arguments, a0 the result
    s0..s11          saved: a function that uses them restores them
    sp               the core's stack; never given out
    ra, gp, tp       given out last, and restored by functions like saved ones
    ft, fa; fs       the same for float registers where there are any
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from isa.assembler.names import F_NAMES, X_NAMES


class KernelError(Exception):
    """This code cannot be built at this point. The message names what, the value and the rule."""


class Register(NamedTuple):
    """A register: its number in file "x" or "f"."""

    number: int
    file: str

    @property
    def name(self) -> str:
        """ABI name."""
        return (X_NAMES if self.file == "x" else F_NAMES)[self.number]

    @property
    def is_saved(self) -> bool:
        """Must a function that changes it restore it?"""
        return self in SAVED

    def __repr__(self) -> str:
        return self.name


X = tuple(Register(number, "x") for number in range(32))
F = tuple(Register(number, "f") for number in range(32))
ZERO, RA, SP, GP, TP = X[:5]
A = X[10:18]  # arguments and results
T = (*X[5:8], *X[28:32])
S = (*X[8:10], *X[18:28])

POOLS = {
    "x": (*T, *A[::-1], *S, GP, TP, RA),
    "f": (*F[:8], *F[28:], *F[10:18][::-1], *F[8:10], *F[18:28]),
    "short x": (*A[5::-1], *S[:2]),
    "saved x": S,
    "saved f": (*F[8:10], *F[18:28]),
}
"""Registers to give out, first come first."""

SAVED = frozenset((*S, GP, TP, RA, *F[8:10], *F[18:28]))


class Registers:
    """The registers in use, in one function or in the main code.

    live    those taken and not given back
    used    those ever taken
    """

    def __init__(self) -> None:
        self.live: set[Register] = set()
        self.used: set[Register] = set()

    def free(self, pool: str) -> list[Register]:
        """What can be taken, in order."""
        return [register for register in POOLS[pool] if register not in self.live]

    def take(self, pool: str, count: int, what: str) -> list[Register]:
        """Take registers of a pool for what.

        raises    KernelError if there are not as many
        """
        free = self.free(pool)
        if count > len(free):
            raise KernelError(
                f"{what}: out of {pool} registers: {count} more wanted, {len(free)} of "
                f"{len(POOLS[pool])} free; make the blocking smaller or free some in a scope"
            )
        self.hold(*free[:count])
        return free[:count]

    def hold(self, *registers: Register) -> None:
        """Mark registers as taken."""
        self.live.update(registers)
        self.used.update(registers)

    def release(self, *registers: Register) -> None:
        """Give registers back."""
        self.live.difference_update(registers)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Give back at the end what is taken inside."""
        before = set(self.live)
        try:
            yield
        finally:
            self.live = before
