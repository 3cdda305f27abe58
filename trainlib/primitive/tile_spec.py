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
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.primitive.per_core import Alone
from trainlib.primitive.slices import Axis, Box, Forms, Ranges, Sized, TileShape, box_of
from trainlib.primitive.tensor import Addresses, Tensors

TAPER = 8  # elements that the last tile is a multiple of where it is cut once more
ALIKE = 4  # tiles at either end of a dimension, which what lies between is like
LEAST_REST, MOST_REST = 1 / 4, 2 / 3  # of a tile, what may come before all others
GROWTH = 2  # how much larger than its neighbour a tile is at most, where their sizes differ
UNSURE = 1.02  # times as many cycles are expected with a smaller first tile as are estimated
EACH = "each"  # how much of a tile whose size the table says is computed: a register
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Dim:
    """A loop over tiles.

    size         elements
    unit         sizes of tiles that do not waste work are multiples of it
    is_summed    outputs are sums over it: they stay in L1 while it advances. Such are innermost
    limit        the largest size of a tile; None: all of it
    multiple     sizes that are chosen are multiples of it, or all
    near         multiples of it next to equal parts are tried, too, since cores share them evenly
    """

    name: str
    size: int
    unit: int = 1
    is_summed: bool = False
    limit: int | None = None
    multiple: int = 1
    near: int = 0

    @property
    def most(self) -> int:
        """The largest size of a tile."""
        return self.size if self.limit is None else min(self.size, self.limit)


@dataclass(frozen=True)
class Tile:
    """A tile: its shape, and its boxes by tensor.

    each      elements that each core computes of a dimension of which tiles have several sizes; or
              those of the dimension that the table tells, negative in a tile that begins sums of
              which nothing is there
    """

    shape: TileShape
    boxes: Mapping[str, Box]
    each: int | None = None


@dataclass(frozen=True)
class Costs:
    """Estimates by which sizes of tiles are chosen, besides those of computing and copying.

    kernel     cycles of a tile outside its inner loops
    cold       cycles of a function's instruction cache misses, the first time
    revisit    cycles, of all cores together, for each result that a further tile adds to
    """

    kernel: float = 0
    cold: float = 1000
    revisit: float = 0


class CodeCost(NamedTuple):
    """What the code for a tile takes, nearly.

    cycles          of the slowest core
    instructions    of the code that a core runs through, each counted once; 0: not known
    """

    cycles: float
    instructions: float = 0


class Timed(NamedTuple):
    """What is added to the code of tiles, where that is known.

    step       cycles of a step
    cold       of the instruction cache misses of a function
    new        of those of an instruction of it that a core runs through
    crowded    that cores lose to a cycle of the DMA, in banks and as they start copies
    shown      part of the first and the last copies that code which is fetched does not hide
    unsure     what smaller first tiles are multiplied by: what they gain errs as estimates do
    """

    step: float
    cold: float
    new: float = 0
    crowded: float = 0
    shown: float = 1
    unsure: float = UNSURE


ALONE = Timed(100, 400)
"""Of a kernel."""
SIZED = Timed(45, 0, new=4.5, unsure=1)
"""Of a kernel where it is known how much code that is: fitted to 215 tiles of 53 products, which
that errs by 2.8 %, and by 3.2 with the same for every function."""


@dataclass(frozen=True)
class Tiling:
    """How a primitive is cut, and what computes a tile.

    dims          its loops, outermost first, those that are summed over last
    boxes         by tensor: for each axis what it follows
    emit          emit the computation of a tile, given L1 addresses by name: the contract of
                  emitters, see trainlib.primitive.operator. Outputs hold nothing for the first tile
                  of a sum, and what the tile before has left for the others
    scratch       bytes of further buffers in L1, by name, given what has the sizes of dimensions: a
                  tile's shape, or arrays of the sizes that are tried
    rate          multiply-adds, or elements where there are none, per cycle of all cores: to choose
                  the sizes of tiles by
    work          given sizes of dimensions, as scratch is, cycles of a tile; None: by the rate
    busy          given sizes likewise, the part of the time in which cores have work, of what the
                  slowest takes: to choose the sizes of tiles by; None: all
    costs         further estimates, by which the sizes of tiles are chosen
    timed         what the code for a tile of a shape takes, as scheduled: to choose by among the
                  sizes of tiles that take nearly as few cycles; None: not known
    timing        what is added to that, of a kernel
    times_called  is that better in a network's function, too? Not of products, whose steps cost
                  more there than their schedule says
    tells_last    does the code for a tile depend on is_last? If not, fewer functions do
    streams       is copying what takes longest? Then the last tile of all is cut once more along
                  the innermost dimension that is cut, since nothing hides its computation; and
                  cores begin one after the other: those that begin at once meet in every bank
    forms         tensors whose parts do not lie row after row
    grows         given sizes, the dimension, if any, of which the code for tiles takes from a
                  register how much each core computes, as many cores as there are: then tiles at
                  the ends are small, whose copies nothing hides, and those between are larger
    told          the summed dimension, if any, of which the code for tiles takes from a register
                  how much they have, where it is cut: then one function does for all sizes, and for
                  tiles that begin sums
    rest_first    where one dimension is cut, does the smaller tile come first, if more is read than
                  written along it? Then cores wait for less before they begin, and sums need one
                  function less
    alone         what each core can do by itself, if anything: see trainlib.tiling.per_core_loop
    """

    dims: tuple[Dim, ...]
    boxes: Mapping[str, tuple[Axis, ...]]
    emit: Callable[[Kernel, Team, TileShape, Addresses], None]
    scratch: Callable[[Sized], dict[str, Any]] | None = None
    rate: float = 4.0
    work: Callable[[Sized], Any] | None = None
    busy: Callable[[Sized], Any] | None = None
    costs: Costs = Costs()
    timed: Callable[[TileShape], CodeCost] | None = None
    timing: Timed = ALONE
    times_called: bool = True
    tells_last: bool = False
    streams: bool = False
    forms: Forms = field(default_factory=dict)
    grows: Callable[[Sizes], str | None] | None = None
    told: str | None = None
    rest_first: bool = False
    alone: Callable[[], Alone | None] = lambda: None

    def whole(self, tensors: Tensors) -> Tile:
        """The one tile that is everything."""
        return self.tile({dim.name: range(dim.size) for dim in self.dims}, tensors)

    def tiles(
        self, sizes: Sizes, tensors: Tensors, cores: int = 1, *, ends_only: bool = False
    ) -> Iterator[Tile]:
        """All tiles of these sizes in the order of the loops, less at the borders.

        cores        that compute them
        ends_only    of each dimension just those that any other is like, nearly
        """
        grown = self._grown(sizes, cores)
        ranges = [
            list(grown[dim.name]) if dim.name in grown else self.ranges(dim, sizes, tensors)
            for dim in self.dims
        ]
        if ends_only:
            ranges = [
                places if dim.name in grown else self._ends(dim, places)
                for dim, places in zip(self.dims, ranges, strict=True)
            ]
        for place in self._tapered(list(product(*ranges))):
            there = dict(zip((d.name for d in self.dims), place, strict=True))
            tile = self.tile(there, tensors)
            for name, parts in grown.items():
                largest = self.tile({**there, name: max(parts, key=len)}, tensors).shape
                each = len(there[name]) // cores
                tile = replace(tile, shape=replace(largest, is_grown=True), each=each)
            yield self._told(tile, there, sizes, tensors) if self.tells(sizes) else tile

    def tells(self, sizes: Sizes) -> bool:
        """Does the table tell how much tiles of these sizes have of a dimension?"""
        whole = next((dim.size for dim in self.dims if dim.name == self.told), 0)
        is_cut = self.told is not None and 1 < sizes[self.told] < whole
        return is_cut and all(self._lies_alike(axes, sizes) for axes in self.boxes.values())

    def _lies_alike(self, axes: tuple[Axis, ...], sizes: Sizes) -> bool:
        """Do parts with less of the dimension that is told lie as those with more? Rows keep their
        distance, so it must be along rows, or of a part that has one of whatever is further apart.
        """
        if self.told not in axes[:-1]:
            return True
        before = axes[: axes.index(self.told)]
        return all(isinstance(axis, str) and sizes[axis] == 1 for axis in before)

    def _told(self, tile: Tile, there: Ranges, sizes: Sizes, tensors: Tensors) -> Tile:
        """The same as one that begins no sums and has as much of that dimension as any: rows in L1
        lie as far apart as those of such a tile.
        """
        assert self.told
        like = self.tile({**there, self.told: range(1, 1 + sizes[self.told])}, tensors)
        boxes = {
            name: replace(box, part=replace(box.part, row=like.boxes[name].part.row))
            for name, box in tile.boxes.items()
        }
        count = len(there[self.told])
        is_added = any(tensor.role == "inout" for tensor in tensors.values())
        each = -count if tile.shape.is_first and not is_added else count
        return Tile(replace(like.shape, is_grown=True), boxes, each)

    def ranges(self, dim: Dim, sizes: Sizes, tensors: Tensors) -> list[range]:
        """The ranges of a dimension that tiles of these sizes have, all as long but one."""
        size = sizes[dim.name]
        is_only = all(sizes[d.name] == d.size for d in self.dims if d != dim)
        is_first = is_only and self.begins_with_rest(dim, size, tensors)
        return parts_of(dim, size, dim.size % size if is_first else size)

    def begins_with_rest(self, dim: Dim, size: int, tensors: Tensors) -> bool:
        """Does the smaller tile of a dimension come first, where it alone is cut? If it is large
        enough for the next one's copies, and small enough to make a difference.
        """
        if not LEAST_REST < dim.size % size / size < MOST_REST:
            return False
        return self.may_begin_with_rest(dim, tensors)

    def may_begin_with_rest(self, dim: Dim, tensors: Tensors) -> bool:
        """Is more read than written along a dimension?"""
        if not self.rest_first or self.streams:
            return False
        follow = [tensor for name, tensor in tensors.items() if dim.name in self.follows(name)]
        read, written = (
            sum(tensor.elements for tensor in follow if tensor.role != other)
            for other in ("out", "in")
        )
        return read > written

    def _ends(self, dim: Dim, places: list[range]) -> list[range]:
        """The first and the last; where boxes look through windows, more of them."""
        axes = [axis for some in self.boxes.values() for axis in some]
        looks = [axis for axis in axes if axis is not None and not isinstance(axis, str)]
        count = ALIKE if any(look.dim == dim.name for look in looks) else 1
        return places[:count] + places[count:][-count:]

    def _grown(self, sizes: Sizes, cores: int) -> dict[str, list[range]]:
        """The parts of the dimension, by its name, of which tiles have several sizes, if any."""
        name = self.grows(sizes) if self.grows else None
        size = next((dim.size for dim in self.dims if dim.name == name), 0)
        if not name or sizes[name] == size or sizes[name] % cores or size % cores:
            return {}
        lengths = [cores * length for length in growing(size // cores, sizes[name] // cores)]
        ends = list(accumulate(lengths, initial=0))
        return {name: [range(*ends) for ends in pairwise(ends)]}

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
        boxes = {name: box_of(tensors[name], axes, there) for name, axes in self.boxes.items()}
        summed = [(there[dim.name], dim.size) for dim in self.dims if dim.is_summed]
        shape = TileShape(
            tuple((name, len(place)) for name, place in there.items()),
            tuple((name, box.part) for name, box in boxes.items()),
            all(place.start == 0 for place, _ in summed),
            self.tells_last and all(place.stop == size for place, size in summed),
        )
        if not self.forms:
            return Tile(shape, boxes)
        for name, formed in self.forms.items():
            part = replace(boxes[name].part, form=formed.form(shape, tensors))
            boxes[name] = replace(boxes[name], part=part)
        return Tile(replace(shape, parts=tuple((n, box.part) for n, box in boxes.items())), boxes)

    def least(self, name: str, tensors: Tensors) -> int:
        """Bytes of a tensor that are copied at least: what some element of the dimensions needs."""
        if name in self.forms:
            form = self.whole(tensors).boxes[name].part.form
            assert form
            return form.bytes
        sizes, found = {dim.name: dim.size for dim in self.dims}, tensors[name].item
        for axis, size in zip(self.boxes[name], tensors[name].shape, strict=True):
            if axis is not None and not isinstance(axis, str):
                looks = (axis.of(range(i, i + 1)) for i in range(sizes[axis.dim]))
                size = len({place for look in looks for place in look} & {*range(size)})
            found *= size
        return found

    def follows(self, name: str) -> set[str]:
        """The dimensions that a tensor's box depends on."""
        axes = self.boxes[name]
        return {axis if isinstance(axis, str) else axis.dim for axis in axes if axis is not None}


def parts_of(dim: Dim, size: int, first: int) -> list[range]:
    """The ranges of a dimension from a first one on, of the same size but the last one."""
    ends = [0, *range(first, dim.size, size), dim.size]
    return [range(*ends) for ends in pairwise(ends)]


def growing(total: int, most: int) -> list[int]:
    """Sizes up to `most` that add up to 2 or more, none GROWTH times as large as a neighbour.

    They begin and end with 1; the largest are in the middle.
    """
    ends = [1]
    while 2 * (sum(ends) + (size := min(most, GROWTH * ends[-1]))) <= total and size > ends[-1]:
        ends.append(size)
    while (left := total - 2 * sum(ends)) and left * GROWTH < ends[-1]:
        ends.pop()
    times = -(-left // min(most, GROWTH * ends[-1]))
    middle = [left // times + (i < left % times) for i in range(times)]
    return [*ends, *middle, *reversed(ends)]
