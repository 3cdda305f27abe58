"""How a primitive is cut into tiles: its loops, and which part of each tensor a tile needs.

    Tiling(
        dims=(Dim("y", height, unit=8), Dim("ci", channels, is_summed=True)),
        boxes={"X": ("ci", Window("y", kernel=3, before=1), None), "Y": (..., "y", None)},
        emit=emit_tile,
    )

A tile is a range of every dimension, the first one the outermost loop. A tensor's box says which
range of each axis a tile needs: that of a dimension, what that looks at through a window, or all.
What lies outside of the tensor is not copied: the code for the tile is told how much there is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Protocol

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.kernels import WORD, Addresses, Tensor, Tensors

TAPER = 8  # elements that the last tile is a multiple of where it is cut once more
Ranges = Mapping[str, range]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Dim:
    """A loop over tiles.

    size         elements
    unit         sizes of tiles that do not waste work are multiples of it
    is_summed    outputs are sums over it: they stay in L1 while it advances. Such are innermost
    """

    name: str
    size: int
    unit: int = 1
    is_summed: bool = False


class Look(Protocol):
    """What of an axis a range of a dimension needs."""

    @property
    def dim(self) -> str: ...

    def of(self, there: range) -> range:
        """The range of the axis; it may begin before the tensor, and end behind it."""

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
    """What has the sizes of dimensions by name."""

    def __getitem__(self, dim: str, /) -> Any: ...


@dataclass(frozen=True)
class Part:
    """What a tile has of a tensor in L1: row-major, rows `row` bytes apart.

    shape            elements
    before, after    elements by axis that the box has outside of the tensor
    phase            by axis, see Look
    """

    shape: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    phase: tuple[int, ...]
    row: int

    @property
    def elements(self) -> int:
        """How many there are."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes in L1."""
        return prod(self.shape[:-1]) * self.row

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes in L1 from an element to the next, by axis."""
        strides = [WORD]
        for axis in range(len(self.shape) - 1, 0, -1):
            strides.append(self.row if len(strides) == 1 else strides[-1] * self.shape[axis])
        return tuple(reversed(strides[: len(self.shape)]))


@dataclass(frozen=True)
class TileShape:
    """All that the code for a tile depends on: one function does for all tiles of the same shape.

    sizes                elements by dimension: shape["y"]
    parts                of each tensor: shape.part("X")
    is_first             does it begin the sums over the summed dimensions?
    is_last              does it end them? False where the tiling does not tell
    """

    sizes: tuple[tuple[str, int], ...]
    parts: tuple[tuple[str, Part], ...]
    is_first: bool
    is_last: bool

    def __getitem__(self, dim: str) -> int:
        return dict(self.sizes)[dim]

    def part(self, name: str) -> Part:
        return dict(self.parts)[name]


@dataclass(frozen=True)
class Box:
    """The part of a tensor that a tile needs: first elements and counts, inside the tensor."""

    start: tuple[int, ...]
    part: Part

    @classmethod
    def of_all(cls, tensor: Tensor) -> "Box":
        """The whole tensor."""
        nothing = (0,) * len(tensor.shape)
        return cls(nothing, Part(tensor.shape, nothing, nothing, nothing, tensor.row))


@dataclass(frozen=True)
class Tile:
    """A tile: its shape, and its boxes by tensor."""

    shape: TileShape
    boxes: Mapping[str, Box]


@dataclass(frozen=True)
class Tiling:
    """How a primitive is cut, and what computes a tile.

    dims          its loops, outermost first, those that are summed over last
    boxes         by tensor: for each axis what it follows
    emit          emit the computation of a tile, given L1 addresses by name: the contract of
                  emitters, see trainlib.kernels. Outputs hold nothing for the first tile of a sum,
                  and what the tile before has left for the others
    scratch       bytes of further buffers in L1, by name, given what has the sizes of dimensions: a
                  tile's shape, or arrays of the sizes that are tried
    rate          multiply-adds, or elements where there are none, per cycle of all cores: to choose
                  the sizes of tiles by
    tells_last    does the code for a tile depend on is_last? If not, fewer functions do
    streams       is copying what takes longest? Then the last tile of all is cut once more along
                  the innermost dimension that is cut, since nothing hides its computation; and
                  cores begin one behind the other: those that begin at once meet in every bank
    """

    dims: tuple[Dim, ...]
    boxes: Mapping[str, tuple[Axis, ...]]
    emit: Callable[[Kernel, Team, TileShape, Addresses], None]
    scratch: Callable[[Sized], dict[str, Any]] | None = None
    rate: float = 4.0
    tells_last: bool = False
    streams: bool = False

    def whole(self, tensors: Tensors) -> Tile:
        """The one tile that is everything."""
        return self.tile({dim.name: range(dim.size) for dim in self.dims}, tensors)

    def tiles(self, sizes: Sizes, tensors: Tensors) -> Iterator[Tile]:
        """All tiles of these sizes in the order of the loops, less at the borders."""
        ranges = [
            [
                range(at, min(at + sizes[dim.name], dim.size))
                for at in range(0, dim.size, sizes[dim.name])
            ]
            for dim in self.dims
        ]
        for places in self._tapered(list(product(*ranges))):
            yield self.tile(dict(zip((d.name for d in self.dims), places, strict=True)), tensors)

    def _tapered(self, places: list[tuple[range, ...]]) -> list[tuple[range, ...]]:
        """The last one cut in two."""
        last = places[-1]
        cut = [i for i, dim in enumerate(self.dims) if len(last[i]) < dim.size]
        if not self.streams or not cut or len(last[cut[-1]]) <= TAPER:
            return places
        at, place = cut[-1], last[cut[-1]]
        middle = place.stop - -(-len(place) * 3 // 8 // TAPER) * TAPER
        halves = range(place.start, middle), range(middle, place.stop)
        return [*places[:-1], *((*last[:at], half, *last[at + 1 :]) for half in halves)]

    def tile(self, there: Ranges, tensors: Tensors) -> Tile:
        """The tile at these ranges."""
        boxes = {name: _box(tensors[name], axes, there) for name, axes in self.boxes.items()}
        summed = [(there[dim.name], dim.size) for dim in self.dims if dim.is_summed]
        shape = TileShape(
            tuple((name, len(place)) for name, place in there.items()),
            tuple((name, box.part) for name, box in boxes.items()),
            all(place.start == 0 for place, _ in summed),
            self.tells_last and all(place.stop == size for place, size in summed),
        )
        return Tile(shape, boxes)

    def follows(self, name: str) -> set[str]:
        """The dimensions that a tensor's box depends on."""
        axes = self.boxes[name]
        return {axis if isinstance(axis, str) else axis.dim for axis in axes if axis is not None}


def _box(tensor: Tensor, axes: tuple[Axis, ...], there: Ranges) -> Box:
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
    part = Part(
        tuple(len(r) for r in inside),
        tuple(i.start - w.start for i, w in zip(inside, wanted, strict=True)),
        tuple(w.stop - i.stop for i, w in zip(inside, wanted, strict=True)),
        tuple(phase),
        tensor.row_of(len(inside[-1])),
    )
    return Box(tuple(r.start for r in inside), part)
