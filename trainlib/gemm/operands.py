"""The operands of a matrix product in L1: where they are, and how far their elements lie apart."""

from dataclasses import dataclass

from firmware.builder import Kernel, Register
from firmware.lanes import load_constant
from trainlib.loops.strided import Strided
from trainlib.primitive.tensor import Address


@dataclass(frozen=True)
class Scale:
    """What whole sums are multiplied by before they are added to C.

    value    a number; None: the float at an address in L1
    """

    value: float | None = None
    at: Address | None = None

    def load(self, k: Kernel, rd: Register) -> None:
        """Load it."""
        if self.value is not None:
            load_constant(k, rd, self.value)
            return
        assert self.at is not None
        if not k.has_float_registers:
            k.set(rd, self.at)
            k.lw(rd, 0, rd)
            return
        with k.scope():
            base = k.x()
            k.set(base, self.at)
            k.fload(rd, 0, base)


@dataclass(frozen=True)
class Operands:
    """Matrices in L1: byte addresses, bytes from one row to the next and from one column to it.

    bias    what the sums start with; None: with 0, or with C where they accumulate
    scale   sums start with 0, and scale times each is added to C; None: they are C
    """

    a: Address
    b: Address
    c: Address
    bias: Address | None
    depth: int
    a_row: int
    a_column: int
    b_row: int
    b_column: int
    c_row: int
    bias_row: int = 0
    bias_column: int = 0
    accumulates: bool = False
    scale: Scale | None = None

    @property
    def ends(self) -> int:
        """Instructions for a sum besides those of the inner loop."""
        return 1 + self.starts + 2 * (self.scale is not None)

    @property
    def starts(self) -> bool:
        """Do the sums start with something that is loaded?"""
        return self.accumulates or self.bias is not None

    def a_block(self, rows: int) -> Strided:
        """A[i .. i+rows-1, l], then the next l."""
        return Strided(rows, self.a_row, self.a_column)

    def b_block(self, cols: int) -> Strided:
        """B[l, j .. j+cols-1], then the next l."""
        return Strided(cols, self.b_column, self.b_row)

    def constants(self, rows: int, cols: int) -> set[int]:
        """What a block's loads need in registers."""
        return self.a_block(rows).constants | self.b_block(cols).constants
