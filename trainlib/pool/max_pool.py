"""Max pooling, forward and backward.

Forward saves the index of what it took, in its h x w plane as torch does: the first of equals, the
last NaN.
"""

from collections.abc import Callable
from functools import partial

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Window
from trainlib.elementwise.elementwise import Operation, map_nest
from trainlib.elementwise.fill import fill_f32
from trainlib.pool.large_windows import Wide, largest
from trainlib.pool.windows import Places, Pooling, Region, RegionNest, all_outputs, regions
from trainlib.primitive.element import F32, Element, store
from trainlib.primitive.tensor import Address

SCALE = 1 << 12  # of reciprocals of widths
NUMBER = 4  # bits of an element's number in a chunk
CHUNK = 1 << NUMBER  # elements of which one word says which were larger, and which no numbers


class _Largest:
    """Emits the largest element of a region's windows, and its number in the plane.

    For each element, one bit says if it is larger than all before, another one if it is a number;
    what counts is the highest bit, of those that are no numbers if there are any. Halves are
    compared as they are.
    """

    def __init__(self, k: Kernel, region: Region, w: int, places: Places, element: Element) -> None:
        self.k, self.places, self.element = k, places, element
        rows, self.width = len(region.rows.part), len(region.columns.part)
        self.more = w - self.width
        self.is_flat = rows == 1 or not self.more
        self.nan = k.x()
        k.li(self.nan, element.pattern(float("nan")))
        chunks = [(at, len(places[at : at + CHUNK])) for at in range(0, len(places), CHUNK)]
        self.is_single = len(chunks) == 1
        self.flips = {(at == 0, n): k.x() for at, n in chunks}
        for (is_first, n), register in self.flips.items():
            k.li(register, ((1 << n) - 1 << CHUNK) + is_first)
        self.halvings = self.width.bit_length() - 1 if self.width & (self.width - 1) == 0 else None
        if not self.is_flat:
            self.rest = k.x()
            k.li(self.rest, self.more)
            if self.halvings is None:
                self.inverse = k.x()
                k.li(self.inverse, -(-SCALE // self.width))

    def __call__(self, v: Lanes, *sources: Window) -> list[Lane]:
        *windows, counter = sources
        most, key, x = v.f(), v.x(), v.f()
        for first in range(0, len(self.places), CHUNK):
            self._chunk(v, windows, first, most, key, x)
        is_nan = v.x()
        v.srli(is_nan, key, NUMBER if self.is_single else 8)
        v.andi(key, key, CHUNK - 1 if self.is_single else 255)
        v.sub(is_nan, ZERO, is_nan)
        v.and_(is_nan, is_nan, self.nan)
        words = v.words(most)
        v.or_(words, words, is_nan)
        v.floats(most, words)
        if not self.is_flat:
            row = is_nan
            if self.halvings is None:
                v.mul(row, key, self.inverse)
                v.srli(row, row, SCALE.bit_length() - 1)
            else:
                v.srli(row, key, self.halvings)
            v.pulp("mac", rd=key, rs1=row, rs2=self.rest)
        counter.count(is_nan)
        v.add(key, key, is_nan)
        return [most, key]

    def _chunk(
        self, v: Lanes, windows: list[Window], first: int, most: Lane, key: Lane, x: Lane
    ) -> None:
        """Go through up to CHUNK elements; key = 256 if one is no number, plus its number; of a
        chunk alone, CHUNK instead of 256.
        """
        with v.k.scope():
            bits, t = v.x(), v.x()
            chunk = self.places[first : first + CHUNK]
            if first:
                v.li(bits, 0)
            for number, (window, offset) in enumerate(chunk):
                if not first and not number:
                    windows[window].load(most, offset)
                    self._of(v, "eq")(bits, most, most)
                    v.slli(bits, bits, CHUNK)  # of pairs, the other half's answer goes
                    continue
                windows[window].load(x, offset)
                self._of(v, "lt")(t, most, x)
                v.pulp("insert", rd=bits, rs1=t, Is3=0, Is2=number)
                self._of(v, "eq")(t, x, x)
                v.pulp("insert", rd=bits, rs1=t, Is3=0, Is2=CHUNK + number)
                self._of(v, "max")(most, most, x)
            v.xor(bits, bits, self.flips[first == 0, len(chunk)])
            self._find(v, bits, t, key, first)

    def _of(self, v: Lanes, operation: str) -> Callable[..., None]:
        """An instruction; on halves, of pairs: of scalars of bfloat16, the RTL has it wrong."""
        start = "vf" if self.element.is_half else "f"
        return getattr(v, f"{start}{operation}_{self.element.letter}")

    def _find(self, v: Lanes, bits: Lane, t: Lane, key: Lane, first: int) -> None:
        """Let key be the highest bit; the first chunk's lowest is set."""
        if self.is_single:
            v.pulp("fl1", rd=key, rs1=bits)
            return
        if first:
            any_bit = v.x()
            v.sltu(any_bit, ZERO, bits)
        v.pulp("fl1", rd=bits, rs1=bits)
        v.srli(t, bits, NUMBER)
        v.slli(t, t, 8)
        v.andi(bits, bits, CHUNK - 1)
        if not first:
            v.or_(key, bits, t)
            return
        v.add(bits, bits, t)
        v.addi(bits, bits, first)
        v.mul(bits, bits, any_bit)
        v.pulp("max", rd=key, rs1=key, rs2=bits)


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
    if p.is_wide:
        Wide(k, team, p).emit(x, largest(p, place), [], [y, index])
        return
    for region in regions(p):
        nest = RegionNest(p, region, unroll)
        windows, places = nest.windows(x, p.image.moved)
        operation = partial(_Largest, region=region, w=p.w, places=places, element=p.image)
        map_nest(
            *(k, team, operation, nest.dims, [*windows, nest.indices(place)]),
            [nest.output(y, p.value.moved), nest.output(index, F32)],
            windows=range(len(windows) + 1),
            unroll=unroll,
        )


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
