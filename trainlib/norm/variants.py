"""Batch, instance, group, layer and RMS norm: their arguments, and the axes of their tensors.

    batch       means over batch and places, for each channel; frozen: the running means instead
    instance    over places, for each image and channel
    group       over places and the channels of a group, for each image and group
    layer, RMS  over the columns of each row

x is [b, c, hw] or, layout "hwc", [b, hw, c]; rows are [rows, columns].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveInt

from firmware.builder import KernelError
from trainlib.codegen.loop_nest import UNROLL
from trainlib.codegen.nest_operands import row_major
from trainlib.norm.row_norm import OF_CHANNELS
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import F32, Element
from trainlib.primitive.operator import Expected
from trainlib.primitive.tensor import WORD, Addresses
from trainlib.reduction.phases import Passes
from trainlib.reduction.row_reduction import Split, effort, sharing_of
from trainlib.reduction.row_view import View, field_along

Axes = tuple[str, ...]
LIKE_X = ("x", "y", "dx", "dy")
MEANS = ("mean", "rstd", "rest", "sums", "products")
"""What a part of x that a mean is of has one of."""
PARAMETERS = ("gamma", "beta", "dgamma", "dbeta", "running_mean", "running_var")


class MapArguments(TiledArguments):
    """x[b, c, hw] or, layout "hwc", x[b, hw, c]: images, channels, places.

    tile      of c; what a mean is of is cut too, in several passes, where hw or b are given (groups
              and size of their channels for groupnorm), or no tile fits
    relu      y = max(0, y); backward takes that y too, and dy where it is above 0
    split     what is partitioned: rows, parts of each row ("columns"), or what takes less time
    unroll    elements that are computed side by side, if registers allow
    """

    b: PositiveInt = 1
    c: PositiveInt
    hw: PositiveInt
    layout: Literal["chw", "hwc"] = "chw"
    eps: float = Field(1e-5, gt=0, allow_inf_nan=False)
    relu: bool = False
    split: Split = "auto"
    unroll: int = Field(UNROLL, ge=1, le=8)

    @property
    def channels(self) -> dict[str, int]:
        """Sizes of the axes that channels are."""
        return {"c": self.c}

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of all axes."""
        return {"b": self.b, **self.channels, "hw": self.hw}

    @property
    def order(self) -> Axes:
        """Axes as x lies in memory."""
        return ("b", *self.channels, "hw") if self.layout == "chw" else ("b", "hw", *self.channels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of x."""
        return (self.b, *((self.c, self.hw) if self.layout == "chw" else (self.hw, self.c)))


class BatchArguments(MapArguments):
    """momentum    of the running means: how much of them is new"""

    momentum: float = Field(0.1, ge=0, le=1)


class GroupArguments(MapArguments):
    """groups    of channels; a divisor of c"""

    groups: PositiveInt

    @property
    def channels(self) -> dict[str, int]:
        """Sizes of the axes that channels are."""
        return {"groups": self.groups, "size": self.c // self.groups}


class RowArguments(TiledArguments):
    """x[rows, columns].

    tile    of rows; rows are cut, in several passes, where columns are given, or no row fits
    """

    rows: PositiveInt
    columns: PositiveInt
    eps: float = Field(1e-5, gt=0, allow_inf_nan=False)
    split: Split = "auto"
    unroll: int = Field(UNROLL, ge=1, le=8)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of all axes."""
        return {"rows": self.rows, "columns": self.columns}

    @property
    def order(self) -> Axes:
        """Axes as x lies in memory."""
        return "rows", "columns"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of x."""
        return self.rows, self.columns


@dataclass(frozen=True)
class Layout:
    """Axes of a normalisation's tensors.

    sizes    by axis, channels before places
    x        axes in the order of memory
    means    axes of means; those of x that are not among them, means are over
    gamma    axes of gamma, beta, their gradients, running means
    element  type of what is like x
    """

    sizes: Mapping[str, int]
    x: Axes
    means: Axes
    gamma: Axes
    split: Split
    unroll: int
    element: Element = F32

    def element_of(self, name: str) -> Element:
        """Type of a tensor: parameters and means are single precision."""
        return self.element if name in LIKE_X else F32

    def axes(self, name: str) -> Axes:
        """Axes of a tensor."""
        if name in LIKE_X:
            return self.x
        if name in OF_CHANNELS:
            return self.channels
        return self.means if name in MEANS else self.gamma

    @property
    def has_own_gammas(self) -> bool:
        """Have elements that a mean is of their own gammas?"""
        return not set(self.gamma) <= set(self.means)

    @property
    def channels(self) -> Axes:
        """Axes of what has one mean and one gamma."""
        return (*self.gamma, *(axis for axis in self.means if axis not in self.gamma))

    @property
    def has_own_rows(self) -> bool:
        """Have elements that a mean is of one gamma each, and no more?"""
        return self.has_own_gammas and not self.is_by_channels

    @property
    def is_by_channels(self) -> bool:
        """Are means of several channels, and these of several elements?"""
        return self.has_own_gammas and set(self.channels) < set(self.sizes)

    @property
    def in_pairs(self) -> bool:
        """Are y and dx of halves computed two at a time, where they can be?

        See trainlib.norm.pairs.
        """
        is_near = self.x[-1] not in self.rows
        return self.element.is_half and not self.has_own_gammas and is_near

    @property
    def is_shifted(self) -> bool:
        """Are means of halves, if there are any, of distances from a row's first element?"""
        return self.element.is_half

    @property
    def rows(self) -> Axes:
        """Axes of rows that means are of: those with the same gamma follow each other."""
        return self.means if self.has_own_gammas else self.channels

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Sizes of axes."""
        return tuple(self.sizes[axis] for axis in axes)

    @property
    def count(self) -> int:
        """Elements that a mean is of."""
        return prod(size for axis, size in self.sizes.items() if axis not in self.means)

    @property
    def bytes_of_means(self) -> int:
        """Bytes of all means."""
        return WORD * prod(self.shape(self.means))

    # As rows in L1, or larger ones

    def view(
        self,
        at: Addresses,
        rows: Axes,
        elements: Axes | None = None,
        *,
        is_ordered: bool = False,
    ) -> View:
        """Tensors that are whole in L1, as rows; at has partials too.

        elements    their axes; None: all others
        """
        if elements is None:
            elements = tuple(axis for axis in self.sizes if axis not in rows)
        fields = {
            name: field_along(address, self._steps(name), rows, elements, self.element_of(name))
            for name, address in at.items()
            if name != "partials"
        }
        sizes = self.shape(rows), self.shape(elements)
        how: Any = {"is_ordered": is_ordered, "in_groups": True, "aligns": self.in_pairs}
        return View(*sizes, fields, at["partials"], self.split, self.unroll, **how)

    def cycles(self, cores: int, rows: Axes, reductions: int, each: int) -> float:
        """Cycles of a view on so many cores, about; each: cycles of an element."""
        count = prod(self.shape(rows))
        sizes = count, prod(self.sizes.values()) // count, reductions, cores
        return each * effort(*sizes, sharing_of(self.split, *sizes, in_groups=True))

    def _steps(self, name: str) -> dict[str, int]:
        """Bytes along a tensor's axes."""
        own = self.axes(name)
        steps = row_major(0, self.shape(own), self.element_of(name)).steps
        return dict(zip(own, steps, strict=True))

    @property
    def images(self) -> Axes:
        """Axes that means have, and gammas have not."""
        return tuple(axis for axis in self.means if axis not in self.gamma)

    @property
    def has_one_image(self) -> bool:
        """Are sums of channels those of gammas?"""
        return prod(self.shape(self.images)) == 1

    @property
    def passes(self) -> Passes:
        """What goes over tensors in L2."""
        return self._passes(self.x)

    @property
    def passes_of_channels(self) -> Passes:
        """What goes over what channels have one of."""
        return self._passes(self.channels)

    def _passes(self, order: Axes) -> Passes:
        sizes = {axis: self.sizes[axis] for axis in order}
        single = (*MEANS, *OF_CHANNELS, *PARAMETERS)
        return Passes(sizes, self.axes, self.split, self.unroll, self.element, single)

    # As arrays

    def numbers(self, axes: Axes) -> tuple[int, ...]:
        """Where axes are among all."""
        return tuple(number for number, axis in enumerate(self.sizes) if axis in axes)

    @property
    def averaged(self) -> tuple[int, ...]:
        """Numbers of the axes that means are over."""
        return self.numbers(tuple(axis for axis in self.sizes if axis not in self.means))

    def spread(self, name: str, array: np.ndarray) -> np.ndarray:
        """A tensor with all axes; those that it has not are 1."""
        own = self.axes(name)
        ordered = [axis for axis in self.sizes if axis in own]
        dims = array.reshape(self.shape(own)).transpose([own.index(axis) for axis in ordered])
        return dims.reshape([size if a in own else 1 for a, size in self.sizes.items()])

    def gather(self, name: str, result: Expected, shape: tuple[int, ...]) -> Expected:
        """The other way round, of values and errors."""
        own = self.axes(name)
        ordered = tuple(axis for axis in self.sizes if axis in own)
        full = [size if axis in own else 1 for axis, size in self.sizes.items()]
        exact, bound = (
            np.broadcast_to(array, full)
            .reshape(self.shape(ordered))
            .transpose([ordered.index(axis) for axis in own])
            .reshape(shape)
            for array in result
        )
        return exact, bound


@dataclass(frozen=True)
class Norm:
    """One of the normalisations.

    means, gamma    axes of means, and of gamma and beta
    element         type of what is like x; all else is single precision
    """

    name: str
    arguments: type[Any]
    means: Axes
    gamma: Axes
    is_centred: bool = True
    is_frozen: bool = False
    element: Element = F32

    @property
    def has_running(self) -> bool:
        """Has it running means?"""
        return self.arguments is BatchArguments or self.is_frozen

    def layout(self, point: Any) -> Layout:
        """Axes of its tensors.

        raises    KernelError for arguments that it cannot have
        """
        groups = getattr(point, "groups", 1)
        if groups > 1 and point.c % groups:
            raise KernelError(f"{self.name}: c {point.c} is no multiple of groups {groups}")
        if self.arguments is BatchArguments and point.b * point.hw == 1:
            raise KernelError("batchnorm: b 1 and hw 1 give one value a channel, no variance")
        of = point.sizes, point.order, self.means, self.gamma
        return Layout(*of, point.split, point.unroll, self.element)


NORMS = (
    Norm("batchnorm", BatchArguments, ("c",), ("c",)),
    Norm("batchnorm_frozen", MapArguments, ("c",), ("c",), is_frozen=True),
    Norm("instancenorm", MapArguments, ("b", "c"), ("c",)),
    Norm("groupnorm", GroupArguments, ("b", "groups"), ("groups", "size")),
    Norm("layernorm", RowArguments, ("rows",), ("columns",)),
    Norm("rmsnorm", RowArguments, ("rows",), ("columns",), is_centred=False),
)
