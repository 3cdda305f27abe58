"""Work partitioned among the cores of a team: parts of dimensions, known when the code is built."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from firmware.builder import LT, Kernel, Register
from firmware.runtime import Team
from trainlib.primitive.tensor import Address

QUOTIENT = 256  # core // c == core * ceil(256 / c) // 256 for core, c <= 16


class EqualParts(NamedTuple):
    """Some parts of a dimension: those of this size; part p starts at element p * size + first."""

    size: int
    first: int


@dataclass(frozen=True)
class Partition:
    """A dimension partitioned into parts whose sizes differ by one element at most.

    index    which part a core has, if there are several
    t        for constants
    """

    k: Kernel
    total: int
    parts: int
    index: Register
    t: Register

    def parts_of_cores(self, count: Register | None = None) -> Iterator[EqualParts]:
        """Emit the loop's body for each size that parts have; a core runs its own.

        count    a register for the size of the core's part: parts of either size have the same body
                 then, and the index counts elements
        """
        if count is not None:
            yield self._load_own(count)
            return
        least, extra = divmod(self.total, self.parts)
        if not extra:
            yield EqualParts(least, 0)
            return
        self.k.li(self.t, extra)
        with self.k.if_(LT, self.index, self.t):
            yield EqualParts(least + 1, 0)
        if least:
            with self.k.else_():
                yield EqualParts(least, extra)

    def _load_own(self, count: Register) -> EqualParts:
        """Load how many elements the core's part has, and let the index be that of the first."""
        k, index, t = self.k, self.index, self.t
        least, extra = divmod(self.total, self.parts)
        k.li(t, extra)
        k.by_field(("p_min", "cv_min"), rd=count, rs1=index, rs2=t)
        k.li(t, least)
        k.by_field(("p_mac", "cv_mac"), rd=count, rs1=index, rs2=t)
        k.li(t, extra)
        k.slt(t, index, t)
        k.mv(index, count)
        k.addi(count, t, least)
        return EqualParts(1, 0)

    def load_start(self, rd: Register, part: EqualParts, base: Address, step: int) -> None:
        """Load the address of the core's first element: they lie `step` bytes apart from base."""
        k, t = self.k, self.t
        first = part.first * step
        if isinstance(base, int):
            k.li(rd, base + first)
        else:
            k.add_constant(rd, base, first, t)
        self.add_start(rd, EqualParts(part.size, 0), step)

    def add_start(self, rd: Register, part: EqualParts, step: int) -> None:
        """Add the core's first element, in bytes: rd += e * step."""
        k, t = self.k, self.t
        if self.parts > 1 and step:
            k.li(t, part.size * step)
            k.mul(t, self.index, t)
            k.add(rd, rd, t)
        if part.first * step:
            k.add_constant(rd, rd, part.first * step, t)


@contextmanager
def grid_of(
    k: Kernel, team: Team, split: tuple[int, int], i: Register, j: Register, t: Register
) -> Iterator[None]:
    """Load a core's place in a grid, core = i * split[1] + j; the others skip the body.

    A coordinate of which there is one alone is not loaded.
    """
    core = i if split[1] == 1 else j
    team.core(core)
    places = split[0] * split[1]
    skip = k.label()
    if places < team.cores:
        around = k.label()
        k.li(t, places)
        k.blt(core, t, around)
        k.j(skip)
        k.place(around)
    if split[0] > 1 and split[1] > 1:
        k.li(t, -(-QUOTIENT // split[1]))  # exact for as many cores as there are: 16 at most
        k.mul(i, j, t)
        k.srli(i, i, QUOTIENT.bit_length() - 1)
        k.li(t, split[1])
        k.mul(t, i, t)
        k.sub(j, j, t)
    yield
    k.place(skip)


def heights(rows: int, blocking: int) -> dict[int, int]:
    """Rows of the panels of a part, and how many of each there are."""
    times, rest = divmod(rows, blocking)
    return {blocking: times} if not rest else {blocking: times, rest: 1} if times else {rest: 1}
