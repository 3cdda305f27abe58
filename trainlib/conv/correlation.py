"""What a correlation computes, and where its operands lie: see correlation_schedule."""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

from trainlib.codegen.inner_loop import Body, Kind, Mac, Multiply, Value, halves, pairs, single
from trainlib.conv.axis import Axis, Outputs
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import WORD, Address


@dataclass(frozen=True)
class Images:
    """A tensor of images: bytes from one element to the next in each dimension; the first one is
    `offset` bytes after the address.
    """

    address: Address
    group: int
    channel: int
    line: int
    place: int
    offset: int = 0

    @property
    def turned(self) -> "Images":
        """Lines for columns."""
        return replace(self, line=self.place, place=self.line)


@dataclass(frozen=True)
class Weights:
    """The kernels, likewise; `offset` bytes after the address is the first one."""

    address: Address
    group: int
    row: int
    channel: int
    line: int
    place: int
    offset: int = 0

    @property
    def turned(self) -> "Weights":
        """Lines for columns."""
        return replace(self, line=self.place, place=self.line)


class Lane(NamedTuple):
    """A sum of a block reads through a tap: of two lanes, what is not outside."""

    sum: int
    tap: int
    place: int
    kind: Kind


@dataclass(frozen=True)
class Correlation:
    """What is computed.

    rows, channels    of each group
    ys, xs            the dimensions of the images
    bias              one for each row of each group, what the sums start with; None: 0, or
    accumulates       what Y holds
    element           of all tensors
    is_paired         of halves, is each line of the input loaded once? See paired_schedule
    has_row_pairs     of halves, has a register two rows of a place? Rows and channels of Y are then
                      pairs of them, W is words of both, see row_pairs
    carries           may sums of neighbouring lines be carried? See depthwise_schedule.Carried
    """

    groups: int
    rows: int
    channels: int
    ys: Axis
    xs: Axis
    x: Images
    w: Weights
    y: Images
    bias: Address | None = None
    accumulates: bool = False
    element: Element = F32
    is_paired: bool = False
    has_row_pairs: bool = False
    carries: bool = True

    @cached_property
    def turned(self) -> "Correlation":
        """The same with lines for columns."""
        return replace(
            self, ys=self.xs, xs=self.ys, x=self.x.turned, w=self.w.turned, y=self.y.turned
        )

    @cached_property
    def straight(self) -> "Correlation":
        """The same, lines read forward where that is possible."""
        if not self.ys.is_transposed or self.ys.stride > 1:
            return self
        offset = self.w.offset + (self.ys.taps - 1) * self.w.line
        return replace(
            self, ys=self.ys.flipped, w=replace(self.w, line=-self.w.line, offset=offset)
        )

    @property
    def phases(self) -> "list[Correlation]":
        """Of a gradient with a stride, lines that are as far apart, which read through the same
        taps; and otherwise itself.
        """
        ys = self.ys
        if not ys.is_transposed or ys.stride == 1 or ys.dilation > 1 or ys.taps < ys.stride:
            return [self]
        w, y = self.w, self.y
        return [
            replace(
                self,
                ys=phase.axis,
                w=replace(w, offset=w.offset + phase.taps[0] * w.line, line=ys.stride * w.line),
                y=replace(y, offset=y.offset + phase.outputs[0] * y.line, line=ys.stride * y.line),
            )
            for phase in ys.phases()
        ]

    @cached_property
    def one_row(self) -> "Correlation":
        """A row of a group, by itself at address 0: the same for many, and takes as long."""
        x, y = (replace(of, address=0, group=0, channel=0, offset=0) for of in (self.x, self.y))
        bias = None if self.bias is None else 0
        w = replace(self.w, address=0, group=0, row=0, offset=0)
        return replace(self, groups=1, rows=1, x=x, w=w, y=y, bias=bias)

    @property
    def starts(self) -> bool:
        """Do the sums start with something that is loaded?"""
        return self.accumulates or self.bias is not None

    @property
    def lanes(self) -> int:
        """Outputs along x in a register: two halves where they read neighbours."""
        if self.has_row_pairs:
            return 1
        return lanes_of(self.element, self.xs, self.x.place, self.y.place)

    @property
    def row_size(self) -> int:
        """Bytes of what a row has one element of: a bias, or those of two rows."""
        return WORD if self.has_row_pairs else self.element.size

    @property
    def unit(self) -> int:
        """Neighbouring outputs along x whose sums fill their registers."""
        return self.lanes * self.apart

    @property
    def apart(self) -> int:
        """Outputs from one in a register to the next."""
        return self.xs.apart if self.lanes > 1 else 1

    def sums(self, width: int) -> int:
        """Registers for the sums of so many neighbouring outputs."""
        whole, rest = divmod(width, self.unit)
        return whole * self.apart + min(rest, self.apart)

    def outputs_of(self, number: int, width: int) -> list[int]:
        """The outputs of a sum, counted in a block of so many."""
        whole, rest = divmod(number, self.apart)
        first = whole * self.unit + rest
        return [q for q in range(first, first + self.unit, self.apart) if q < width]

    def reads(self, block: Outputs) -> tuple[Lane, ...]:
        """What a block's sums read: one input each, or two, of which one may be outside."""
        return reads_of(block, self.element, self.lanes, self.apart)

    @property
    def _taps(self) -> list[int]:
        """Taps along x in the order in which they are read through: of floats, those one after the
        other that read the same inputs; the order of sums of halves is fixed.
        """
        taps = range(self.xs.taps)
        if self.element.is_half or self.xs.is_transposed:
            return list(taps)
        return sorted(taps, key=lambda tap: (tap * self.xs.dilation % self.xs.stride, tap))

    def _place_of(self, read: Lane) -> tuple[int, int]:
        """Where a read comes if inputs are read one after the other; of a sum's, in the same order
        as by taps.
        """
        if self.xs.is_transposed:
            return 0, -read.place
        of = 1 if self.element.is_half else self.xs.stride  # see _taps
        return read.tap * self.xs.dilation % of, read.place

    def body(self, height: int, block: Outputs, pool: int) -> Body:
        """The inner loop of a block: all taps along x."""
        reads, width = self.reads(block), self.sums(block.width)
        one: Kind = "half" if self.row_size < WORD else "word"
        by_taps = [
            (
                read,
                Mac(
                    r * width + read.sum,
                    Value("w", r * self.w.row + read.tap * self.w.place, one),
                    Value("x", read.place * self.x.place, read.kind),
                ),
            )
            for tap in self._taps
            for r in range(height)
            for read in reads
            if read.tap == tap
        ]
        by_inputs = sorted(by_taps, key=lambda each: self._place_of(each[0]))
        macs, other = ([mac for _, mac in order] for order in (by_taps, by_inputs))
        w_step = self.w.line * self.ys.tap_step
        x_step = self.x.line * self.ys.source_step
        if self.channels > 1:
            w_step, x_step = self.w.channel, self.x.channel
        elif self.ys.taps == 1:
            w_step = x_step = 0
        multiply = arithmetic(self.element, self.lanes, is_one=True)
        if self.has_row_pairs:
            multiply = swapped(pairs(self.element, is_one=True))
        steps = {"w": w_step, "x": x_step}
        return Body(macs, pool, steps, multiply=multiply, other=other)


def lanes_of(element: Element, xs: Axis, x_place: int, y_place: int) -> int:
    """Outputs in a register: two of halves that read neighbours, which lie together."""
    is_near = x_place == y_place == element.size < WORD
    return 2 if is_near and xs.apart else 1


def arithmetic(element: Element, lanes: int, *, is_one: bool) -> Multiply:
    """A multiply-add of so many lanes; is_one: by one number, see pairs."""
    if not element.is_half:
        return single
    return pairs(element, is_one=is_one) if lanes > 1 else halves(element)


def swapped(multiply: Multiply) -> Multiply:
    """The same with factors exchanged."""
    return lambda k, acc, u, v: multiply(k, acc, v, u)


@cache
def reads_of(block: Outputs, element: Element, lanes: int, apart: int = 1) -> tuple[Lane, ...]:
    """What sums of so many lanes read: see Correlation.reads.

    apart    outputs from one lane to the next
    """
    if lanes == 1:
        kind: Kind = "half" if element.is_half else "word"
        return tuple(Lane(*read, kind) for read in block.reads)
    places = {(read.tap, read.q): read.place for read in block.reads}
    found, unit = [], 2 * apart
    for tap, q in dict.fromkeys((tap, q // unit * unit + q % apart) for tap, q in places):
        low, high = places.get((tap, q)), places.get((tap, q + apart))
        number = q // unit * apart + q % apart
        if low is None:
            assert high is not None
            found.append(Lane(number, tap, high, "high"))
        else:
            found.append(Lane(number, tap, low, "low" if high is None else "word"))
    return tuple(found)
