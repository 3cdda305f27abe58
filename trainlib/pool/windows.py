"""Pooling in two dimensions, with stride and padding: its windows.

Outputs whose windows lie in x alike, whole or cut by the same borders, are a region: its code is
that of one window, so that borders cost no test.

Source of the meaning: torch's max_pool2d and avg_pool2d.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from firmware.builder import Register
from trainlib.codegen.loop_nest import REACH
from trainlib.codegen.nest_operands import Operand
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import Address

Layout = Literal["chw", "hwc"]
Pair = tuple[int, int]
LARGEST = 128  # elements of a window, and
MOST = 512  # of those of all regions together, for each to be code of its own
SMALL = 32  # elements of a window whose code is in a core's cache
Places = list[tuple[int, int]]
"""For each element of a window that is in x: which operand has it, and how many bytes after."""


@dataclass(frozen=True)
class Pooling:
    """b images of c channels of h x w places, windows of kernel, step stride, border pad.

    windows    outputs in each direction, where x is a part of an image; None: all there are
    around     rows of the image above x and below
    image      type of x, dx
    value      type of y, dy
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
    image: Element = F32
    value: Element = F32

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
    def is_small(self) -> bool:
        """Does the code of a window's elements stay in a core's cache?"""
        return self.kernel[0] * self.kernel[1] <= SMALL

    @property
    def is_wide(self) -> bool:
        """Are windows too large for code of their own, or cut in too many ways?"""
        is_large = self.kernel[0] * self.kernel[1] > LARGEST
        return is_large or sum(len(region.taps) for region in regions(self)) > MOST

    @property
    def is_cover(self) -> bool:
        """Do windows share no element, and have all together?"""
        sides = zip(self.out, self.kernel, (self.h, self.w), strict=True)
        is_whole = all(count * size == all_of for count, size, all_of in sides)
        return is_whole and self.stride == self.kernel and self.pad == (0, 0)

    def shape(self, height: int, width: int) -> tuple[int, ...]:
        """Shape of x or y."""
        if self.layout == "chw":
            return self.b, self.c, height, width
        return self.b, height, width, self.c

    def steps(
        self, size: Pair, by: Pair = (1, 1), of: Element | None = None
    ) -> tuple[int, int, int, int]:
        """Bytes between images, channels, rows, columns of a tensor, `by` places a step.

        of    type of its elements; None: as in x
        """
        item = (of or self.image).size
        element = 1 if self.layout == "chw" else self.c
        plane = size[0] * size[1] if self.layout == "chw" else 1
        row, column = size[1] * element * by[0], element * by[1]
        return item * self.c * size[0] * size[1], item * plane, item * row, item * column


@dataclass(frozen=True)
class WindowRun:
    """Outputs first .. first + count - 1 in one direction, whose windows lie in x alike.

    part      rows or columns of a window that are in x
    inside    how many are in the image
    """

    first: int
    count: int
    part: range
    inside: int = 0


def _runs(
    size: int, kernel: int, stride: int, pad: int, out: int, above: int = 0, below: int = 0
) -> list[WindowRun]:
    """All outputs; above, below: what the image has more than x."""
    runs: list[WindowRun] = []
    for at in range(out):
        start = at * stride - pad
        part = range(max(0, -start), min(kernel, size - start))
        inside = min(kernel, size + below - start) - max(0, -start - above)
        last = runs[-1] if runs else None
        if last and (last.part, last.inside) == (part, inside):
            runs[-1] = replace(last, count=last.count + 1)
        else:
            runs.append(WindowRun(at, 1, part, inside))
    return runs


class Region(NamedTuple):
    """Outputs whose windows lie in x alike."""

    rows: WindowRun
    columns: WindowRun

    @property
    def first(self) -> Pair:
        """Row and column of the first output."""
        return self.rows.first, self.columns.first

    @property
    def size(self) -> int:
        """Elements of a window that are in the image."""
        return self.rows.inside * self.columns.inside

    @property
    def taps(self) -> list[Pair]:
        """Rows and columns of a window's elements that are in x."""
        return [(i, j) for i in self.rows.part for j in self.columns.part]


def regions(p: Pooling) -> Iterator[Region]:
    """All regions."""
    of_rows, of_columns = zip((p.h, p.w), p.kernel, p.stride, p.pad, p.out, strict=True)
    for row in _runs(*of_rows, *p.around):
        for column in _runs(*of_columns):
            yield Region(row, column)


def all_outputs(p: Pooling) -> Region:
    """Outputs as if they had windows of one element."""
    rows, columns = (WindowRun(0, count, range(1)) for count in p.out)
    return Region(rows, columns)


class RegionNest:
    """A region's dimensions, its windows in x, and what lies beside its outputs.

    planes_first    for sums that windows share: a plane is one core's
    """

    def __init__(
        self, p: Pooling, region: Region, unroll: int = 1, *, planes_first: bool = False
    ) -> None:
        self.p, self.region, self.planes_first = p, region, planes_first
        sides = zip(region.first, p.stride, p.pad, strict=True)
        self.origin = tuple(first * stride - pad for first, stride, pad in sides)
        rows, columns = region.rows.count, region.columns.count
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

    def windows(self, x: Address, element: Element) -> tuple[list[Operand], Places]:
        """Operands in x, and where they have the elements of a window."""
        _, _, row, column = self.p.steps((self.p.h, self.p.w))
        operands: list[Operand] = []
        places: Places = []
        for i, j in self.region.taps:
            shift = row * (self.origin[0] + i) + column * (self.origin[1] + j)
            if not operands or not 0 <= shift - operands[-1].shift <= self.reach:
                operands.append(Operand(x, self.steps, shift=shift, element=element))
            places.append((len(operands) - 1, shift - operands[-1].shift))
        return operands, places

    def output(self, y: Address, element: Element | None = None) -> Operand:
        """The region's part of y, or of a tensor of its shape and another type."""
        of = element or self.p.value
        _, _, row, column = steps = self.p.steps(self.p.out, of=of)
        top, left = self.region.first
        return Operand(y, self.arranged(*steps), shift=row * top + column * left, element=of)

    def indices(self, place: Register | None) -> Operand:
        """A counter: the number in its plane of the window's first element in x.

        place    that of the first element of the first window, were it in x; None: as x says
        """
        (sh, sw), w = self.p.stride, self.p.w
        (top, left), (above, before) = self.origin, self.region.taps[0]
        top, left = top + above, left + before
        steps = self.arranged(0, 0, sh * w, sw)
        if place is None:
            return Operand(top * w + left, steps)
        return Operand(place, steps, shift=(top + self.p.pad[0]) * w + left)

    def planes(self, x: Address) -> Operand:
        """A counter: the address of the plane."""
        image, channel, _, _ = self.p.steps((self.p.h, self.p.w))
        return Operand(x, self.arranged(image, channel, 0, 0))
