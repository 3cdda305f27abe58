"""Products of few sums: the inner dimension is partitioned among groups of cores, too.

    part p of the sums = A[:, steps of p] B[steps of p, :]    by a group of cores, into L1
    barrier
    C = what it starts with + part 0 + part 1 + ...           by all cores

So each core has a block of many sums, for which it loads less, where cores of a grid would have
few.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from firmware.builder import Kernel, KernelError, Register
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from firmware.team import Group
from trainlib.codegen.loop_nest import REACH, UNROLL, Body
from trainlib.codegen.nest_operands import Operand, Window
from trainlib.codegen.saved_values import kept
from trainlib.codegen.work_split import Partition
from trainlib.elementwise.activations import clip
from trainlib.elementwise.elementwise import fits, map_nest
from trainlib.gemm.operands import Operands
from trainlib.gemm.register_block_cost import float_registers, step_registers
from trainlib.primitive.tensor import WORD, Address

MOST = 8  # parts
LEAST = 8  # steps of a part
POINTERS = 3  # addresses of a part's matrices; as many registers find its core's place in a grid
FEW = 64  # sums of a product that is tried: parts of one are in reach of a load
NEW = 250  # cycles of the further code when it is new: it has to save more
MEET = 100  # cycles of the barrier, and around the parts and their additions, nearly
UNLIKE = 150  # cycles where parts differ by a step: cores do not fetch the same code

Choose = Callable[[Operands, int], tuple[int, Any]]
"""Cycles, nearly, and point of a product on so many cores."""

Product = Callable[[Kernel, Team, Operands, Any], None]
"""Emits a product at a point."""


def scratch_of(n: Any, m: Any, depth: Any) -> Any:
    """Bytes of L1 that parts of C[n, m] may take; 0 if there are none. Of one product, or of many:
    arrays.
    """
    is_tried = (n * m <= FEW) & (depth >= 2 * LEAST)
    return MOST * WORD * n * m * is_tried


@dataclass(frozen=True)
class DepthSplit:
    """A product in parts, of which each group of cores computes one.

    sums     where they lie, in L1, one after the other
    point    of a part
    cycles   of all of it, nearly
    """

    x: Operands
    n: int
    m: int
    parts: int
    sums: Address
    point: Any
    cycles: int

    @property
    def size(self) -> int:
        """Bytes of a part."""
        return WORD * self.n * self.m

    @property
    def added(self) -> int:
        """Instructions of the code that adds up the parts, nearly."""
        return UNROLL * (2 * self.parts + 2)

    @property
    def _saved(self) -> list[Register]:
        """Addresses in registers, which a part does not need once it has its own."""
        x = self.x
        given = dict.fromkeys([x.a, x.b, x.c, x.bias, self.sums])
        return [address for address in given if isinstance(address, Register)]

    def _inner(self, k: Kernel) -> int:
        """X registers of a part's inner loop, besides two addresses."""
        rows, cols = self.point.rows, self.point.cols
        steps = step_registers(self.x, self.n, self.m, rows, cols)
        return steps + (2 if k.has_float_registers else int(float_registers(rows, cols)))

    def fits(self, k: Kernel, team: Team, product: Product) -> bool:
        """Are there registers enough, once those of given addresses are on the stack?"""
        return fits(k, team, lambda k, team: self.emit(k, team, product))

    def emit(self, k: Kernel, team: Team, product: Product) -> None:
        """Emit all of it, with what emits the product of a part."""
        group = Group(team, team.cores // self.parts)
        for own in self._operands(k, group):
            product(k, group, own, self.point)
        team.barrier()
        self._add_up(k, team)

    def _operands(self, k: Kernel, group: Group) -> Iterator[Operands]:
        """Emit the loop's body for each number of steps that parts have."""
        x = self.x
        with k.scope():
            a, b, c, number, t = k.x(5)
            group.number(number)
            k.li(t, self.size)
            k.mul(c, number, t)
            k.set(t, self.sums)
            k.add(c, c, t)
            partition = Partition(k, x.depth, self.parts, number, t)
            for part in partition.parts_of_cores():
                partition.load_start(a, part, x.a, x.a_column)
                partition.load_start(b, part, x.b, x.b_row)
                with k.scope():
                    k.free(number, t)
                    with kept(k, [], 0, POINTERS + max(POINTERS, self._inner(k)), self._saved):
                        yield replace(part_of(x, self.m, part.size), a=a, b=b, c=c)

    def _add_up(self, k: Kernel, team: Team) -> None:
        """C = what it starts with and all parts."""
        x, steps = self.x, (WORD * self.m, WORD)
        result = Operand(x.c, (x.c_row, x.c_column))
        sources = [Operand(self.sums, steps)]
        if x.bias is not None:
            sources.append(Operand(x.bias, (x.bias_row, x.bias_column)))
        elif x.accumulates:
            sources.append(result)

        def operation(_: Kernel) -> Body:
            def body(v: Lanes, parts: Window, *start: Any) -> list[Lane]:
                total, others = v.f(), [v.f() for _ in range(2)]
                parts.load(total)
                parts.load(others[1], self.size)
                for number in range(1, self.parts):
                    if number + 1 < self.parts:
                        parts.load(others[(number + 1) % 2], (number + 1) * self.size)
                    v.fadd_s(total, total, others[number % 2])
                if start:
                    v.fadd_s(total, total, start[0])
                if x.clips:
                    clip(v, total)
                return [total]

            return body

        map_nest(k, team, operation, (self.n, self.m), sources, [result], windows=(0,))


def part_of(x: Operands, m: int, depth: int) -> Operands:
    """A part of a product, as a product: its sums begin with nothing, row after row."""
    alone: Any = {"bias": None, "accumulates": False, "clips": False}
    return replace(x, depth=depth, c_row=WORD * m, bias_row=0, bias_column=0, **alone)


def depth_split_of(
    x: Operands, n: int, m: int, cores: int, choose: Choose, limit: int, sums: Address
) -> DepthSplit | None:
    """The best in parts; None: none should take clearly fewer cycles than the limit."""
    choose, best, limit = cache(choose), None, limit - NEW
    for parts in (2, 4, MOST):
        inner, depth = cores // parts, -(-x.depth // parts)
        if cores % parts or inner & (inner - 1) or x.depth // parts < LEAST:
            continue
        if (parts - 1) * WORD * n * m + WORD * UNROLL > REACH:
            continue
        try:
            cycles, point = choose(part_of(x, m, depth), inner)
        except KernelError:
            continue
        cycles += MEET + UNLIKE * (x.depth % parts > 0) + -(-n * m // cores) * (2 * parts + 4)
        if cycles < limit:
            best, limit = DepthSplit(x, n, m, parts, sums, point, cycles), cycles
    return best
