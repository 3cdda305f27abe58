"""Max and average pooling in two dimensions, forward and backward, with stride and padding.

Outputs whose windows lie in x alike, whole or cut by the same borders, are a region: its code is
that of one window, so that borders cost no test. Max pooling saves the index of what it took, in
its h x w plane as torch does: the first of equals, the last NaN.

Source of the meaning: torch's max_pool2d and avg_pool2d.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.fill import fill_f32
from trainlib.kernels import (
    WORD,
    Address,
)
from trainlib.maps import map_nest
from trainlib.nest import REACH, UNROLL, Body, Operand, Window

Layout = Literal["chw", "hwc"]
Pair = tuple[int, int]
SCALE = 1 << 12  # of reciprocals of widths
SIDE_BY_SIDE = 4  # elements of a window that are loaded before the first is stored
LARGEST = 128  # elements of a window: each is code of its own


@dataclass(frozen=True)
class Pooling:
    """b images of c channels of h x w places, windows of kernel, step stride, border pad.

    windows    outputs in each direction, where x is a part of an image; None: all there are
    around     rows of the image above x and below
    """

    b: int
    c: int
    h: int
    w: int
    kernel: Pair
    stride: Pair
    pad: Pair = (0, 0)
    layout: Layout = "chw"
    windows: Pair | None = None
    around: Pair = (0, 0)

    @property
    def out(self) -> Pair:
        """Height and width of the output."""
        if self.windows is not None:
            return self.windows
        (kh, kw), (sh, sw), (ph, pw) = self.kernel, self.stride, self.pad
        return (self.h + 2 * ph - kh) // sh + 1, (self.w + 2 * pw - kw) // sw + 1

    @property
    def is_disjoint(self) -> bool:
        """Do no two windows share an element?"""
        return self.stride[0] >= self.kernel[0] and self.stride[1] >= self.kernel[1]

    @property
    def is_cover(self) -> bool:
        """Do windows share no element, and have all together?"""
        sides = zip(self.out, self.kernel, (self.h, self.w), strict=True)
        is_whole = all(count * size == all_of for count, size, all_of in sides)
        return is_whole and self.stride == self.kernel and self.pad == (0, 0)

    def shape(self, height: int, width: int) -> tuple[int, ...]:
        """Of x or y."""
        if self.layout == "chw":
            return self.b, self.c, height, width
        return self.b, height, width, self.c

    def steps(self, size: Pair, by: Pair = (1, 1)) -> tuple[int, int, int, int]:
        """Bytes between images, channels, rows, columns of a tensor, `by` places a step."""
        element = 1 if self.layout == "chw" else self.c
        plane = size[0] * size[1] if self.layout == "chw" else 1
        row, column = size[1] * element * by[0], element * by[1]
        return WORD * self.c * size[0] * size[1], WORD * plane, WORD * row, WORD * column


@dataclass(frozen=True)
class Region:
    """Outputs first .. first + count - 1, in each direction; of their windows, rows and columns.

    size    elements of a window that are in the image
    """

    first: Pair
    count: Pair
    rows: range
    columns: range
    size: int = 0

    @property
    def taps(self) -> list[Pair]:
        """Rows and columns of the window's elements that are in x."""
        return [(i, j) for i in self.rows for j in self.columns]


@dataclass(frozen=True)
class _Run:
    """Outputs in one direction with the same part of the window in x, and `inside` the image."""

    first: int
    count: int
    part: range
    inside: int


def _runs(
    size: int, kernel: int, stride: int, pad: int, out: int, above: int = 0, below: int = 0
) -> list[_Run]:
    """All outputs; above, below: what the image has more than x."""
    runs: list[_Run] = []
    for at in range(out):
        start = at * stride - pad
        part = range(max(0, -start), min(kernel, size - start))
        inside = min(kernel, size + below - start) - max(0, -start - above)
        last = runs[-1] if runs else None
        if last and (last.part, last.inside) == (part, inside):
            runs[-1] = replace(last, count=last.count + 1)
        else:
            runs.append(_Run(at, 1, part, inside))
    return runs


def regions(p: Pooling) -> Iterator[Region]:
    """All regions."""
    sides = zip((p.h, p.w), p.kernel, p.stride, p.pad, p.out, strict=True)
    of_rows, of_columns = sides
    for row in _runs(*of_rows, *p.around):
        for column in _runs(*of_columns):
            first, count = (row.first, column.first), (row.count, column.count)
            yield Region(first, count, row.part, column.part, row.inside * column.inside)


class _Nest:
    """A region's dimensions, its windows in x, and what lies beside its outputs.

    planes_first    for sums that windows share: a plane is one core's
    """

    def __init__(
        self, p: Pooling, region: Region, unroll: int = 1, *, planes_first: bool = False
    ) -> None:
        self.p, self.region, self.planes_first = p, region, planes_first
        sides = zip(region.first, p.stride, p.pad, strict=True)
        self.origin = tuple(first * stride - pad for first, stride, pad in sides)
        rows, columns = region.count
        if p.layout == "chw":
            self.dims: tuple[int, ...] = p.b * p.c, rows, columns
        else:
            self.dims = (p.c, p.b, rows, columns) if planes_first else (p.b, rows, columns, p.c)
        self.steps = self.arranged(*p.steps((p.h, p.w), p.stride))
        self.reach = REACH - abs(self.steps[-1]) * (unroll - 1)

    def arranged(self, image: int, channel: int, row: int, column: int) -> tuple[int, ...]:
        """Bytes in the order of dims."""
        if self.p.layout == "chw":
            return channel, row, column
        if self.planes_first:
            return channel, image, row, column
        return image, row, column, channel

    def windows(self, x: Address) -> tuple[list[Operand], list[tuple[int, int]]]:
        """Operands in x, and for each element of a window, which one and how many bytes behind."""
        _, _, row, column = self.p.steps((self.p.h, self.p.w))
        operands: list[Operand] = []
        places = []
        for i, j in self.region.taps:
            shift = row * (self.origin[0] + i) + column * (self.origin[1] + j)
            if not operands or not 0 <= shift - operands[-1].shift <= self.reach:
                operands.append(Operand(x, self.steps, shift=shift))
            places.append((len(operands) - 1, shift - operands[-1].shift))
        return operands, places

    def output(self, y: Address) -> Operand:
        """The region's part of y."""
        _, _, row, column = steps = self.p.steps(self.p.out)
        top, left = self.region.first
        return Operand(y, self.arranged(*steps), shift=row * top + column * left)

    def indices(self, place: Register | None) -> Operand:
        """A counter: the number in its plane of the window's first element in x.

        place    that of the first element of the first window, were it in x; None: as x says
        """
        (sh, sw), w = self.p.stride, self.p.w
        top, left = self.origin[0] + self.region.rows[0], self.origin[1] + self.region.columns[0]
        steps = self.arranged(0, 0, sh * w, sw)
        if place is None:
            return Operand(top * w + left, steps)
        return Operand(place, steps, shift=(top + self.p.pad[0]) * w + left)

    def planes(self, x: Address) -> Operand:
        """A counter: the address of the plane."""
        image, channel, _, _ = self.p.steps((self.p.h, self.p.w))
        return Operand(x, self.arranged(image, channel, 0, 0))


CHUNK = 16  # elements of which one word says which were larger, and which no numbers


class _Largest:
    """Emits the largest element of a region's windows, and its number in the plane.

    For each element, one bit says if it is larger than all before, another one if it is a number;
    what counts is the highest bit, of those that are no numbers if there are any.
    """

    def __init__(self, k: Kernel, region: Region, w: int, places: list[tuple[int, int]]) -> None:
        self.k, self.places = k, places
        self.width, self.more = len(region.columns), w - len(region.columns)
        self.is_flat = len(region.rows) == 1 or not self.more
        self.nan = k.x()
        k.li(self.nan, pattern(float("nan")))
        chunks = [len(places[at : at + CHUNK]) for at in range(0, len(places), CHUNK)]
        self.flips = {n: k.x() for n in dict.fromkeys(chunks)}
        for n, register in self.flips.items():
            k.li(register, (1 << n) - 1 << CHUNK)
        if not self.is_flat:
            self.rest, self.inverse = k.x(), k.x()
            k.li(self.rest, self.more)
            k.li(self.inverse, -(-SCALE // self.width))

    def __call__(self, v: Lanes, *sources: Window) -> list[Lane]:
        *windows, counter = sources
        most, key, x = v.f(), v.x(), v.f()
        for first in range(0, len(self.places), CHUNK):
            self._chunk(v, windows, first, most, key, x)
        is_nan = v.x()
        v.srli(is_nan, key, 8)
        v.andi(key, key, 255)
        v.sub(is_nan, ZERO, is_nan)
        v.and_(is_nan, is_nan, self.nan)
        words = v.words(most)
        v.or_(words, words, is_nan)
        v.floats(most, words)
        if not self.is_flat:
            row = is_nan
            v.mul(row, key, self.inverse)
            v.srli(row, row, SCALE.bit_length() - 1)
            v.pulp("mac", rd=key, rs1=row, rs2=self.rest)
        counter.count(is_nan)
        v.add(key, key, is_nan)
        return [most, key]

    def _chunk(
        self, v: Lanes, windows: list[Window], first: int, most: Lane, key: Lane, x: Lane
    ) -> None:
        """Go through up to CHUNK elements; key = 256 if one is no number, plus its number."""
        with v.k.scope():
            bits, t = v.x(), v.x()
            chunk = self.places[first : first + CHUNK]
            v.li(bits, 0)
            for number, (window, offset) in enumerate(chunk):
                is_first = not first and not number
                value = most if is_first else x
                windows[window].load(value, offset)
                if not is_first:
                    v.flt_s(t, most, value)
                    v.pulp("insert", rd=bits, rs1=t, Is3=0, Is2=number)
                v.feq_s(t, value, value)
                v.pulp("insert", rd=bits, rs1=t, Is3=0, Is2=CHUNK + number)
                if not is_first:
                    v.fmax_s(most, most, value)
            v.xor(bits, bits, self.flips[len(chunk)])
            self._find(v, bits, t, key, first)

    def _find(self, v: Lanes, bits: Lane, t: Lane, key: Lane, first: int) -> None:
        if not first:
            v.ori(bits, bits, 1)
        else:
            any_bit = v.x()
            v.sltu(any_bit, ZERO, bits)
        v.pulp("fl1", rd=bits, rs1=bits)
        v.srli(t, bits, 4)
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
    for region in regions(p):
        nest = _Nest(p, region, unroll)
        windows, places = nest.windows(x)

        def operation(k: Kernel, region: Region = region, places: Any = places) -> Body:
            return _Largest(k, region, p.w, places)

        map_nest(
            *(k, team, operation, nest.dims, [*windows, nest.indices(place)]),
            [nest.output(y), nest.output(index)],
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
    nowhere    address of a word for what windows give to others
    """
    fill_f32(k, team, dx, p.b * p.c * p.h * p.w)
    team.barrier()
    whole = Region((0, 0), p.out, range(1), range(1))
    nest = _Nest(p, whole, planes_first=not p.is_disjoint)

    def operation(k: Kernel) -> Body:
        element = k.x()
        k.li(element, WORD if p.layout == "chw" else WORD * p.c)
        if place is not None:
            count, dustbin = k.x(2)
            k.li(count, p.h * p.w)
            k.li(dustbin, nowhere)

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
                v.k.fstore(value, 0, target)
            return []

        return body

    map_nest(
        *(k, team, operation, nest.dims, [nest.output(dy), nest.output(index), nest.planes(dx)]),
        [],
        windows=(2,),
        is_ordered=not p.is_disjoint,
        unroll=unroll,
    )


def _share(p: Pooling, region: Region, counts_pad: bool, share: float | None) -> float:
    """What an element of a window counts in its mean, if that is not given."""
    if share is not None:
        return share
    return 1 / (p.kernel[0] * p.kernel[1] if counts_pad else region.size)


def avgpool2d_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    p: Pooling,
    *,
    counts_pad: bool = True,
    share: float | None = None,
    unroll: int = UNROLL,
) -> None:
    """y = the mean of each window; counts_pad: its elements outside x are zeros, else they are no
    elements. With a share, y is that times the sum.
    """
    for region in regions(p):
        nest = _Nest(p, region, unroll)
        windows, places = nest.windows(x)
        factor = _share(p, region, counts_pad, share)

        def operation(k: Kernel, places: Any = places, part: float = factor) -> Body:
            factor = constant(k, part)

            def body(v: Lanes, *around: Window) -> list[Lane]:
                total, value = v.f(), v.f()
                for number, (window, offset) in enumerate(places):
                    around[window].load(value if number else total, offset)
                    if number:
                        v.fadd_s(total, total, value)
                if part != 1:
                    v.fmul_s(total, total, factor)
                return [total]

            return body

        map_nest(
            *(k, team, operation, nest.dims, windows, [nest.output(y)]),
            windows=range(len(windows)),
            unroll=unroll,
        )


def avgpool2d_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    dx: Address,
    p: Pooling,
    *,
    counts_pad: bool = True,
    share: float | None = None,
    unroll: int = UNROLL,
) -> None:
    """dx = the sum of dy over the windows with this element, each divided by its elements, or
    times the share.
    """
    if not p.is_cover:
        fill_f32(k, team, dx, p.b * p.c * p.h * p.w)
        team.barrier()
    unroll = unroll if p.is_disjoint else 1
    for region in regions(p):
        nest = _Nest(p, region, unroll, planes_first=not p.is_disjoint)
        windows, places = nest.windows(dx)
        factor = _share(p, region, counts_pad, share)

        def operation(k: Kernel, places: Any = places, part: float = factor) -> Body:
            factor = constant(k, part)

            def body(v: Lanes, dy: Lane, *around: Window) -> list[Lane]:
                if part != 1:
                    v.fmul_s(dy, dy, factor)
                if p.is_disjoint:
                    for window, offset in places:
                        around[window].store(dy, offset)
                    return []
                old = v.k.f(min(SIDE_BY_SIDE, len(places)))
                for at in range(0, len(places), SIDE_BY_SIDE):
                    some = list(zip(places[at : at + SIDE_BY_SIDE], old, strict=False))
                    for (window, offset), register in some:
                        around[window].load([register], offset)
                    for _, register in some:
                        v.k.fadd_s(register, register, dy[0])
                    for (window, offset), register in some:
                        around[window].store([register], offset)
                return []

            return body

        map_nest(
            *(k, team, operation, nest.dims, [nest.output(dy), *windows], []),
            windows=range(1, len(windows) + 1),
            is_ordered=not p.is_disjoint,
            unroll=unroll,
        )
