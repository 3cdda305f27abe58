"""Pooling whose windows are too many elements for code of their own each: loops over a window's
rows and columns, as many of them as lie in x.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from firmware.builder import EQ, LT, NE, Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import REACH, Body
from trainlib.codegen.nest_operands import Operand, Window
from trainlib.elementwise.elementwise import map_nest
from trainlib.pool.windows import Pooling, RegionNest, all_outputs
from trainlib.primitive.element import F32, load, load_post, store_post
from trainlib.primitive.tensor import Address

Pair = tuple[Register, Register]
Emit = Callable[[Lanes, "Inside", list[Lane]], list[Lane]]
"""emit(lanes, inside, values) computes an output's results from its values and its window."""


class Inside:
    """The part of a window that lies in x, in registers.

    at               address of its first element; loops step it
    first            its row and column in x
    rows, columns    how many it has, at least one
    column           bytes from one column to the next; in a register if they are many
    """

    def __init__(self, k: Kernel, p: Pooling, corner: Pair, plane: Register) -> None:
        self.k, self.p, self.corner = k, p, corner
        self.first: Pair = (k.x(), k.x())
        self.rows, self.columns = k.x(2)
        self._clip(self.first[0], self.rows, corner[0], p.h, p.kernel[0])
        self._clip(self.first[1], self.columns, corner[1], p.w, p.kernel[1])
        self.at, self.turn = k.x(2)
        _, _, row, column = p.steps((p.h, p.w))
        self.column: int | Register = column
        if column > REACH:
            register = self.column = k.x()
            k.li(register, column)
        with k.scope():
            t = k.x()
            k.li(t, row)
            k.mul(t, t, self.first[0])
            k.add(self.at, t, plane)
            k.li(t, column)
            k.mul(self.turn, self.first[1], t)
            k.add(self.at, self.at, self.turn)
            k.mul(self.turn, self.columns, t)
            k.li(t, row)
            k.sub(self.turn, t, self.turn)

    def _clip(
        self, first: Register, count: Register, start: Register, size: int, kernel: int
    ) -> None:
        """first = max(0, start); count = min(start + kernel, size) - first."""
        k, each = self.k, Lanes(self.k, 1)
        with k.scope():
            most = k.x()
            each.pulp("max", rd=first, rs1=start, rs2=ZERO)
            k.add_constant(count, start, kernel, count)
            k.li(most, size)
            each.pulp("min", rd=count, rs1=count, rs2=most)
            k.sub(count, count, first)

    @contextmanager
    def elements(self) -> Iterator[None]:
        """Repeat the body, which has no branches and advances `at` by a column, for each element.

        A window that has none is left out.
        """
        k = self.k
        with k.if_(LT, ZERO, self.rows), k.hwloop(self.rows):
            with k.hwloop(self.columns):
                yield
            k.add(self.at, self.at, self.turn)
            k.nop()  # between the ends of two hardware loops

    @contextmanager
    def numbered(self, number: Register) -> Iterator[None]:
        """Repeat any body, which advances `at` by a column and the number by one."""
        k = self.k
        with k.scope():
            rows, columns, more = k.x(3)
            k.li(more, self.p.w)
            k.sub(more, more, self.columns)
            k.mv(rows, self.rows)
            with k.loop(rows):
                k.mv(columns, self.columns)
                with k.loop(columns):
                    yield
                k.add(self.at, self.at, self.turn)
                k.add(number, number, more)

    def load_post(self, value: Register) -> None:
        """Load the element, then advance `at` by a column."""
        load_post(self.k, self.p.image.size, value, self.column, self.at)
        self.p.image.widen(self.k, [value])

    def load_count(self, count: Register) -> None:
        """How many elements of the window lie in the image."""
        k, p = self.k, self.p
        above, below = p.around
        with k.scope():
            start, first = k.x(2)
            k.add_constant(start, self.corner[0], above, first)
            self._clip(first, count, start, above + p.h + below, p.kernel[0])
            k.mul(count, count, self.columns)


@dataclass(frozen=True)
class Wide:
    """A pooling of wide windows, partitioned among cores; planes_first: a plane is one core's."""

    k: Kernel
    team: Team
    p: Pooling
    planes_first: bool = False

    def emit(
        self, image: Address, emit: Emit, sources: list[Address], targets: list[Address]
    ) -> None:
        """Emit the computation of all outputs.

        image      x or dx
        sources    tensors like y that are read; targets that are written, after y numbers
        """
        p = self.p
        nest = RegionNest(p, all_outputs(p), planes_first=self.planes_first)
        corners = [
            Operand(-p.pad[0], nest.arranged(0, 0, p.stride[0], 0)),
            Operand(-p.pad[1], nest.arranged(0, 0, 0, p.stride[1])),
        ]
        around = [*corners, nest.planes(image)]

        def operation(k: Kernel) -> Body:
            def body(v: Lanes, *operands: Window | Lane) -> list[Lane]:
                top, left, plane, *values = operands
                corner = top.pointer, left.pointer  # type: ignore[union-attr]
                return emit(v, Inside(k, p, corner, plane.pointer), values)  # type: ignore

            return body

        map_nest(
            *(self.k, self.team, operation, nest.dims),
            [*around, *map(nest.output, sources)],
            [nest.output(target, F32 if at else None) for at, target in enumerate(targets)],
            windows=range(len(around)),
            is_ordered=self.planes_first,
            loops=True,
            unroll=1,
        )


def scaled(k: Kernel, inside: Inside, share: float | None, value: Register) -> None:
    """value *= share; None: 1 / the window's elements in the image."""
    with k.scope():
        factor = constant(k, 1.0 if share is None else share)
        if share is None:
            count, size = k.x(), k.f()
            inside.load_count(count)
            k.fcvt_s_w(size, count)
            k.fdiv_s(size, factor, size)
            factor = size
        k.fmul_s(value, value, factor)


def average(share: float | None) -> Emit:
    """Each window's sum, times the share."""

    def emit(v: Lanes, inside: Inside, _: list[Lane]) -> list[Lane]:
        k = v.k
        total, value = k.f(2)
        k.fzero(total)
        with inside.elements():
            inside.load_post(value)
            k.nop()  # the delay
            k.fadd_s(total, total, value)
        scaled(k, inside, share, total)
        return [[total]]

    return emit


def shares(share: float | None, *, is_disjoint: bool) -> Emit:
    """Windows give all their elements the share of dy."""

    def emit(v: Lanes, inside: Inside, values: list[Lane]) -> list[Lane]:
        k, [[dy]] = v.k, values
        scaled(k, inside, share, dy)
        old, image = k.f(), inside.p.image
        if is_disjoint:
            image.narrow(k, dy, dy)
        with inside.elements():
            if is_disjoint:
                store_post(k, image.size, dy, inside.column, inside.at)
                k.nop()
                k.nop()
            else:
                k.fload(old, 0, inside.at)
                k.nop()  # the load's delay
                k.fadd_s(old, old, dy)
                k.fstore_post(old, inside.column, inside.at)
        return []

    return emit


def largest(p: Pooling, place: Register | None) -> Emit:
    """Each window's largest element and its number: the first of equals, the last NaN."""

    def emit(v: Lanes, inside: Inside, _: list[Lane]) -> list[Lane]:
        k = v.k
        most, value = k.f(2)
        best, number, is_less = k.x(3)
        k.li(number, p.w)
        k.mul(number, number, inside.first[0])
        k.add(number, number, inside.first[1])
        if place is not None:
            k.add(number, number, place)
            k.add_constant(number, number, p.pad[0] * p.w, is_less)
        load(k, p.image.size, most, 0, inside.at)
        p.image.widen(k, [most])
        k.mv(best, number)
        with inside.numbered(number):
            inside.load_post(value)
            k.fle_s(is_less, value, most)
            with k.if_(EQ, is_less, ZERO):
                k.feq_s(is_less, value, value)
                with k.scope():
                    was_number = k.x()
                    k.feq_s(was_number, most, most)
                    k.sub(is_less, is_less, was_number)  # 1: a number after one that is none
                k.addi(is_less, is_less, -1)
                with k.if_(NE, is_less, ZERO):
                    k.fsgnj_s(most, value, value)
                    k.mv(best, number)
            k.addi(number, number, 1)
        return [[most], [best]]

    return emit
