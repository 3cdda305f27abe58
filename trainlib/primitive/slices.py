"""Boxes: which part of a tensor a tile needs, and how that lies in L1."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from trainlib.primitive.l1_layout import Effort, Form
from trainlib.primitive.tensor import WORD, Tensor, Tensors

Ranges = Mapping[str, range]


class Look(Protocol):
    """The range of an axis that a range of a dimension needs."""

    @property
    def dim(self) -> str: ...

    def of(self, there: range) -> range:
        """The range of the axis; it may begin before the tensor, and end after it."""

    def phase(self, there: range) -> int:
        """What the code for a tile must know of where it lies, beside sizes."""


@dataclass(frozen=True)
class Window:
    """Element i of the dimension looks at kernel elements, the first at i * stride - before."""

    dim: str
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    def of(self, there: range) -> range:
        first = there.start * self.stride - self.before
        last = there[-1] * self.stride - self.before + (self.kernel - 1) * self.dilation
        return range(first, last + 1)

    def phase(self, there: range) -> int:
        return 0


@dataclass(frozen=True)
class Spread:
    """The windows that look at element i of the dimension: the other way round.

    phase    elements of the dimension from the start of the first window to the tile's start
    """

    dim: str
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    def of(self, there: range) -> range:
        reach = (self.kernel - 1) * self.dilation
        first = -((reach - there.start - self.before) // self.stride)
        return range(first, (there[-1] + self.before) // self.stride + 1)

    def phase(self, there: range) -> int:
        return there.start + self.before - self.of(there).start * self.stride


Axis = str | Look | None
"""A dimension, what one looks at, or all of the axis."""


class Sized(Protocol):
    """Something that has the sizes of dimensions by name."""

    def __getitem__(self, dim: str, /) -> Any: ...


@dataclass(frozen=True)
class TensorSlice:
    """The part of a tensor that a tile has in L1: row-major, rows `row` bytes apart.

    shape            elements
    before, after    elements by axis that the box has outside of the tensor
    phase            by axis, see Look
    form             how it lies in L1, if not row after row
    joined           the last axes that make a row
    """

    shape: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    phase: tuple[int, ...]
    row: int
    form: Form | None = None
    item: int = WORD
    joined: int = 1

    @property
    def elements(self) -> int:
        """How many there are."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes in L1."""
        return self.form.size if self.form else prod(self.shape[: -self.joined]) * self.row

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes in L1 from an element to the next, by axis."""
        strides = [self.item]
        for axis in range(len(self.shape) - 1, 0, -1):
            is_row = len(strides) == self.joined
            strides.append(self.row if is_row else strides[-1] * self.shape[axis])
        return tuple(reversed(strides[: len(self.shape)]))


@dataclass(frozen=True)
class TileShape:
    """All that the code for a tile depends on: one function does for all tiles of the same shape.

    sizes                elements by dimension: shape["y"]
    parts                of each tensor: shape.part("X")
    is_first             does it begin the sums over the summed dimensions?
    is_last              does it end them? False where the tiling does not tell
    is_grown             does the code take from register EACH how much of it is computed? Then this
                         is the shape of the largest tile
    """

    sizes: tuple[tuple[str, int], ...]
    parts: tuple[tuple[str, TensorSlice], ...]
    is_first: bool
    is_last: bool
    is_grown: bool = False

    def __getitem__(self, dim: str) -> int:
        return dict(self.sizes)[dim]

    def part(self, name: str) -> TensorSlice:
        return dict(self.parts)[name]


@dataclass(frozen=True)
class Box:
    """The part of a tensor that a tile needs: first elements and counts, inside the tensor."""

    start: tuple[int, ...]
    part: TensorSlice

    @classmethod
    def of_all(cls, tensor: Tensor) -> "Box":
        """The whole tensor."""
        nothing = (0,) * len(tensor.shape)
        whole = tensor.shape, nothing, nothing, nothing, tensor.row
        return cls(nothing, TensorSlice(*whole, item=tensor.item, joined=tensor.joined))

    @property
    def elements(self) -> int:
        """How many there are."""
        return prod(self.part.shape)


class Formed(Protocol):
    """A tensor whose parts have a form."""

    @property
    def is_needed(self) -> bool:
        """Can code not do without it, where others share the whole tensor in L1?"""

    def form(self, shape: TileShape, tensors: Tensors) -> Form:
        """That of a tile's part."""

    def bytes(self, sizes: Sized) -> Any:
        """In L1, given what has the sizes of dimensions: a tile's shape, or arrays of sizes."""

    def effort(self, sizes: Sized) -> Effort:
        """Work of the DMA for it, about."""


Forms = Mapping[str, Formed]


def box_of(tensor: Tensor, axes: tuple[Axis, ...], there: Ranges) -> Box:
    """What of a tensor the ranges of dimensions need, as its axes follow them."""
    wanted, phase = [], []
    for axis, size in zip(axes, tensor.shape, strict=True):
        if axis is None:
            wanted.append(range(size))
            phase.append(0)
        elif isinstance(axis, str):
            wanted.append(there[axis])
            phase.append(0)
        else:
            wanted.append(axis.of(there[axis.dim]))
            phase.append(axis.phase(there[axis.dim]))
    inside = [
        range(max(r.start, 0), max(min(r.stop, size), max(r.start, 0)))
        for r, size in zip(wanted, tensor.shape, strict=True)
    ]
    part = TensorSlice(
        tuple(len(r) for r in inside),
        tuple(i.start - w.start for i, w in zip(inside, wanted, strict=True)),
        tuple(w.stop - i.stop for i, w in zip(inside, wanted, strict=True)),
        tuple(phase),
        tensor.row_of(prod(map(len, inside[-tensor.joined :]))),
        item=tensor.item,
        joined=tensor.joined,
    )
    return Box(tuple(r.start for r in inside), part)
