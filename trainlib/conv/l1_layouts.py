"""Parts of a convolution's tensors in L1 that do not lie row after row.

An image that comes by DMA as its columns; weights that come with their channels exchanged, for the
gradient of the input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from trainlib.conv.conv2d import Conv2d, Strides
from trainlib.conv.im2col_layout import Unfolding, row_of
from trainlib.conv.shape import IMAGES, Shape
from trainlib.primitive.l1_layout import Effort, Form, Level, Patch
from trainlib.primitive.slices import Sized, TileShape
from trainlib.primitive.tensor import WORD, Tensors


@dataclass(frozen=True)
class ByColumns:
    """Columns of X, or of dY for the gradient of the input, [n, ...].

    name      of the tensor
    of        the convolution of a tile
    counts    images, channels, lines and places of columns of a tile, given sizes of dimensions
    item      bytes of an element
    """

    name: str
    shape: Shape
    is_gradient: bool
    of: Callable[[TileShape], Conv2d]
    counts: Callable[[Sized], tuple[Any, Any, Any, Any]]
    item: int = WORD
    is_needed = True

    def form(self, shape: TileShape, tensors: Tensors) -> Form:
        """As every Formed."""
        conv = self.of(shape)
        unfolding = Unfolding.of(conv, self.shape.layout, is_gradient=self.is_gradient)
        image = Strides.of(tensors[self.name].strides, self.shape.layout)
        images = Level(conv.batch, image.image, unfolding.size)
        return Form(
            conv.batch * unfolding.size,
            tuple(
                patch._replace(levels=(images, *patch.levels)) for patch in unfolding.patches(image)
            ),
        )

    def bytes(self, sizes: Sized) -> Any:
        """As every Formed."""
        images, channels, lines, places = self.counts(sizes)
        words = self._taps * channels
        if self.shape.layout == "chw":
            return images * words * row_of(self.item, lines * places)
        return images * lines * places * row_of(self.item, words)

    def effort(self, sizes: Sized) -> Effort:
        """As every Formed: a command for each tap and for all but the longest other dimension.

        Where gradients have a stride, most of a column is zero.
        """
        ys, xs = self.shape.ys, self.shape.xs
        images, channels, lines, places = self.counts(sizes)
        if self.is_gradient:
            lines, places = lines / ys.stride, places / xs.stride
        copied = self.item * self._taps * images * channels * lines * places
        if self.shape.layout == "hwc":
            levels, run = [images, lines, places], self.item * channels * self._taps_of_run
        elif xs.stride == 1:
            levels, run = [images, lines, channels], self.item * places
        else:
            levels, run = [images, lines, channels, places], self.item
        taps = self._taps // (self._taps_of_run if self.shape.layout == "hwc" else 1)
        return Effort(copied, run, taps * reduce(np.multiply, levels) / reduce(np.maximum, levels))

    @property
    def _taps_of_run(self) -> int:
        """Taps that lie together, in "hwc"."""
        axis = self.shape.xs
        return axis.taps if not self.is_gradient and axis.dilation == 1 else 1

    @property
    def _taps(self) -> int:
        return self.shape.ys.taps * self.shape.xs.taps


@dataclass(frozen=True)
class ReadLines:
    """X without the lines that a kernel of a single one at a stride does not read, [n, C, lines,
    places]; a line's places are as many times its stride. In "hwc", [n, lines, places, C], all of
    which are read.

    counts    images, channels, lines and places that are read by a tile, given sizes of dimensions
    item      bytes of an element
    """

    name: str
    shape: Shape
    counts: Callable[[Sized], tuple[Any, Any, Any, Any]]
    item: int = WORD
    is_needed = False

    def form(self, shape: TileShape, tensors: Tensors) -> Form:
        """As every Formed."""
        images, channels, lines, places = self.counts(shape)
        down, across = self.shape.ys.stride, self.shape.xs.stride
        image, channel, line, place = Strides.of(tensors[self.name].strides, self.shape.layout)
        near = self.strides(shape)
        levels = [
            Level(images, image, near.image),
            Level(channels, channel, near.channel),
            Level(lines, down * line, near.line),
        ]
        if self.shape.layout == "chw":
            levels.append(Level((places - 1) * across + 1, place, self.item))
        else:
            levels.append(Level(places, across * place, near.place))
        return Form(images * near.image, (Patch(0, 0, tuple(levels), self.item),))

    def strides(self, sizes: Sized) -> Strides:
        """Bytes in L1 from one image, channel, line and place that is read to the next."""
        _, channels, lines, places = self.counts(sizes)
        if self.shape.layout == "hwc":
            place = row_of(self.item, channels)
            return Strides(lines * places * place, self.item, places * place, place)
        place = self.shape.xs.stride * self.item
        return Strides(
            channels * lines * places * place, lines * places * place, places * place, place
        )

    def bytes(self, sizes: Sized) -> Any:
        """As every Formed."""
        return self.counts(sizes)[0] * self.strides(sizes).image

    def effort(self, sizes: Sized) -> Effort:
        """As every Formed: a command for all but the longest dimension around those of a line."""
        images, channels, lines, places = self.counts(sizes)
        across = self.shape.xs.stride
        if self.shape.layout == "hwc":
            run, levels = self.item * channels, [images, lines, places]
        else:
            run, levels = self.item * ((places - 1) * across + 1), [images, channels, lines]
        count = reduce(np.multiply, levels)
        return Effort(run * count, run, count / reduce(np.maximum, levels))


@dataclass(frozen=True)
class WrittenLines(ReadLines):
    """dX of such a kernel, in "chw", likewise; a line of zeros after it is copied to all others."""

    def form(self, shape: TileShape, tensors: Tensors) -> Form:
        """As every Formed."""
        images, channels, lines, places = shape.part(self.name).shape
        image, channel, line, place = tensors[self.name].strides
        near, zeros, stride = self.strides(shape), self.zeros(shape), self.shape.ys.stride
        patches = []
        for first in range(min(stride, lines)):
            steps = near if first == 0 else Strides(0, 0, 0, 0)
            levels = (
                Level(images, image, steps.image),
                Level(channels, channel, steps.channel),
                Level(len(range(first, lines, stride)), stride * line, steps.line),
                Level(places, place, self.item),
            )
            patches.append(Patch(first * line, zeros * (first > 0), levels, self.item))
        return Form(self.bytes(shape), tuple(patches))

    def zeros(self, sizes: Sized) -> Any:
        """Bytes from the start to the line of zeros."""
        return super().bytes(sizes)

    def bytes(self, sizes: Sized) -> Any:
        """As every Formed."""
        return self.zeros(sizes) + self.strides(sizes).line

    def effort(self, sizes: Sized) -> Effort:
        """As every Formed."""
        read, stride = super().effort(sizes), self.shape.ys.stride
        return Effort(stride * read.bytes, read.run, stride * read.commands)


@dataclass(frozen=True)
class Exchanged:
    """Weights W[Co, C, kh, kw] as [C, Co, kh, kw], or W[Co, kh, kw, C] as [kh, kw, Co, C].

    counts    output and input channels of a tile, given sizes of dimensions
    item      bytes of an element; rows begin with a word
    """

    name: str
    shape: Shape
    counts: Callable[[Sized], tuple[Any, Any]]
    item: int = WORD
    is_needed = True

    def form(self, shape: TileShape, tensors: Tensors) -> Form:
        """As every Formed."""
        part, axes = shape.part(self.name), IMAGES[self.shape.layout]
        rows, channels, *taps = (part.shape[axes.index(axis)] for axis in range(4))
        far = dict(zip(axes, tensors[self.name].strides, strict=True))
        order = (1, 0, 2, 3) if self.shape.layout == "chw" else (2, 3, 0, 1)
        counts, near, step = (rows, channels, *taps), {}, self.item
        first = order[:1] if self.shape.layout == "chw" else order[:3]  # what rows are of
        for axis in reversed(order):
            step = row_of(1, step) if axis == first[-1] else step
            near[axis] = step
            step *= counts[axis]
        levels = tuple(Level(counts[axis], far[axis], near[axis]) for axis in range(4))
        return Form(step, (Patch(0, 0, levels, self.item),))

    def bytes(self, sizes: Sized) -> Any:
        """As every Formed."""
        rows, channels = self.counts(sizes)
        taps = self.shape.ys.taps * self.shape.xs.taps
        if self.shape.layout == "hwc":
            return taps * rows * row_of(self.item, channels)
        return channels * row_of(self.item, taps * rows)

    def effort(self, sizes: Sized) -> Effort:
        """As every Formed."""
        rows, channels = self.counts(sizes)
        taps = self.shape.ys.taps * self.shape.xs.taps
        if self.shape.layout == "hwc":
            return Effort(self.bytes(sizes), self.item * channels, np.minimum(taps, rows))
        return Effort(self.bytes(sizes), self.item * taps, np.minimum(rows, channels))
