"""The operands of a matrix product in L1: where they are, and how far their elements lie apart."""

from dataclasses import dataclass, replace
from typing import Literal

from firmware.builder import Kernel, Register
from firmware.lanes import load_constant
from trainlib.codegen.strided_access import Strided, constants_of
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import WORD, Address

Packing = Literal["one", "columns", "depth"]


@dataclass(frozen=True)
class Scale:
    """The factor of whole sums before they are added to C.

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
    clips   is C what sums are, or 0 where they are less?
    lanes   what a register has of halves: "one"; two neighbours of B and C in their "columns",
            which then count as one; or two of A and B along the "depth", whose sums are added to
            each other at last, and two steps count as one
    tail    steps that are left over then
    told    of sums that accumulate in single precision, a register with the steps that there are,
            the depth at most; where it is negative, as many, and sums begin with 0. None: the depth
    opens   of lanes along the depth: is C words, each with two sums that are not added yet?
    c_apart elements of a row of C from one column to the next
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
    clips: bool = False
    element: Element = F32
    lanes: Packing = "one"
    tail: int = 0
    opens: bool = False
    told: Register | None = None
    c_apart: int = 1

    @property
    def c_item(self) -> int:
        """Bytes of C that a sum is, or a pair of columns."""
        return WORD if self.lanes == "columns" or self.opens else self.element.size

    @property
    def c_column(self) -> int:
        """Bytes from one column of C to the next; of pairs of columns, from pair to pair."""
        return self.c_apart * self.c_item

    @property
    def bias_item(self) -> int:
        """Bytes that are loaded of a bias."""
        return self.c_item if self.bias_column else self.element.size

    @property
    def ends(self) -> int:
        """Instructions for a sum besides those of the inner loop."""
        ends = 3 if self.lanes == "depth" and not self.opens else 1
        return ends + self.starts + 2 * (self.scale is not None) + self.clips

    @property
    def starts(self) -> bool:
        """Do the sums start with something that is loaded?"""
        return self.accumulates or self.bias is not None

    @property
    def placeless(self) -> "Operands":
        """The same at address 0, with a factor of 1 if any: cycles depend on neither."""
        bias, scale = self.bias and 0, self.scale and Scale(1.0)
        return replace(self, a=0, b=0, c=0, bias=bias, scale=scale, told=None)

    def a_block(self, rows: int) -> Strided:
        """A[i .. i+rows-1, l], then the next l."""
        item = WORD if self.lanes == "depth" else self.element.size
        return Strided(rows, self.a_row, self.a_column, item)

    def b_block(self, cols: int) -> Strided:
        """B[l, j .. j+cols-1], then the next l."""
        item = self.element.size if self.lanes == "one" else WORD
        return Strided(cols, self.b_column, self.b_row, item)

    def constants(self, rows: int, cols: int) -> frozenset[int]:
        """What a block's loads need in registers."""
        of_a = constants_of(rows, self.a_row, self.a_column)
        return of_a | constants_of(cols, self.b_column, self.b_row)
