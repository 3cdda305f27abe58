"""Matrix product: C[n, m] = A[n, k] B[k, m], row-major fp32.

A block of rows x cols sums stays in registers: rows + cols loads feed rows * cols multiply-adds.
Rows and columns are dealt out to a grid of cores, which differ by one row and one column at most;
the code is specialised for the shape, so that what is left over costs no test.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from firmware.builder import LT, Kernel, Register
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.kernels import WORD, Address

REACH = 2047  # bytes that the offset of a load or store reaches


@dataclass(frozen=True)
class Operands:
    """Matrices in L1: byte addresses, and bytes from one row to the next."""

    a: Address
    b: Address
    c: Address
    a_row: int
    b_row: int
    c_row: int


class Block:
    """The registers of one core's block, and the code that works on it.

    pa, pb, pc   addresses of A[i, l], B[l, j], C[i, j]
    acc[r][q]    C[i + r, j + q]
    av[r]        A[i + r, l]
    bv[q]        B[l, j + q]
    down, back   bytes to the next row of A, and from the last one to the next column, where loads
                 do not reach as far
    b_step       bytes to the next row of B
    scratch      for constants between inner loops
    """

    def __init__(
        self, k: Kernel, x: Operands, depth: int, rows: int, cols: int, pointers: list[Register]
    ) -> None:
        self.k, self.x, self.depth, self.rows, self.cols = k, x, depth, rows, cols
        self.pa, self.pb, self.pc = pointers
        self.acc: Any = k.f(rows, cols)
        self.av: Any = k.f(rows)
        self.bv: Any = k.f(cols)
        self.scratch = k.x() if k.has_float_registers else self.av[0]
        walking: Any = k.x(2) if self._walks(rows) else (ZERO, ZERO)
        self.down, self.back = walking
        self.b_step = x.b_row if x.b_row <= REACH else k.x()

    def part(self, height: int, width: int) -> None:
        """C[i:i+height, j:j+width] = A[i:i+height, :] B[:, j:j+width], block by block."""
        k = self.k
        if isinstance(self.b_step, Register):
            k.li(self.b_step, self.x.b_row)
        panels, rest = divmod(height, self.rows)
        if panels:
            with k.loop(panels):
                self._panel(self.rows, width)
        if rest:
            self._panel(rest, width)

    def _panel(self, height: int, width: int) -> None:
        """Compute rows i .. i+height-1, at most a block; then i += height."""
        k, x = self.k, self.x
        if self._walks(height):
            k.li(self.down, x.a_row)
            k.li(self.back, WORD - (height - 1) * x.a_row)
        blocks, rest = divmod(width, self.cols)
        if blocks > 1:
            k.li(self.scratch, blocks)
            with k.hwloop(self.scratch):
                self._block(height, self.cols)
        elif blocks:
            self._block(height, self.cols)
        if rest:
            self._block(height, rest)
        k.add_constant(self.pa, self.pa, height * x.a_row, self.scratch)
        k.add_constant(self.pb, self.pb, -WORD * width, self.scratch)
        k.add_constant(self.pc, self.pc, height * x.c_row - WORD * width, self.scratch)

    def _block(self, height: int, width: int) -> None:
        """Compute one block; then j += width."""
        k, x = self.k, self.x
        self._step(height, width, is_first=True)
        if self.depth > 1:
            k.li(self.scratch, self.depth - 1)
            with k.hwloop(self.scratch):
                self._step(height, width, is_first=False)
        self._store(height, width)
        k.add_constant(self.pa, self.pa, -WORD * self.depth, self.scratch)
        k.add_constant(self.pb, self.pb, WORD * width - self.depth * x.b_row, self.scratch)

    def _step(self, height: int, width: int, is_first: bool) -> None:
        """Add one column of A times one row of B; in the first step, the sums are the products.

        The order keeps a load from the instruction that needs it, where there is another.
        """
        k = self.k
        if width == 1:
            self._load_b(width)
        self._load_a(height)
        if width > 1:
            self._load_b(width)
        for q in _columns(width):
            for r in range(height):
                if is_first:
                    k.fmul_s(self.acc[r][q], self.av[r], self.bv[q])
                else:
                    k.fmadd_s(self.acc[r][q], self.av[r], self.bv[q], self.acc[r][q])

    def _walks(self, height: int) -> bool:
        """Are the rows of A too far from each other for offsets?"""
        return (height - 1) * self.x.a_row - WORD > REACH

    def _load_a(self, height: int) -> None:
        k = self.k
        if self._walks(height):
            for r in range(height):
                k.fload_post(self.av[r], self.down if r < height - 1 else self.back, self.pa)
            return
        k.fload_post(self.av[0], WORD, self.pa)
        for r in range(1, height):
            k.fload(self.av[r], r * self.x.a_row - WORD, self.pa)

    def _load_b(self, width: int) -> None:
        k = self.k
        for q in range(1, width):
            k.fload(self.bv[q], WORD * q, self.pb)
        k.fload_post(self.bv[0], self.b_step, self.pb)

    def _store(self, height: int, width: int) -> None:
        """Store the block; then pc is that of the next one."""
        k, c_row = self.k, self.x.c_row
        walks = (height - 1) * c_row + WORD * (width - 1) > REACH
        for r in range(height):
            if r and walks:
                k.add_constant(self.pc, self.pc, c_row, self.scratch)
            for q in _columns(width):
                offset = WORD * q if walks else r * c_row + WORD * q
                k.fstore(self.acc[r][q], offset, self.pc)
        back = (height - 1) * c_row if walks else 0
        k.add_constant(self.pc, self.pc, WORD * width - back, self.scratch)


def _columns(width: int) -> tuple[int, ...]:
    """The columns of a block in the order in which their operands arrive."""
    return (*range(1, width), 0)


def matmul_f32(
    k: Kernel,
    team: Team,
    x: Operands,
    shape: tuple[int, int, int],
    *,
    rows: int = 4,
    cols: int = 4,
    split: tuple[int, int],
) -> None:
    """C[n, m] = A[n, k] B[k, m] in L1, on all cores of the team; shape is n, k, m.

    rows, cols    the block that stays in registers; what is left over has smaller blocks
    split         parts of the rows and of the columns, a core for each pair

    raises        KernelError if the block does not fit the registers
    """
    n, depth, m = shape
    with k.scope():
        pointers = k.x(3)
        with k.scope():  # used before any block, so blocks take the same registers
            i, j, t = k.x(3)
        block = Block(k, x, depth, rows, cols, pointers)
        _load_grid(k, team, split, i, j, t)
        all_rows = Dealt(k, n, split[0], i, t)
        all_cols = Dealt(k, m, split[1], j, t)
        pa, pb, pc = pointers
        for part in all_rows.parts_of_cores():
            all_rows.load_start(pa, part, x.a, x.a_row)
            all_rows.load_start(pc, part, x.c, x.c_row)
            for strip in all_cols.parts_of_cores():
                all_cols.load_start(pb, strip, 0, WORD)
                k.add(pc, pc, pb)
                k.set(t, x.b)
                k.add(pb, pb, t)
                block.part(part.size, strip.size)


def _load_grid(
    k: Kernel, team: Team, split: tuple[int, int], i: Register, j: Register, t: Register
) -> None:
    """Load a core's place in the grid: core = i * split[1] + j; one of a single part is not."""
    if split[0] == 1:
        team.core(j)
        return
    team.core(i)
    if split[1] > 1:
        k.li(t, split[1])
        k.remu(j, i, t)
        k.divu(i, i, t)


class Part(NamedTuple):
    """Some parts of a dimension: those of this size; part p starts at element p * size + first."""

    size: int
    first: int


@dataclass(frozen=True)
class Dealt:
    """A dimension dealt out in parts whose sizes differ by one element at most.

    index    which part a core has, if there are several
    t        for constants
    """

    k: Kernel
    total: int
    parts: int
    index: Register
    t: Register

    def parts_of_cores(self) -> Iterator[Part]:
        """Emit the loop's body for each size that parts have; a core runs its own."""
        least, extra = divmod(self.total, self.parts)
        if not extra:
            yield Part(least, 0)
            return
        self.k.li(self.t, extra)
        with self.k.if_(LT, self.index, self.t):
            yield Part(least + 1, 0)
        if least:
            with self.k.else_():
                yield Part(least, extra)

    def load_start(self, rd: Register, part: Part, base: Address, step: int) -> None:
        """Load the address of the core's first element: they lie `step` bytes apart from base."""
        k, t = self.k, self.t
        if self.parts == 1:
            k.set(rd, base)
            return
        k.li(t, part.size * step)
        k.mul(rd, self.index, t)
        k.set(t, base, part.first * step)
        k.add(rd, rd, t)
