"""Pooling whose windows are too many elements for code of their own each: loops over a window's
rows and columns, as many of them as lie in x.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import nan

from firmware.builder import EQ, GE, LT, Kernel, Register
from firmware.hwloop import SHORTEST
from firmware.lanes import Lane, Lanes, constant, load_constant
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import REACH, Body
from trainlib.codegen.nest_operands import Operand, Window
from trainlib.elementwise.elementwise import map_nest
from trainlib.pool.windows import Pooling, RegionNest, all_outputs
from trainlib.primitive.element import F32, load, load_post, store_post
from trainlib.primitive.tensor import Address

Pair = tuple[Register, Register]
Count = int | Register
BESIDE, STORES = 4, 8  # elements of a row that are loaded, stored, side by side
Emit = Callable[[Lanes, "Inside", list[Lane]], list[Lane]]
"""emit(lanes, inside, values) computes an output's results from its values and its window."""


class Part:
    """Elements of a window, row by row.

    at               address of the first; loops step it
    rows, columns    how many it has, at least one; rows in a register may be none
    column           bytes from one column to the next; in a register if they are many
    turn             register: bytes from after a row to the next one
    """

    def __init__(
        self, k: Kernel, p: Pooling, at: Register, rows: Count, columns: Count, turn: Register
    ) -> None:
        self.k, self.p, self.at, self.turn = k, p, at, turn
        self.rows, self.columns = rows, columns
        *_, column = p.steps((p.h, p.w))
        self.column: Count = column
        if column > REACH:
            register = self.column = k.x()
            k.li(register, column)

    @property
    def _has_rows(self) -> AbstractContextManager[None]:
        rows = self.rows
        return self.k.if_(LT, ZERO, rows) if isinstance(rows, Register) else nullcontext()

    @contextmanager
    def elements(self, after_row: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Repeat the body, which has no branches and advances `at` by a column, for each element.

        A window that has none is left out.

        after_row    emits what follows each row, without branches, too
        """
        k = self.k
        with self._has_rows, k.hwloop(self.rows):
            with k.hwloop(self.columns):
                yield
            after_row()
            k.add(self.at, self.at, self.turn)
            k.nop()  # between the ends of two hardware loops

    def side_by_side(
        self,
        emit: Callable[[int], None],
        most: int,
        after_row: Callable[[], None] = lambda: None,
    ) -> None:
        """Do the same with emit(count), for up to so many elements of a row at a time: for more
        than one if rows have no borders. emit(1) is three instructions or more.
        """
        k, columns = self.k, self.p.kernel[1]
        if self.p.pad[1] or columns < SHORTEST:
            with self.elements(after_row):
                emit(1)
            return
        rounds, rest = divmod(columns, most)
        with self._has_rows, k.hwloop(self.rows):
            if rounds:
                with k.hwloop(rounds) if rounds > 1 else nullcontext():
                    emit(most)
            if rest:
                emit(rest)
            after_row()
            k.add(self.at, self.at, self.turn)
            k.nop()  # between the ends of two hardware loops

    def load_post(self, value: Register) -> None:
        """Load the element, then advance `at` by a column."""
        load_post(self.k, self.p.image.size, value, self.column, self.at)
        self.p.image.widen(self.k, [value])


class Inside(Part):
    """The part of a window that lies in x, all in registers; first: its row and column in x."""

    def __init__(self, k: Kernel, p: Pooling, corner: Pair, plane: Register) -> None:
        self.corner = corner
        self.first: Pair = (k.x(), k.x())
        rows, columns, at, turn = k.x(4)
        super().__init__(k, p, at, rows, columns, turn)
        self._clip(self.first[0], rows, corner[0], p.h, p.kernel[0])
        self._clip(self.first[1], columns, corner[1], p.w, p.kernel[1])
        _, _, row, column = p.steps((p.h, p.w))
        with k.scope():
            t = k.x()
            k.li(t, row)
            k.mul(t, t, self.first[0])
            k.add(at, t, plane)
            k.li(t, column)
            k.mul(turn, self.first[1], t)
            k.add(at, at, turn)
            k.mul(turn, columns, t)
            k.li(t, row)
            k.sub(turn, t, turn)

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
        totals, values = k.f(1 if inside.p.pad[1] else 2), k.f(BESIDE)
        for total in totals:
            k.fzero(total)

        def add(count: int) -> None:
            for value in values[:count]:
                inside.load_post(value)
            if count == 1:
                k.nop()  # the delay
            for number, value in enumerate(values[:count]):
                total = totals[number % len(totals)]
                k.fadd_s(total, total, value)

        inside.side_by_side(add, BESIDE)
        total, *others = totals
        for other in others:
            k.fadd_s(total, total, other)
        scaled(k, inside, share, total)
        return [[total]]

    return emit


def shares(share: float | None, *, is_disjoint: bool) -> Emit:
    """Windows give all their elements the share of dy."""

    def emit(v: Lanes, inside: Inside, values: list[Lane]) -> list[Lane]:
        k, [[dy]] = v.k, values
        scaled(k, inside, share, dy)
        image, column = inside.p.image, inside.column
        if is_disjoint:
            image.narrow(k, dy, dy)

        def store(count: int) -> None:
            for _ in range(count):
                store_post(k, image.size, dy, column, inside.at)
            for _ in range(SHORTEST - count):
                k.nop()

        if is_disjoint:
            inside.side_by_side(store, STORES)
            return []
        step = 0 if isinstance(column, Register) else column
        old = k.f(BESIDE if 0 < (BESIDE - 1) * step <= REACH else 1)

        def add(count: int) -> None:
            for number, register in enumerate(old[:count]):
                k.fload(register, number * step, inside.at)
            if count == 1:
                k.nop()  # the load's delay
            for register in old[:count]:
                k.fadd_s(register, register, dy)
            for register in old[:count]:
                k.fstore_post(register, column, inside.at)

        inside.side_by_side(add, len(old))
        return []

    return emit


def last_nan(part: Part, number: Register) -> Register:
    """The number in its plane of the last element that is none, in a new register; -1: all are.

    number    of the first element; stepped
    """
    k, p = part.k, part.p
    last, to_next_row, is_nan = k.x(3)
    value = k.f()
    k.li(last, -1)
    k.li(to_next_row, p.w)
    if isinstance(part.columns, Register):
        k.sub(to_next_row, to_next_row, part.columns)
    else:
        k.addi(to_next_row, to_next_row, -part.columns)
    with part.elements(lambda: k.add(number, number, to_next_row)), k.scope():
        more = k.x()
        part.load_post(value)
        k.sub(more, number, last)
        k.feq_s(is_nan, value, value)
        k.xori(is_nan, is_nan, 1)
        Lanes(k, 1).pulp("mac", rd=last, rs1=is_nan, rs2=more)
        k.addi(number, number, 1)
    return last


def largest(p: Pooling, place: Register | None) -> Emit:
    """Each window's largest element and its number: the first of equals, the last NaN.

    The largest, and the last row that has one larger than all before; its column in that row. Where
    the sum of all elements is NaN, one may be: then those are looked for.
    """

    def emit(v: Lanes, inside: Inside, _: list[Lane]) -> list[Lane]:
        k = v.k
        most, total = k.f(2)
        number, best, start = k.x(3)
        k.li(number, p.w)
        k.mul(number, number, inside.first[0])
        k.add(number, number, inside.first[1])
        if place is not None:
            k.add(number, number, place)
            k.add_constant(number, number, p.pad[0] * p.w, best)
        k.mv(start, inside.at)
        _find_row(inside, most, total, best)
        _find_column(inside, most, number, best, start)
        k.feq_s(total_is_number := k.x(), total, total)
        with k.if_(EQ, total_is_number, ZERO), k.scope():
            k.mv(inside.at, start)
            last = last_nan(inside, number)
            with k.if_(GE, last, ZERO):
                k.mv(best, last)
                load_constant(k, most, nan)
        return [[most], [best]]

    return emit


def _find_row(inside: Inside, most: Register, total: Register, best: Register) -> None:
    """The largest element, the sum of all, and in which row of the window the former is first."""
    k = inside.k
    with k.scope():
        before, values = k.f(), k.f(BESIDE)
        row, is_less = k.x(2)
        load(k, inside.p.image.size, most, 0, inside.at)
        inside.p.image.widen(k, [most])
        k.fsgnj_s(before, most, most)
        k.fzero(total)
        k.li(row, 0)
        k.li(best, 0)

        def after_row() -> None:
            k.flt_s(is_less, before, most)
            k.fsgnj_s(before, most, most)
            k.mul(is_less, is_less, row)
            k.addi(row, row, 1)
            Lanes(k, 1).pulp("max", rd=best, rs1=best, rs2=is_less)

        def find(count: int) -> None:
            for value in values[:count]:
                inside.load_post(value)
            for value in values[:count]:
                k.fmax_s(most, most, value)
                k.fadd_s(total, total, value)

        inside.side_by_side(find, BESIDE, after_row)


def _find_column(
    inside: Inside, most: Register, number: Register, best: Register, start: Register
) -> None:
    """best, a row of the window, becomes the number in its plane of the row's first that is most.

    number, start    that of the window's first element, and its address
    """
    k, p = inside.k, inside.p
    each = Lanes(k, 1)
    _, _, row, _ = p.steps((p.h, p.w))
    with k.scope():
        left, found, t = k.x(3)
        value = k.f()
        k.li(t, row)
        k.mul(t, t, best)
        k.add(inside.at, start, t)
        k.li(t, p.w)
        k.mul(best, best, t)
        k.add(best, best, number)
        k.addi(left, inside.columns, 1)
        k.add(best, best, left)
        k.li(found, 0)
        with k.hwloop(inside.columns):
            inside.load_post(value)
            k.addi(left, left, -1)
            k.feq_s(t, value, most)
            k.mul(t, t, left)
            each.pulp("max", rd=found, rs1=found, rs2=t)
        k.sub(best, best, found)
        k.addi(best, best, -1)
