"""A block of sums in registers: rows x cols of them, fed by rows + cols loads for each step.

    for l in range(depth):  acc[r][q] += A[r, l] * B[l, q]

The smaller of a column of A and a row of B is held in registers; the other one goes through as many
registers as are left, two at least.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from firmware.builder import LT, Kernel, Register
from firmware.lanes import Lanes
from firmware.registers import ZERO
from trainlib.codegen.saved_values import Kept, kept
from trainlib.codegen.strided_access import REACH
from trainlib.elementwise.activations import clip
from trainlib.gemm.operands import Operands, Scale
from trainlib.gemm.register_block_cost import float_registers, step_registers
from trainlib.primitive.element import load, store

AHEAD = 2  # steps in a round of a single sum that loads one step ahead
SINGLE = 3  # registers of the ring of a block of one sum, which has two steps under way


class Move(NamedTuple):
    """The way from a block to the next one, down and to the right."""

    rows: int
    columns: int


class Block:
    """The registers of one core's block, and the code that works on it.

    pa, pb       addresses of A[i, l], B[l, j]
    pc, bias     of C[i, j] and its bias
    told         steps, if a register says how many there are
    panels       panels left
    acc[r][q]    C[i + r, j + q]
    held         the smaller of a column of A and a row of B; ring: what goes through of the other
    steps        constants of the loads that are in registers
    scratch      two x registers to use outside of the inner loop: scratch, other
    """

    def __init__(self, k: Kernel, x: Operands, rows: int, cols: int, unroll: int) -> None:
        self.k, self.x, self.rows, self.cols, self.unroll = k, x, rows, cols, unroll
        self.steps: dict[int, Register] = {}

    @contextmanager
    def registers(self, pointers: Sequence[Register], height: int, width: int) -> Iterator[None]:
        """Take the registers for a part of this size.

        pointers    hold the addresses of its A, B, C, and of its bias if there is one, or the steps
                    if they are told

        raises      KernelError if there are too few registers
        """
        k, x, rows, cols = self.k, self.x, self.rows, self.cols
        self.pa, self.pb, *pointers = pointers
        steps = step_registers(x, height, width, rows, cols)
        inner = steps + (2 if k.has_float_registers else int(float_registers(rows, cols)))
        with kept(k, pointers, 1, inner, [x.a, x.b, x.c, x.bias, x.told]) as homes:
            self.pc, self.panels = homes[0], homes[-1]
            self.bias = homes[1] if x.bias is not None else None
            self.told = homes[1] if x.told is not None else None
            self.step_registers: list[Register] = k.x(steps)
            scratch = k.x(2) if k.has_float_registers else []
            self.acc: Any = k.f(rows, cols)
            self.held = k.f(min(rows, cols))
            left = len(k.registers.free(k.float_file))
            ring = SINGLE if rows == cols == 1 else max(rows, cols)
            self.ring = k.f(max(min(ring, left), 1))
            self.scratch, self.other = scratch or (self.held[0], self.ring[0])
            yield

    def part(self, height: int, width: int) -> None:
        """C[i:i+height, j:j+width] = A[i:i+height, :] B[:, j:j+width], block by block."""
        panels, rest = divmod(height, self.rows)
        if panels:
            with self._repeated(panels, width):
                self._panel(self.rows, width, is_last=panels == 1 and not rest)
        if rest:
            self._panel(rest, width, is_last=True)

    @contextmanager
    def _repeated(self, panels: int, width: int) -> Iterator[None]:
        """Repeat the body for each panel: a hardware loop where none goes through the panel."""
        if panels > 1 and width <= self.cols:
            self.k.li(self.scratch, panels)
            with self.k.hwloop(self.scratch):
                yield
        else:
            with self.panels.loop(panels, self.scratch):
                yield

    def _panel(self, height: int, width: int, is_last: bool) -> None:
        """Compute rows i .. i+height-1, at most a block; then i += height, if any are left."""
        k = self.k
        blocks, rest = divmod(width, self.cols)
        last = rest or self.cols
        to_next = None if is_last else Move(height, last - width)
        self.steps = {}
        if blocks:
            self._load_steps(height, self.cols)
        if blocks > 1:
            k.li(self.scratch, blocks)
            with k.hwloop(self.scratch):
                self._block(height, self.cols, Move(0, self.cols))
            if not rest and not is_last:
                self._go(Move(height, -width))
        elif blocks:
            self._block(height, self.cols, Move(0, self.cols) if rest else to_next)
        if rest:
            self._load_steps(height, rest)
            self._block(height, rest, to_next)

    def _go(self, move: Move) -> None:
        """Move on between blocks."""
        k, x = self.k, self.x
        k.add_constant(self.pa, self.pa, move.rows * x.a_row, self.scratch)
        k.add_constant(self.pb, self.pb, move.columns * x.b_column, self.scratch)
        self._advance(self.pc, move.rows * x.c_row + x.c_column * move.columns)
        self._advance_bias(move)

    def _load_steps(self, height: int, width: int) -> None:
        """Load what the loads of blocks of this size need in registers."""
        constants = sorted(self.x.constants(height, width))
        steps = dict(zip(constants, self.step_registers, strict=False))
        for constant, register in steps.items():
            if self.steps.get(constant) != register:
                self.k.li(register, constant)
        self.steps = steps

    def _advance(self, pointer: Kept, step: int) -> None:
        if step:
            register = pointer.load(self.other)
            self.k.add_constant(register, register, step, self.scratch)
            pointer.store(register)

    def _advance_bias(self, move: Move) -> None:
        if self.bias:
            x = self.x
            self._advance(self.bias, move.rows * x.bias_row + move.columns * x.bias_column)

    def _block(self, height: int, width: int, move: Move | None) -> None:
        """Compute one block; then move on to the next, if there is one."""
        k, x = self.k, self.x
        if x.starts:
            self._start_sums(height, width, move)
        else:
            self._step(height, width, is_first=True)
        count = x.depth - (not x.starts)
        if self.told:
            self._load_count(self.told, self.scratch)
            with k.hwloop(self.scratch):
                self._step(height, width, is_first=False)
        elif height == width == 1 and self.unroll == AHEAD and len(self.ring) >= SINGLE and count:
            self._add_to_one(count)
        else:
            times, rest = divmod(count, self.unroll)
            self._repeat(times, lambda: self._steps(self.unroll, height, width))
            self._steps(rest, height, width)
        if x.tail:
            self._step(height, width, is_first=False, is_tail=True)
        if x.lanes == "depth" and not x.opens:
            self._add_lanes(height, width)
        if x.scale:
            self._add_to_c(x.scale, height, width)
        if x.clips:
            self._clip(height, width)
        pc = self.pc.load(self.other)
        walked = self._each_of_c(partial(store, k, x.c_item), pc, height, width)
        if move is None:
            return
        step = move.rows * x.c_row + x.c_column * move.columns - walked
        k.add_constant(pc, pc, step, self.scratch)
        self.pc.store(pc)
        steps = 0 if self.told else x.depth + x.tail
        if self.told:
            self._go_back(self.told)
        step = move.rows * x.a_row - steps * x.a_column
        k.add_constant(self.pa, self.pa, step, self.scratch)
        step = move.columns * x.b_column - steps * x.b_row
        k.add_constant(self.pb, self.pb, step, self.scratch)

    def _load_count(self, told: Kept, count: Register) -> None:
        """Load how many steps there are, whether they begin sums or not."""
        k = self.k
        steps = told.load(count)
        k.by_field(("p_abs", "cv_abs"), rd=count, rs1=steps)

    def _go_back(self, told: Kept) -> None:
        """Let A and B begin with the first step again, of as many as there are."""
        k, count, size = self.k, self.other, self.scratch
        self._load_count(told, count)
        for pointer, step in ((self.pa, self.x.a_column), (self.pb, self.x.b_row)):
            k.li(size, step)
            k.mul(size, size, count)
            k.sub(pointer, pointer, size)

    def _start_sums(self, height: int, width: int, move: Move | None) -> None:
        """Load what the sums start with, or let them be 0 where steps that are told begin them."""
        k = self.k
        if not self.told:
            self._load_sums(height, width, move)
            return
        with k.if_(LT, self.told.load(self.scratch), ZERO):
            for r, q in product(range(height), range(width)):
                k.fzero(self.acc[r][q])
        with k.else_():
            self._load_sums(height, width, move)

    def _load_sums(self, height: int, width: int, move: Move | None) -> None:
        """Load what the sums start with."""
        k, x = self.k, self.x
        if self.bias:
            bias = self.bias.load(self.other)
            for r, q in product(range(height), range(width)):
                offset = r * x.bias_row + q * x.bias_column
                self._load_start(self.acc[r][q], offset, bias, x.bias_item)
            if move:
                self._advance_bias(move)
        else:
            pc = self.pc.load(self.other)
            walked = self._each_of_c(self._load_start, pc, height, width)
            k.add_constant(pc, pc, -walked, self.scratch)

    def _load_start(self, acc: Register, offset: int, p: Register, item: int | None = None) -> None:
        """Load what a sum starts with; of lanes along the depth, the low one's."""
        k, x = self.k, self.x
        is_unsigned = x.lanes == "depth" and not x.opens
        load(k, item or x.c_item, acc, offset, p, is_unsigned=is_unsigned)
        if x.lanes == "columns" and item == x.element.size:
            k.p_insert(acc, acc, 15, 16)

    def _add_lanes(self, height: int, width: int) -> None:
        """Add the two sums of each register to each other."""
        k, add = self.k, self.x.element.scalar(self.k, "fadd")
        sums = [self.acc[r][q] for r, q in product(range(height), range(width))]
        for pair in (sums[i : i + 2] for i in range(0, len(sums), 2)):
            for acc, high in zip(pair, (self.scratch, self.other), strict=False):
                k.srli(high, acc, 16)
            for acc, high in zip(pair, (self.scratch, self.other), strict=False):
                add(acc, acc, high)

    def _add_to_c(self, scale: Scale, height: int, width: int) -> None:
        """Let whole sums be C plus scale times them."""
        k, factor = self.k, self.held[0]
        scale.load(k, factor)
        for r, q in product(range(height), range(width)):
            k.fmul_s(self.acc[r][q], self.acc[r][q], factor)

        def add(acc: Register, offset: int, pc: Register) -> None:
            k.fload(self.held[0], offset, pc)
            k.fadd_s(acc, acc, self.held[0])

        pc = self.pc.load(self.other)
        walked = self._each_of_c(add, pc, height, width)
        k.add_constant(pc, pc, -walked, self.scratch)

    def _clip(self, height: int, width: int) -> None:
        """Let sums below 0 be 0."""
        for r, q in product(range(height), range(width)):
            with self.k.scope():
                clip(Lanes(self.k, 1), [self.acc[r][q]])

    def _each_of_c(self, access: Callable, pc: Register, height: int, width: int) -> int:
        """Load or store a block of C; return how far pc has been moved."""
        k, x = self.k, self.x
        walks = (height - 1) * x.c_row + x.c_column * (width - 1) not in REACH
        columns = x.b_block(width).order
        for r in range(height):
            if r and walks:
                k.add_constant(pc, pc, x.c_row, self.scratch)
            for q in columns:
                access(self.acc[r][q], x.c_column * q + (0 if walks else r * x.c_row), pc)
        return (height - 1) * x.c_row if walks else 0

    def _repeat(self, times: int, body: Callable[[], None]) -> None:
        if times > 1:
            self.k.li(self.scratch, times)
            with self.k.hwloop(self.scratch):
                body()
        elif times:
            body()

    def _add_to_one(self, count: int) -> None:
        """Add the products of `count` steps to a single sum, loading one step ahead."""
        acc, a, b = self.acc[0][0], (self.held[0], self.ring[1]), (self.ring[0], self.ring[2])

        def load(step: int) -> None:
            self.x.a_block(1).load(self.k, a[step], 0, self.pa, self.steps)
            self.x.b_block(1).load(self.k, b[step], 0, self.pb, self.steps)

        def two_steps() -> None:
            for step in (0, 1):
                load(step)
                self._multiply(acc, a[1 - step], b[1 - step], is_first=False)

        load(1)
        times, rest = divmod(count - 1, 2)
        self._repeat(times, two_steps)
        if rest:
            load(0)
        self._multiply(acc, a[1], b[1], is_first=False)
        if rest:
            self._multiply(acc, a[0], b[0], is_first=False)

    def _steps(self, count: int, height: int, width: int) -> None:
        for _ in range(count):
            self._step(height, width, is_first=False)

    def _step(self, height: int, width: int, is_first: bool, is_tail: bool = False) -> None:
        """Add one column of A times one row of B; in the first step, the sums are the products.

        is_tail    of lanes along the depth, the high ones are zero

        The order keeps a load from the instruction that needs it, where there is another.
        """
        a, b = self.x.a_block(height), self.x.b_block(width)
        if is_tail:
            half: Any = {"item": self.x.element.size, "is_unsigned": True}
            a, b = replace(a, **half), replace(b, **half)
        streams_b = self.cols >= self.rows
        held, streamed = (a, b) if streams_b else (b, a)
        ph, ps = (self.pa, self.pb) if streams_b else (self.pb, self.pa)
        place = {e: self.ring[t % len(self.ring)] for t, e in enumerate(streamed.order)}
        ahead, later = streamed.order[: len(self.ring)], streamed.order[len(self.ring) :]
        if len(ahead) == 1:
            streamed.load(self.k, place[ahead[0]], ahead[0], ps, self.steps)
        for e in held.order:
            held.load(self.k, self.held[e], e, ph, self.steps)
        if len(ahead) > 1:
            for e in ahead:
                streamed.load(self.k, place[e], e, ps, self.steps)
        for t, e in enumerate(streamed.order):
            for h in held.order:
                r, q = (h, e) if streams_b else (e, h)
                self._multiply(self.acc[r][q], self.held[h], place[e], is_first, streams_b)
            if t < len(later):
                streamed.load(self.k, place[later[t]], later[t], ps, self.steps)

    def _multiply(
        self, acc: Register, u: Register, v: Register, is_first: bool, a_is_first: bool = True
    ) -> None:
        """Add the product of two registers, of A and B in this order or in the other one."""
        k, x = self.k, self.x
        if x.lanes == "one" and is_first:
            x.element.scalar(k, "fmul")(acc, u, v)
        elif x.lanes == "one":
            x.element.scalar(k, "fmadd")(acc, u, v, acc)
        else:
            a, b = (u, v) if a_is_first else (v, u)
            dot = "_r" if x.lanes == "columns" else ""  # of A, one element for both columns
            x.element.pairs(k, f"{'vfmul' if is_first else 'vfmac'}{dot}")(acc, b, a)
