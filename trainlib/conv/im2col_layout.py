"""The columns that a convolution makes of an image, as data: what lies where, and what is zero.

A column is what the taps of a kernel read for one place of the result. In layout "chw" columns are
[C, kh, kw, places], in "hwc" they are rows [places, kh, kw, C].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainlib.conv.axis import Axis
from trainlib.conv.conv2d import Conv2d, Layout, Strides
from trainlib.primitive.l1_layout import Level, Patch
from trainlib.primitive.tensor import WORD


@dataclass(frozen=True)
class Columns:
    """Where columns lie: bytes from one to the next of each dimension.

    channel, row, tap    of the kernel
    line, place          of the result
    """

    channel: int
    row: int
    tap: int
    line: int
    place: int


@dataclass(frozen=True)
class Unfolding:
    """An image's columns.

    ys, xs    how places of the result read it
    item      bytes of an element; rows begin with a word
    """

    channels: int
    ys: Axis
    xs: Axis
    layout: Layout
    item: int = WORD

    @classmethod
    def of(cls, shape: Conv2d, layout: Layout, *, is_gradient: bool = False) -> "Unfolding":
        """Of X for a convolution, or of dY for the gradient of its input."""
        if is_gradient:
            axes = shape.ys.inverse, shape.xs.inverse
            return cls(shape.outputs, *axes, layout, shape.element.size)
        return cls(shape.inputs, shape.ys, shape.xs, layout, shape.element.size)

    @property
    def words(self) -> int:
        """Elements of a column."""
        return self.ys.taps * self.xs.taps * self.channels

    @property
    def places(self) -> int:
        """How many columns there are."""
        return self.ys.outputs * self.xs.outputs

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        rows, length = (self.words, self.places)[:: 1 if self.layout == "chw" else -1]
        return rows * row_of(self.item, length)

    @property
    def to(self) -> Columns:
        """Where they lie."""
        height, width = self.ys.taps, self.xs.taps
        if self.layout == "chw":
            tap = row_of(self.item, self.places)
            line = self.item * self.xs.outputs
            return Columns(height * width * tap, width * tap, tap, line, self.item)
        column, tap = row_of(self.item, self.words), self.item * self.channels
        return Columns(self.item, width * tap, tap, self.xs.outputs * column, column)

    def patches(self, image: Strides) -> Iterator[Patch]:
        """What comes from an image whose elements lie so."""
        to = self.to
        for row in range(self.ys.taps):
            lines = self.ys.readers(row)
            for tap, taps, places in self._readers(image):
                if not lines or not places:
                    continue
                line, place = _source(self.ys, lines[0], row), _source(self.xs, places[0], tap)
                far = line * image.line + place * image.place
                near = row * to.row + tap * to.tap + lines[0] * to.line + places[0] * to.place
                levels = (
                    Level(self.channels, image.channel, to.channel),
                    _level(self.ys, row, lines, image.line, to.line),
                    _level(self.xs, tap, places, image.place, to.place),
                    Level(taps, self.xs.dilation * image.place, to.tap),
                )
                yield Patch(far, near, levels, self.item)

    def _readers(self, image: Strides) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Taps, from the first of them on, and the places that read through all of these.

        Taps that lie together in the image and in columns are copied together.
        """
        xs = self.xs
        if xs.is_transposed or xs.dilation * image.place != self.to.tap:
            for tap in range(xs.taps):
                yield tap, 1, xs.readers(tap)
            return
        places: dict[tuple[int, int], list[int]] = {}
        for output in range(xs.outputs):
            reads, tap, _ = xs.line(output)
            places.setdefault((tap, reads), []).append(output)
        for (tap, reads), outputs in places.items():
            if reads:
                yield tap, reads, outputs

    @property
    def zeros(self) -> Iterator[Patch]:
        """What lies outside of the image; both sides of a patch are where the zeros go.

        NOTE: two cores may store the same zero, that of a line and a place outside. Patches that
        have each one once are more code, 1.02 of the cycles.
        """
        to = self.to
        for row in range(self.ys.taps):
            for lines in _unread(self.ys, row):
                yield _zeros(
                    self.item,
                    row * to.row + lines[0] * to.line,
                    (self.channels, to.channel),
                    (self.xs.taps, to.tap),
                    (len(lines), lines.step * to.line),
                    (self.xs.outputs, to.place),
                )
        for tap in range(self.xs.taps):
            for places in _unread(self.xs, tap):
                yield _zeros(
                    self.item,
                    tap * to.tap + places[0] * to.place,
                    (self.channels, to.channel),
                    (self.ys.taps, to.row),
                    (self.ys.outputs, to.line),
                    (len(places), places.step * to.place),
                )


def _level(axis: Axis, tap: int, outputs: Sequence[int], far: int, near: int) -> Level:
    """Outputs at equal distances, and what they read through a tap."""
    if len(outputs) == 1:
        return Level(1, far, near)
    first, second = (_source(axis, output, tap) for output in outputs[:2])
    return Level(len(outputs), (second - first) * far, (outputs[1] - outputs[0]) * near)


def _source(axis: Axis, output: int, tap: int) -> int:
    """What an output reads that reads something."""
    source = axis.source(output, tap)
    assert source is not None
    return source


def _unread(axis: Axis, tap: int) -> Iterator[range]:
    """The outputs that read nothing through a tap, as few ranges as cover them."""
    step = axis.stride if axis.is_transposed else 1
    readers = set(axis.readers(tap))
    for first in range(min(step, axis.outputs)):
        start = None
        for output in [*range(first, axis.outputs, step), None]:
            is_unread = output is not None and output not in readers
            if is_unread and start is None:
                start = output
            elif not is_unread and start is not None:
                stop = axis.outputs if output is None else output
                yield range(start, stop, step)
                start = None


def _zeros(item: int, near: int, *levels: tuple[int, int]) -> Patch:
    return Patch(near, near, tuple(Level(count, step, step) for count, step in levels), item)


def row_of(item: int, length: Any) -> Any:
    """Bytes of a row of elements, or of rows of such lengths: whole words."""
    return -(-item * length // WORD) * WORD
