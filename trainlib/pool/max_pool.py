"""Max pooling, forward and backward.

Forward saves the index of what it took, in its h x w plane as torch does: the first of equals, the
last NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import nan

from firmware.builder import EQ, GE, Kernel, Register
from firmware.lanes import Lane, Lanes
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Operand, Window
from trainlib.elementwise.elementwise import Operation, emit_nest, fitting_pointers, map_nest
from trainlib.elementwise.fill import fill_f32
from trainlib.pool.large_windows import Part, Wide, largest, last_nan
from trainlib.pool.windows import Places, Pooling, Region, RegionNest, all_outputs, regions
from trainlib.primitive.element import F32, Element, store
from trainlib.primitive.tensor import Address

SCALE = 1 << 12  # of reciprocals of widths
FEW = 4  # elements of a window of which several are found side by side; of more, none is waited for


class _Largest:
    """Emits the largest element of a region's windows, and its number in the plane.

    Of each element but the first, one bit says if it is larger than all before; what counts is the
    highest. Halves are compared as they are.

    sums    a register for each lane, to which all elements are added: NaN where one is no number,
            since what is found is wrong there; infinities may make it NaN, too
    """

    def __init__(
        self, k: Kernel, region: Region, w: int, places: Places, element: Element, sums: Lane
    ) -> None:
        self.places, self.element, self.sums = places, element, sums
        rows, width = len(region.rows.part), len(region.columns.part)
        self.is_square = rows == width == 2
        self.is_flat = rows == 1 or w == width
        self.halvings = width.bit_length() - 1 if width & (width - 1) == 0 else None
        if self.is_square or not self.is_flat:
            self.more = k.x()
            k.li(self.more, w if self.is_square else w - width)
        if not self.is_square and not self.is_flat and self.halvings is None:
            self.inverse = k.x()
            k.li(self.inverse, -(-SCALE // width))

    def __call__(self, v: Lanes, *sources: Window) -> list[Lane]:
        *windows, counter = sources
        most, number = v.f(), v.x()
        if self.is_square:
            self._of_square(v, windows, most, number)
        else:
            self._of_bits(v, windows, most, number)
            self._step_over_rows(v, number)
        counter.add_count(number)
        return [most, number]

    def _load(self, windows: list[Window], place: int, x: Lane) -> None:
        window, offset = self.places[place]
        windows[window].load(x, offset, is_unsigned=True)

    def _add(self, v: Lanes, x: Lane) -> None:
        sums = self.sums[: v.width]
        _of(v, self.element, "add")(sums, sums, x)

    def _of_square(self, v: Lanes, windows: list[Window], most: Lane, number: Lane) -> None:
        """Compare the elements of a row, then the larger ones of two rows."""
        less, larger = (_of(v, self.element, name) for name in ("lt", "max"))
        with v.k.scope():
            below, x, in_row, is_less = v.f(), v.f(), v.x(), v.x()
            for row, (of_row, is_second) in enumerate(((most, number), (below, in_row))):
                for place, value in enumerate((of_row, x)):
                    self._load(windows, 2 * row + place, value)
                    self._add(v, value)
                less(is_second, of_row, x)
                larger(of_row, of_row, x)
            less(is_less, most, below)
            v.sub(in_row, in_row, number)
            v.add(in_row, in_row, self.more)
            larger(most, most, below)
            v.pulp("mac", rd=number, rs1=is_less, rs2=in_row)

    def _of_bits(self, v: Lanes, windows: list[Window], most: Lane, number: Lane) -> None:
        """Compare each element with the largest one before it, while the next one is loaded."""
        less, larger = (_of(v, self.element, name) for name in ("lt", "max"))
        last = len(self.places) - 1
        with v.k.scope():
            bits, is_less, x, after = v.x(), v.x(), v.f(), v.f()
            self._load(windows, 0, most)
            if last:
                self._load(windows, 1, x)
            v.li(bits, 1)
            self._add(v, most)
            for place in range(1, last + 1):
                if place < last:
                    self._load(windows, place + 1, after)
                less(is_less, most, x)
                self._add(v, x)
                v.pulp("insert", rd=bits, rs1=is_less, Is3=0, Is2=place)
                larger(most, most, x)
                x, after = after, x
            v.pulp("fl1", rd=number, rs1=bits)

    def _step_over_rows(self, v: Lanes, number: Lane) -> None:
        """Make a number in the plane of one in the window."""
        if self.is_flat:
            return
        with v.k.scope():
            row = v.x()
            if self.halvings is None:
                v.mul(row, number, self.inverse)
                v.srli(row, row, SCALE.bit_length() - 1)
            else:
                v.srli(row, number, self.halvings)
            v.pulp("mac", rd=number, rs1=row, rs2=self.more)


def _of(v: Lanes, element: Element, operation: str) -> Callable[..., None]:
    """An instruction; on halves, of pairs: of scalars of bfloat16, the RTL has it wrong."""
    start = "vf" if element.is_half else "f"
    return getattr(v, f"{start}{operation}_{element.letter}")


@dataclass(frozen=True)
class _RegionOfLargest:
    """A region of max pooling, forward: what is found, and corrected, for the same outputs each."""

    p: Pooling
    region: Region
    place: Register | None
    x: Address
    y: Address
    index: Address
    unroll: int

    @property
    def _nest(self) -> RegionNest:
        return RegionNest(self.p, self.region, self.unroll)

    def _operands(self) -> tuple[list[Operand], list[Operand], Places]:
        """Windows and the counter of their first elements; results; where elements are."""
        nest, p = self._nest, self.p
        windows, places = nest.windows(self.x, p.image.moved)
        results = [nest.output(self.y, p.value.moved), nest.output(self.index, F32)]
        return [*windows, nest.indices(self.place)], results, places

    def find(self, k: Kernel, team: Team, width: int, borrows: bool, sums: Lane) -> None:
        """Emit the largest elements, their numbers, and the sums of all."""
        sources, targets, places = self._operands()

        def operation(k: Kernel) -> Body:
            return _Largest(k, self.region, self.p.w, places, self.p.image, sums)

        emit_nest(
            *(k, team, operation, self._nest.dims, sources, targets, width, borrows),
            windows=range(len(sources)),
        )

    def correct(self, k: Kernel, team: Team, width: int, borrows: bool) -> None:
        """Emit the last NaN of windows that have one."""
        sources, targets, places = self._operands()
        operands = [*sources, *targets]
        operation = partial(self._correction, first=places[0][1])
        emit_nest(
            *(k, team, operation, self._nest.dims, operands, [], width, borrows),
            windows=range(len(operands)),
            loops=True,
        )

    def _correction(self, k: Kernel, first: int) -> Body:
        p, rows, columns = self.p, len(self.region.rows.part), len(self.region.columns.part)
        _, _, row, column = p.steps((p.h, p.w))

        def body(v: Lanes, *around: Window) -> list[Lane]:
            x, (counter, y, index) = around[0], around[-3:]
            for lane in range(v.width):
                with k.scope():
                    at, turn, number, value = k.x(4)
                    k.add_constant(at, x.pointer, first + lane * x.step, turn)
                    k.li(turn, row - columns * column)
                    k.addi(number, counter.pointer, lane * counter.step)
                    last = last_nan(Part(k, p, at, rows, columns, turn), number)
                    k.li(value, p.image.pattern(nan))
                    with k.if_(GE, last, ZERO):
                        y.store([value], lane * y.step)
                        index.store([last], lane * index.step)
            return []

        return body


def maxpool2d_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    index: Address,
    p: Pooling,
    *,
    place: Register | None = None,
    unroll: int = UNROLL,
) -> None:
    """y = the largest element of each window, index = its number in its plane.

    place    the number that the first row's first element would have, in front of it the border's;
             None: x has all of the image
    """
    if p.is_wide or not p.is_small:  # each element has a bit of a word
        Wide(k, team, p).emit(x, largest(p, place), [], [y, index])
        return
    if p.kernel[0] * p.kernel[1] > FEW:
        unroll = 1
    at = x, y, index
    all_regions = [_RegionOfLargest(p, region, place, *at, unroll) for region in regions(p)]

    def emit(k: Kernel, team: Team, width: int, borrows: bool) -> None:
        with k.scope():
            sums, total = k.f(width), k.x()
            for register in sums:
                k.fzero(register)
            for region in all_regions:
                region.find(k, team, width, borrows, sums)
            v = Lanes(k, 1)
            for other in sums[1:]:
                _of(v, p.image, "add")(sums[0], sums[0], other)
            _of(v, p.image, "eq")(total, sums[0], sums[0])
            k.andi(total, total, 1)  # of pairs, the other half's answer goes
            k.free(*sums)
            with k.if_(EQ, total, ZERO):
                for region in all_regions:
                    region.correct(k, team, width, borrows)

    fitting_pointers(k, team, emit, unroll)


def maxpool2d_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    index: Address,
    dx: Address,
    p: Pooling,
    *,
    place: Register | None = None,
    nowhere: int = 0,
    unroll: int = UNROLL,
) -> None:
    """dx = the sum of dy over the windows that took this element.

    place      the number of dx's first element in its plane, if it is a part of that
    nowhere    address of a word of each core for what windows give to others
    """
    fill_f32(k, team, dx, p.b * p.c * p.h * p.w, element=p.image)
    team.barrier()
    nest = RegionNest(p, all_outputs(p), planes_first=not p.is_disjoint)
    is_moved = p.is_disjoint and p.image == p.value
    given = p.value.moved if is_moved else p.value
    sources = [nest.output(dy, given), nest.output(index, F32), nest.planes(dx)]
    map_nest(
        *(k, team, _given_back(p, team, place, nowhere, is_moved), nest.dims, sources, []),
        windows=(2,),
        is_ordered=not p.is_disjoint,
        unroll=unroll,
    )


def _given_back(
    p: Pooling, team: Team, place: Register | None, nowhere: int, is_moved: bool
) -> Operation:
    """Windows give dy to the element that they took; is_moved: as it is."""
    image = p.image.moved if is_moved else p.image

    def operation(k: Kernel) -> Body:
        element = k.x()
        k.li(element, p.image.size * (1 if p.layout == "chw" else p.c))
        if place is not None:
            count, dustbin = k.x(2)
            k.li(count, p.h * p.w)
            with k.scope():
                words = k.x()
                k.li(words, nowhere)
                team.core(dustbin)
                k.slli(dustbin, dustbin, 2)
                k.add(dustbin, dustbin, words)
            k.sw(ZERO, 0, dustbin)  # what is added to is read

        def body(v: Lanes, dy: Lane, index: Lane, plane: Window) -> list[Lane]:
            words, base = v.words(index), v.x()
            if place is not None:
                v.sub(words, words, place)
                is_here = v.x()
                v.sltu(is_here, words, count)
            v.mul(words, words, element)
            plane.count(base)
            v.add(words, words, base)
            if place is not None:
                v.sub(words, words, dustbin)
                v.sub(is_here, ZERO, is_here)
                v.and_(words, words, is_here)
                v.add(words, words, dustbin)
            old = v.k.f()
            for value, target in zip(dy, words, strict=True):
                if not p.is_disjoint:
                    v.k.fload(old, 0, target)
                    v.k.fadd_s(value, value, old)
                store(v.k, image.size, image.narrow(v.k, value, value), 0, target)
            return []

        return body

    return operation
