"""Products with an inner dimension of one in L1: C[i, j] = A[i] B[j], or added to C.

    for each panel of rows:  for each block of columns:  C[r][q] += A[r] * B[q]

A panel's part of A and a block's of B stay in registers, C goes through. The loads of a row, the
multiply-adds of the one before and the stores of that before take turns, so that nothing waits.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from firmware.builder import Kernel, Register
from trainlib.gemm.operands import Operands
from trainlib.gemm.register_block_cost import F_REGISTERS
from trainlib.primitive.tensor import WORD

ROWS, COLS = 4, 4  # of a block where nothing is said
STEPS = range(-2048, 2048)  # what the step of a load says
SETS = 3  # rows that are under way
AROUND = 30  # instructions around a panel's inner loop, nearly
ADDRESSES = 6  # registers beside those of rows: of A, B, C, a step, a counter, scratch


class Outer:
    """The registers of one core's block, and the code that works on it.

    pa, pb    addresses of A[i], B[j]
    pc        of C[i, j], C[i + 1, j], ..., a panel's rows; start: of the next panel's first
    """

    def __init__(self, k: Kernel, x: Operands, rows: int, cols: int) -> None:
        self.k, self.x, self.rows, self.cols = k, x, rows, cols
        self.sets = min(rows, SETS)
        self.is_added = x.accumulates or x.scale is not None

    @classmethod
    def fitting(cls, k: Kernel, x: Operands, rows: int | None, cols: int | None) -> "Outer | None":
        """The largest that the registers allow; None: it is another product, or they do not.

        rows, cols    of a block; None: chosen
        """
        if x.depth > 1 or x.bias is not None or x.clips or x.b_column not in STEPS:
            return None
        if x.c_apart > 1:
            return None
        free = len(k.registers.free("x"))
        for width in [cols] if cols else range(COLS, 0, -1):
            block = cls(k, x, rows or ROWS, width)
            floats = block.rows + width + block.sets * width
            addresses = ADDRESSES + block.rows
            if k.has_float_registers:
                is_room = addresses <= free and floats <= F_REGISTERS
            else:
                is_room = addresses + floats <= free
            if is_room:
                return block
        return None

    def cycles(self, height: int, width: int) -> int:
        """Cycles of a part, nearly."""
        moves = 3 if self.is_added else 2
        panels = -(-height // self.rows)
        return moves * height * width + panels * (width + AROUND)

    @contextmanager
    def registers(self, pointers: Sequence[Register], height: int, width: int) -> Iterator[None]:
        """Take the registers for a part; pointers hold the addresses of its A, B and C."""
        k = self.k
        self.pa, self.pb, self.start = pointers
        self.panels, self.scratch = k.x(2)
        self.pc = k.x(self.rows)
        self.a: Any = k.f(self.rows)
        self.b: Any = k.f(self.cols)
        self.c: Any = k.f(self.sets, self.cols)
        yield

    def part(self, height: int, width: int) -> None:
        """C[i:i+height, j:j+width] = A[i:i+height] B[j:j+width]."""
        k = self.k
        panels, rest = divmod(height, self.rows)
        if panels > 1:
            k.li(self.panels, panels)
        if panels:
            with k.loop(self.panels) if panels > 1 else nullcontext():
                self._panel(self.rows, width)
        if rest:
            self._panel(rest, width)

    def _panel(self, rows: int, width: int) -> None:
        """Compute rows i .. i+rows-1; then i += rows."""
        k, x, t = self.k, self.x, self.scratch
        for r in range(rows):
            k.fload(self.a[r], 0, self.pa)
            k.add_constant(self.pa, self.pa, x.a_row, t)
            k.mv(self.pc[r], self.start)
            k.add_constant(self.start, self.start, x.c_row, t)
        if x.scale:
            factor = self.c[0][0]
            x.scale.load(k, factor)
            for r in range(rows):
                k.fmul_s(self.a[r], self.a[r], factor)
        blocks, rest = divmod(width, self.cols)
        if blocks > 1:
            k.li(t, blocks)
            with k.hwloop(t):
                self._block(rows, self.cols)
        elif blocks:
            self._block(rows, self.cols)
        if rest:
            self._block(rows, rest)
        k.add_constant(self.pb, self.pb, -width * x.b_column, t)

    def _block(self, rows: int, cols: int) -> None:
        """Compute a block; then j += cols."""
        k, x = self.k, self.x
        for q in range(cols):
            k.fload_post(self.b[q], x.b_column, self.pb)
        for turn in range(rows + 2):
            if self.is_added and turn < rows:
                for q in range(cols):
                    k.fload(self._sum(turn, q), WORD * q, self.pc[turn])
            if 0 < turn <= rows:
                self._multiply(turn - 1, cols)
            if turn > 1:
                row = turn - 2
                for q in range(1, cols):
                    k.fstore(self._sum(row, q), WORD * q, self.pc[row])
                k.fstore_post(self._sum(row, 0), WORD * cols, self.pc[row])

    def _multiply(self, row: int, cols: int) -> None:
        for q in range(cols):
            c, a, b = self._sum(row, q), self.a[row], self.b[q]
            if self.is_added:
                self.k.fmadd_s(c, a, b, c)
            else:
                self.k.fmul_s(c, a, b)

    def _sum(self, row: int, q: int) -> Register:
        return self.c[row % self.sets][q]
