"""Sizes of tiles: those that fit L1, and among them those that should take the fewest cycles.

The estimate: the longer of computing and copying, what steps cost besides, what a function costs
when it is new, and the first and last copies, which nothing hides. It is made for all candidates at
once, as arrays with an axis for each dimension. Where a tiling knows what the code for a tile
takes, those that should take nearly the fewest are estimated by that: see Grid.timed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from firmware.arena import Arena
from firmware.builder import Kernel, KernelError
from trainlib.primitive.slices import Axis, Look
from trainlib.primitive.tensor import Tensors
from trainlib.primitive.tile_spec import UNSURE, Dim, Sizes, Tiling, Timed, parts_of
from trainlib.tiling.dma_commands import BURST
from trainlib.tiling.schedule import LEFT
from trainlib.tiling.tile_shapes import shapes_of

STEP = 200  # cycles of a step that copies do not hide, about
STREAMED_STEP = 80  # of one beside the copies that take longest: banks that cores and the DMA share
STREAMED_CODE = 100  # cycles of a function where they do, when it is new
TAPERED = 3 / 8  # of a tile, the last one there
SOONER = 0.6  # of what a smaller last part of an output is estimated to gain, as that errs
BEAT = 8  # bytes that the DMA moves in a cycle, in each direction
QUEUE = 5  # commands with lines that no core waits for: MCHAN's queue of four, and the first
MOST_ISSUERS = 8  # cores that start copies: each has two of the DMA's 16 counters for a moment
ALIGN = 16  # bytes, what buffers begin at
SMALLEST_ENTRY = 28  # bytes, in the table of steps: four words, and the command for an entry
ENTRY, COMMAND = 48, 28  # bytes there of an entry without commands, about, and of one with lines
RING = 3  # entries in L1 where they are not all there
PRICE = 0.3  # cycles that a byte of a network's tables and code is worth, to choose tiles by
FREE_TABLE = 1200  # bytes of a table that cost nothing
FUNCTION = 1500  # bytes of the code for a shape of tiles, about
TIMED_WORTH = 2  # times as much they are worth where candidates are timed, which differ by less
NEARLY = 1.3  # of the fewest cycles: what is timed by the code of its tiles
TRIED = 12  # of them that differ in more than the innermost loop
GROUPS, MORE = 3, 6  # of these, and of those that differ from one in that loop alone
NEAR = 4  # tiles next to the ends of a dimension, and on either side of its middle
HALVED = 3  # parts that are as many whole tiles and one half as large before them
FINE = 8  # parts of a dimension of which every number is tried; beyond, every eighth or so

CALLED = Timed(100, 1400, crowded=0.2)
"""Of a network's function, to which all others' code and tables are company."""


class TablesTooLong(Exception):
    """The tables of all tiles are known to be too large."""


def candidates(dim: Dim, halved: int = 0) -> list[int]:
    """Sizes to try, largest first: equal parts, and the whole units next to them.

    halved    so many of the largest are also made such that the rest is half as large
    """
    sizes, parts = {dim.multiple}, 1
    lengths = [-(-2 * dim.size // (2 * more + 1)) for more in range(1, halved + 1)]
    while parts <= dim.size:
        lengths.append(-(-dim.size // parts))
        parts += 1 if parts < FINE else parts // FINE
    for size in lengths:
        units = {dim.unit, dim.near or dim.unit}
        whole = {at for unit in units for at in (size // unit * unit, -(-size // unit) * unit)}
        size = min(-(-size // dim.multiple) * dim.multiple, dim.size)
        sizes |= {size} | {near for near in whole if 0 < near < dim.size}
    return sorted((size for size in sizes if size <= dim.most), reverse=True)


@dataclass(frozen=True)
class TableRoom:
    """The room in L2 that the table of steps may take.

    bytes     of it
    scale     how much larger tables are than they are estimated, about
    too_long  sizes of tiles with which tables are known to be too large
    price     cycles that a byte of it and of code is worth: L2 is for others, too
    """

    bytes: float = np.inf
    scale: float = 0.5
    too_long: tuple[Sizes, ...] = ()
    price: float = 0

    def after(self, sizes: Sizes, estimate: float, size: int) -> "TableRoom":
        """Add that a table has so many bytes, too many; those half as much too large stay.

        NOTE: estimates are good to a factor of two, and the fewer the tiles, the slower.
        """
        scale = max(self.scale, (size * self.bytes) ** 0.5 / estimate)
        return replace(self, scale=scale, too_long=(*self.too_long, sizes))


@dataclass(frozen=True)
class Choice:
    """The choice of sizes.

    room        what is left of L1
    reserved    bytes of it that are for something else
    table       what of L2 the table of steps may take
    grids       what is estimated: the same where less is reserved, or more is known of tables
    """

    name: str
    tiling: Tiling
    tensors: Tensors
    buffers: int
    room: Arena
    reserved: int
    table: TableRoom = TableRoom()
    grids: dict[tuple[Any, ...], "Grid"] = field(default_factory=dict, repr=False, compare=False)

    def sizes(self, given: Sizes) -> dict[str, int]:
        """Choose the sizes that are not given: where no table should fit L2, those of the smallest.

        raises    KernelError for sizes that do not exist, or do not fit
        """
        self.check(given)
        grid = self.grid(given)
        fits = grid.bytes <= self.free
        if not fits.any():
            raise KernelError(self._refusal(given, grid))
        if not given:
            fits &= self._usual(grid)
        fits &= self._may_be_short(grid)
        if not fits.any():
            raise TablesTooLong
        has_entries = fits & (grid.tiles * SMALLEST_ENTRY <= self.table.bytes)
        fits = has_entries if has_entries.any() else fits
        fits_both = fits & (grid.table * self.table.scale <= self.table.bytes)
        if fits_both.any():
            best = self._fastest(grid, np.where(fits_both, grid.cycles, np.inf))
        else:
            best = int(np.where(fits, grid.table, np.inf).argmin())
        return grid.sizes(best)

    def _fastest(self, grid: "Grid", cycles: np.ndarray) -> int:
        """Index of what should take the fewest of these cycles, or, of those that take nearly as
        few, by what the code takes, where the tiling knows that. Tried are first some that differ
        in more than the innermost loop, then more that differ from the best of them in that alone.
        """
        best = int(cycles.argmin())
        is_timed = self.tiling.times_called or not self.table.price
        if self.tiling.timed is None or not is_timed or cycles.size == 1:
            return best
        order = np.argsort(cycles, axis=None, kind="stable")
        near = order[: np.searchsorted(cycles.flat[order], NEARLY * cycles.flat[best])]
        groups: dict[int, list[int]] = {}  # of those that differ in the innermost loop alone
        for index in map(int, near):
            groups.setdefault(index // cycles.shape[-1], []).append(index)
        firsts = [group[0] for group in groups.values()][:TRIED]
        times = grid.timed(firsts)
        better = sorted(firsts, key=lambda index: times.flat[index])[:GROUPS]
        more = [index for first in better for index in groups[first // cycles.shape[-1]][:MORE]]
        return int(np.minimum(times, grid.timed(more)).argmin())

    def grid(self, given: Sizes) -> "Grid":
        """The combinations of sizes that are tried; one if all sizes are given."""
        key = self.buffers, self.table.price, *sorted(given.items())
        if key not in self.grids:
            dims = self.tiling.dims
            tried = [[given[dim.name]] if dim.name in given else self._tried(dim) for dim in dims]
            self.grids[key] = Grid(self, tried)
        return self.grids[key]

    def _tried(self, dim: Dim) -> list[int]:
        """Sizes of a dimension."""
        begins = self.tiling.may_begin_with_rest(dim, self.tensors)
        return candidates(dim, HALVED if begins else 0)

    def _usual(self, grid: "Grid") -> np.ndarray:
        """Those with equal parts, or a first tile that is smaller."""
        usual = np.ones((), bool)
        for i, dim in enumerate(self.tiling.dims):
            equal = set(candidates(dim))
            usual = usual & (grid.along(i, [size in equal for size in grid.tried[i]]) > 0)
        return usual | grid.begins_small

    def _may_be_short(self, grid: "Grid") -> np.ndarray:
        """Those with tables that are not known to be too large."""
        found = np.ones([len(sizes) for sizes in grid.tried], bool)
        for sizes in self.table.too_long:
            both = zip(self.tiling.dims, grid.tried, strict=True)
            found[tuple(tried.index(sizes[dim.name]) for dim, tried in both)] = False
        return found

    def known(self, sizes: Sizes, table: int) -> "Choice":
        """Add how many bytes the table has with tiles of these sizes."""
        grid = self.grid(sizes)
        return replace(self, table=self.table.after(sizes, grid.table.item(), table))

    def least_table(self, given: Sizes) -> int:
        """Bytes of L2 that the smallest table takes, about; 0 if no tile fits."""
        grid = self.grid(given)
        fits = grid.bytes <= self.free
        return int(np.where(fits, grid.table, np.inf).min()) if fits.any() else 0

    def slots(self, sizes: Sizes) -> dict[str, int]:
        """Buffers of each tensor with tiles of these sizes: one if its box never changes.

        What is read again has as many more as there is room for.
        """
        grid = self.grid(sizes)
        more = grid.more_slots(self.free)
        return {name: int((slots + more[name]).item()) for name, slots in grid.slots.items()}

    def ahead(self, sizes: Sizes) -> dict[str, int]:
        """How many boxes of each tensor are used while the next one is copied, see
        trainlib.tiling.schedule.stays: more than one only of what is read again.
        """
        grid = self.grid(sizes)
        again = [name for name in grid.slots if grid.again(name).item()]
        return {name: max(int(grid.ahead(name).item()), 1) for name in again}

    def is_copying(self, sizes: Sizes) -> bool:
        """Does copying take longer than computing, with tiles of these sizes?"""
        grid = self.grid(sizes)
        return bool((grid.copying > grid.work).all())

    @property
    def has_any(self) -> bool:
        """Does any tile fit? The smallest nearly always does, if one does."""
        smallest = {dim.name: min(self._tried(dim)) for dim in self.tiling.dims}
        return any((self.grid(given).bytes <= self.free).any() for given in (smallest, {}))

    @property
    def free(self) -> int:
        """Bytes for tiles."""
        start = -(-self.room.next // ALIGN) * ALIGN
        end = self.room.base + self.room.size - self.room.guard
        return end - start - self.reserved

    def check(self, given: Sizes) -> None:
        """Raise KernelError for a dimension that there is not, or a size that is none."""
        sizes = {dim.name: dim.most for dim in self.tiling.dims}
        for name, size in given.items():
            if name not in sizes:
                raise KernelError(
                    f"{self.name}: tile.{name} = {size}: no such dimension; there are "
                    f"{', '.join(sizes)}"
                )
            if not 1 <= size <= sizes[name]:
                raise KernelError(
                    f"{self.name}: tile.{name} = {size}: a size is from 1 to {sizes[name]}"
                )

    def _refusal(self, given: Sizes, grid: "Grid") -> str:
        """What is too large, by how much, and what would fit."""
        least = int(grid.bytes.argmin())
        what = "a tile" if len(given) == len(self.tiling.dims) else "the smallest tile"
        largest = self.grid({}).largest(self.free)
        hint = f"the largest that fits is {_shown(largest)}" if largest else "none fits"
        needed, free = int(grid.bytes.flat[least]), f"{self.free} are free; {hint}"
        if self.free < 0:
            free = f"what else lies there {-self.free} more than there are; take a larger l1.size"
        return (
            f"{self.name}: {what} of {_shown(grid.sizes(least))} needs {needed} bytes of L1 with "
            f"buffers = {self.buffers}, {free}"
        )


def _shown(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


@dataclass(frozen=True)
class Grid:
    """All combinations of sizes that are tried: arrays with an axis for each dimension."""

    choice: Choice
    tried: list[list[int]]

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.choice.tiling.dims

    def sizes(self, index: int) -> dict[str, int]:
        """The sizes of one of them."""
        places = np.unravel_index(index, tuple(len(sizes) for sizes in self.tried))
        chosen = zip(self.dims, self.tried, places, strict=True)
        return {dim.name: sizes[int(place)] for dim, sizes, place in chosen}

    def largest(self, free: int) -> dict[str, int] | None:
        """The largest tile that fits; of equals, the fastest."""
        volume = _product(self.along(i, sizes) for i, sizes in enumerate(self.tried))
        volume = np.where(self.bytes <= free, volume, 0)
        if not volume.any():
            return None
        return self.sizes(int(np.where(volume == volume.max(), self.cycles, np.inf).argmin()))

    @cached_property
    def _all_sizes(self) -> dict[str, np.ndarray]:
        """Sizes of the dimensions, as arrays of all."""
        return {dim.name: self.along(i, self.tried[i]) for i, dim in enumerate(self.dims)}

    def along(self, axis: int, values: Sequence[int] | np.ndarray) -> np.ndarray:
        """Values by size of one dimension, as an array of all."""
        shape = [1] * len(self.dims)
        shape[axis] = -1
        return np.asarray(values, np.float64).reshape(shape)

    @cached_property
    def parts(self) -> list[np.ndarray]:
        """Tiles by dimension."""
        return [
            self.along(i, [-(-dim.size // size) for size in sizes])
            for i, (dim, sizes) in enumerate(zip(self.dims, self.tried, strict=True))
        ]

    @cached_property
    def part_bytes(self) -> dict[str, np.ndarray]:
        """Bytes in L1 of the largest part of each tensor."""
        found = {}
        forms = self.choice.tiling.forms
        for name, lengths in self.part_lengths.items():
            if name in forms:
                found[name] = forms[name].bytes(self._all_sizes)
                continue
            tensor = self.choice.tensors[name]
            row = tensor.row_of(_product(lengths[-tensor.joined :]))
            found[name] = _product([*lengths[: -tensor.joined], row])
        return found

    @cached_property
    def part_lengths(self) -> dict[str, list[np.ndarray]]:
        """Elements by axis of the largest part of each tensor."""
        tensors, boxes = self.choice.tensors, self.choice.tiling.boxes
        return {
            name: [self._lengths(*axis) for axis in zip(axes, tensors[name].shape, strict=True)]
            for name, axes in boxes.items()
        }

    def _lengths(self, axis: Axis, size: int) -> np.ndarray:
        """Elements of an axis in the largest tile."""
        if axis is None:
            return np.array(size)
        name = axis if isinstance(axis, str) else axis.dim
        index = [dim.name for dim in self.dims].index(name)
        tried = self.tried[index]
        if isinstance(axis, str):
            return self.along(index, tried)
        dim, tiling = self.dims[index], self.choice.tiling
        longest = []
        for tile in tried:
            begins = tiling.begins_with_rest(dim, tile, self.choice.tensors)
            ways = {tile, dim.size % tile} if begins else {tile}
            longest.append(max(_longest(axis, parts_of(dim, tile, n), size) for n in ways))
        return self.along(index, longest)

    @cached_property
    def slots(self) -> dict[str, np.ndarray]:
        """Buffers of each tensor, beside `more_slots`. What is read and overwritten has so many
        that one is free in time, see trainlib.tiling.schedule.LEFT.

        NOTE: the last tile of a tiling that streams is cut in two, which reads parts that were not
        there before: with two buffers these would wait for the tile before, and the DMA with them.
        """
        choice, found = self.choice, {}
        for name in choice.tiling.boxes:
            tensor = choice.tensors[name]
            extra: np.ndarray = np.zeros(())
            if choice.buffers > 1 and tensor.role == "inout":
                extra = np.maximum(LEFT["inout"] - self.tiles // self._visits[name], 0)
            most = np.inf if tensor.stays else choice.buffers + extra
            found[name] = np.minimum(self._visits[name], most)
            if tensor.stays and choice.tiling.streams:
                found[name] = np.where(found[name] == 2, 3, found[name])
        return found

    @cached_property
    def _visits(self) -> dict[str, np.ndarray]:
        """How often each tensor's box comes."""
        return {name: self._visits_of(name) for name in self.choice.tiling.boxes}

    def _visits_of(self, name: str) -> np.ndarray:
        inside, loops = self._loops_around(name)
        if self.choice.tensors[name].stays:
            return inside
        return inside * _product(turns for _, turns in loops)

    def _loops_around(self, name: str) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Parts of a tensor, and of each loop that comes back to some of them, the innermost first,
        how many these are and the loop's turns, one where it is around a single part.
        """
        follows, loops = self.choice.tiling.follows(name), []
        inside: np.ndarray = np.ones([len(sizes) for sizes in self.tried])
        for dim, parts in zip(reversed(self.dims), reversed(self.parts), strict=True):
            if dim.name in follows:
                inside = inside * parts
            else:
                loops.append((inside, np.where(inside > 1, parts, 1)))
        return inside, loops

    def more_slots(self, free: np.ndarray | float) -> dict[str, np.ndarray]:
        """Buffers of each tensor beside `slots`, for parts that are read again: as many as there
        are such parts, or fit `free` bytes of L1.
        """
        found, left = {}, np.maximum(free - self.bytes, 0)
        for name, slots in self.slots.items():
            found[name] = np.zeros(())
            if self.choice.tensors[name].role == "in" and self.choice.buffers > 1:
                size = self.buffer_bytes[name]  # 0 of parts that padding leaves nothing of
                more = np.minimum(self.again(name) - slots, left // np.maximum(size, 1))
                found[name] = np.maximum(more, 0)
                left = left - found[name] * size
        return found

    def again(self, name: str) -> np.ndarray:
        """Parts of a tensor that loops around them come back to; 0 if none does."""
        found = np.zeros(())
        for inside, turns in self._loops_around(name)[1]:
            found = np.where(turns > 1, inside, found)
        return found

    def ahead(self, name: str) -> np.ndarray:
        """How many tiles are computed in the time in which a part of a tensor is copied."""
        return np.ceil(self._copy_cycles[name] * self.tiles / self.work)

    @cached_property
    def _loads(self) -> dict[str, np.ndarray]:
        """How often a part of each tensor is copied to L1.

        Of n parts that come in turn, s have buffers, and a are used while the next one comes: then
        n - s of n - 1 - a are not there any more when they are needed again.
        """
        spare = RING * self.table / self.tiles
        more = self.more_slots(self.choice.free - spare)
        return {name: self._loads_of(name, self.slots[name] + more[name]) for name in self.slots}

    def _loads_of(self, name: str, slots: np.ndarray) -> np.ndarray:
        loads, loops = self._loops_around(name)
        ahead = np.minimum(np.maximum(self.ahead(name), 1), slots - 1)
        for inside, turns in loops:
            missing = np.maximum(inside - slots, 0)
            lost = np.minimum(missing / np.maximum(inside - 1 - ahead, 1), 1)
            loads = loads * (1 + (turns - 1) * lost)
        return loads

    @cached_property
    def bytes(self) -> np.ndarray:
        """Bytes of L1 that all buffers take."""
        total: np.ndarray = np.zeros([len(sizes) for sizes in self.tried])
        for name, size in self.buffer_bytes.items():
            total = total + self.slots[name] * size
        return total + self._scratch()

    @cached_property
    def buffer_bytes(self) -> dict[str, np.ndarray]:
        """Bytes of L1 that a buffer of each tensor takes."""
        guard, tensors = self.choice.room.guard, self.choice.tensors
        return {
            name: np.ceil((size + tensors[name].slack + guard) / ALIGN) * ALIGN
            for name, size in self.part_bytes.items()
        }

    def _scratch(self) -> np.ndarray:
        tiling, guard = self.choice.tiling, self.choice.room.guard
        total: np.ndarray = np.zeros(())
        if tiling.scratch is None:
            return total
        for needed in tiling.scratch(self._all_sizes).values():
            total = total + np.ceil((needed + guard) / ALIGN) * ALIGN
        return total

    @cached_property
    def cycles(self) -> np.ndarray:
        """What the whole is expected to take."""
        exposed, (inwards, outwards) = self._exposed(), self.moved
        steps = self._step * self.tiles
        costs = self.choice.tiling.costs
        computing = self.work + costs.kernel * self.tiles + self._revisits()
        if self.choice.buffers == 1:
            both = computing + inwards + outwards + steps
        elif self.choice.tiling.streams and not self.choice.table.price:
            return self._streamed(computing)
        else:
            both = np.maximum(computing, self.copying) + exposed + self._queueing()
            both = (both + self._starved(self.work)) * self._margin(UNSURE)
        return both + steps + costs.cold * self._shapes() + self._worth

    def _streamed(self, computing: np.ndarray) -> np.ndarray:
        """Likewise where copying takes longest: then the last tile's computation is left.

        NOTE: not of a network's functions, whose code is new in each step, and fetched from L2
        through the port that the copies need: what it costs is in the other estimate.
        """
        left = np.where(self.tiles > 1, TAPERED, 1)
        copying = self.copying + left * computing / self.tiles
        steps = STREAMED_STEP * self.tiles
        return np.maximum(computing, copying) + steps + STREAMED_CODE * self._shapes()

    @property
    def _worth(self) -> np.ndarray:
        """Cycles that tables are worth, but for what any kernel's may have."""
        return self.choice.table.price * np.maximum(self.table - FREE_TABLE, 0)

    def timed(self, some: Iterable[int]) -> np.ndarray:
        """Likewise of some of them, by what the code for their tiles takes; infinite of others.

        NOTE: of 183 tiles of 19 convolutions, it errs by 6 %, the other estimate by 33 %.
        """
        count = [len(sizes) for sizes in self.tried]
        work, functions, code = np.full(count, np.inf), np.zeros(count), np.zeros(count)
        for index in some:
            work.flat[index], functions.flat[index], code.flat[index] = self._code(index)
        exposed, (inwards, outwards) = self._exposed(work), self.moved
        added = CALLED if self.choice.table.price else self.choice.tiling.timing
        computing = work + self._revisits() + added.crowded * self.copying
        if self.choice.buffers == 1:
            both = computing + inwards + outwards
        else:
            waiting = sum(self._waiting(name, QUEUE + MOST_ISSUERS) for name in self._runs)
            both = np.maximum(computing + waiting, self.copying)
            both = both + added.shown * exposed + self._starved(work)
            both = both * self._margin(added.unsure)
        worth = TIMED_WORTH * self._worth + FUNCTION * self.choice.table.price * functions
        both = both + added.step * self.tiles + added.cold * functions + added.new * code
        return both + worth

    def _code(self, index: int) -> tuple[float, int, float]:
        """Cycles of the code for all tiles, functions, and instructions of these."""
        if index not in self._codes:
            tiling = self.choice.tiling
            assert tiling.timed
            shapes = shapes_of(tiling, self.sizes(index), self.choice.tensors)
            costs = {shape: tiling.timed(shape) for shape in shapes}
            work = sum(costs[shape].cycles * times for shape, times in shapes.items())
            told = tiling.told if tiling.tells(self.sizes(index)) else None
            code: dict[Any, float] = {}  # of functions, by what their tiles have in common
            for shape, cost in costs.items():
                alike = shape
                if told:
                    others = tuple(size for size in shape.sizes if size[0] != told)
                    alike = replace(shape, sizes=others, parts=(), is_first=False)
                code[alike] = max(code.get(alike, 0), cost.instructions)
            self._codes[index] = work, len(code), sum(code.values())
        return self._codes[index]

    @cached_property
    def _codes(self) -> dict[int, tuple[float, int, float]]:
        """What is known of that."""
        return {}

    @cached_property
    def moved(self) -> tuple[np.ndarray, np.ndarray]:
        """Cycles of the DMA to L1 and from there."""
        moved = [np.zeros(()), np.zeros(())]
        for name, cycles in self._copy_cycles.items():
            for way, other in enumerate(("out", "in")):
                if self.choice.tensors[name].role != other:
                    moved[way] = moved[way] + cycles * self._loads[name] * self._filled(name)
        return moved[0], moved[1]

    def _filled(self, name: str) -> np.ndarray:
        """How large an average part of a tensor is, of the largest, where the first is smaller."""
        filled = np.ones(())
        for i, dim in enumerate(self.dims):
            if dim.name in self.choice.tiling.follows(name):
                filled = filled * dim.size / (self.parts[i] * self.along(i, self.tried[i]))
        return np.where(self.begins_small, filled, 1)

    @cached_property
    def copying(self) -> np.ndarray:
        """Cycles of the DMA, which moves in both directions at once."""
        return np.maximum(*self.moved)

    def _exposed(self, work: np.ndarray | None = None) -> np.ndarray:
        """Cycles of the first copies and the last ones, which nothing hides.

        work    what all tiles take, by which is known what a smaller last part of an output gains;
                None: not known, it counts as one of the largest
        """
        exposed = np.zeros(())
        for name, cycles in self._copy_cycles.items():
            role, smaller = self.choice.tensors[name].role, self._first._copy_cycles[name]
            if role != "out":
                exposed = exposed + np.where(self.begins_small, smaller, cycles)
            if role != "in":
                last = cycles if work is None else self._last_copy(name, work)
                exposed = exposed + cycles + SOONER * (last - cycles)
        return exposed

    def _last_copy(self, name: str, work: np.ndarray) -> np.ndarray:
        """Cycles of the copy of an output's last part, and of what is left of that of the part
        before when it is computed, given what all tiles take. Where all copies take longer, a
        smaller one at the end gains nothing: that of the part before is late by as much.
        """
        cycles, last, part = self._copy_cycles[name], self._last._copy_cycles[name], np.ones(())
        for i, (dim, sizes) in enumerate(zip(self.dims, self._last.tried, strict=True)):
            if dim.name in self.choice.tiling.follows(name):
                part = part * self.along(i, sizes) / dim.size
        before = np.maximum(cycles - part * work, 0) * (self._visits[name] > 1)
        gains = (work > self.copying) & ~self.begins_small
        return np.where(gains, last + before, cycles)

    def _starved(self, work: np.ndarray) -> np.ndarray:
        """Cycles that cores wait for the second tile after a smaller first one, given what all
        tiles take.
        """
        part, needed = np.ones(()), np.zeros(())
        for i, dim in enumerate(self.dims):
            first, size = (self.along(i, of.tried[i]) for of in (self._first, self))
            part = part * first / dim.size
            for name, cycles in self._copy_cycles.items():
                follows = dim.name in self.choice.tiling.follows(name)
                if follows and self.choice.tensors[name].role != "out":
                    needed = needed + np.where(size < dim.size, cycles, 0)
        return np.where(self.begins_small, np.maximum(needed - part * work, 0), 0)

    def _margin(self, unsure: float) -> np.ndarray:
        """What estimates are multiplied by: what a smaller first tile gains errs as they do."""
        return np.where(self.begins_small, unsure, 1)

    @cached_property
    def begins_small(self) -> np.ndarray:
        """Is the first tile smaller than the others?"""
        tiling, tensors = self.choice.tiling, self.choice.tensors
        begins: np.ndarray = np.zeros((), bool)
        for i, (dim, sizes) in enumerate(zip(self.dims, self.tried, strict=True)):
            small = [tiling.begins_with_rest(dim, size, tensors) for size in sizes]
            begins = begins | (self.along(i, small) > 0)
        return begins & (sum((parts > 1) * 1 for parts in self.parts) == 1)

    @cached_property
    def _first(self) -> "Grid":
        """The sizes of the first tile, where it may be smaller."""
        tiling, tensors = self.choice.tiling, self.choice.tensors
        if not self.begins_small.any():
            return self
        tried = [
            [
                dim.size % size if tiling.begins_with_rest(dim, size, tensors) else size
                for size in sizes
            ]
            for dim, sizes in zip(self.dims, self.tried, strict=True)
        ]
        return Grid(self.choice, tried)

    @cached_property
    def _last(self) -> "Grid":
        """The sizes of the last tile, unless the first one is the smaller one."""
        tried = zip(self.dims, self.tried, strict=True)
        return Grid(
            self.choice, [[dim.size % size or size for size in sizes] for dim, sizes in tried]
        )

    @property
    def _step(self) -> int:
        """Cycles of a step beside its inner loops; forms have zeros to be filled in, too."""
        return STEP * (2 if self.choice.tiling.forms else 1)

    def _queueing(self) -> np.ndarray:
        """Cycles for which cores that start copies wait until the DMA takes the last ones."""
        waits: np.ndarray = np.zeros(())
        for name in self.choice.tiling.forms:
            waits = waits + self._waiting(name, QUEUE)
        return waits

    def _waiting(self, name: str, taken: int) -> np.ndarray:
        """Likewise of a tensor's, the first so many of a tile taken while others compute."""
        waiting = 1 - taken / np.maximum(self.commands(name), taken)
        return np.asarray(self._loads[name] * self._copy_cycles[name] * waiting)

    def commands(self, name: str) -> np.ndarray:
        """Commands of the DMA for a part of a tensor, about."""
        if name in self.choice.tiling.forms:
            return np.asarray(self.choice.tiling.forms[name].effort(self._all_sizes).commands)
        run, lines = self._runs[name]
        size = self.choice.tensors[name].item * _product(self.part_lengths[name])
        return np.asarray(size / (run * lines))

    @cached_property
    def tiles(self) -> np.ndarray:
        """How many there are."""
        return _product(self.parts)

    @cached_property
    def table(self) -> np.ndarray:
        """Bytes of L2 that the table of steps takes, about."""
        commands = np.zeros(())
        for name in self.part_bytes:
            ways = 2 if self.choice.tensors[name].role == "inout" else 1
            if name in self.choice.tiling.forms:
                commands = commands + ways * np.ceil(self.commands(name))
                continue
            run, lines = self._runs[name]
            item = self.choice.tensors[name].item
            runs = item * _product(self.part_lengths[name]) / run
            commands = commands + ways * np.ceil(runs / lines)
        return self.tiles * (ENTRY + COMMAND * commands)

    def _shapes(self) -> np.ndarray:
        """How many functions there are: sizes and padding at the ends differ, and beginnings of
        sums.
        """
        sizes, begins = [], np.zeros((), bool)
        for i, (dim, tried) in enumerate(zip(self.dims, self.tried, strict=True)):
            ends = 3 if self._is_padded(dim) else 1  # the first, those in the middle, the last
            counts = [
                max(1 + (dim.size % size > 0), min(-(-dim.size // size), ends)) for size in tried
            ]
            is_told = self._counts_as_one(dim)
            sizes.append(self.along(i, [1] * len(tried) if is_told else counts))
            if dim.is_summed and not is_told:
                begins = begins | (self.parts[i] > 1) & ~self.begins_small
        return _product(sizes) * (1 + begins)

    def _counts_as_one(self, dim: Dim) -> bool:
        """Is there one function for all sizes of a dimension? In networks, whose products are not
        timed, more functions stand for what it takes to add to many results again.
        """
        tiling = self.choice.tiling
        return dim.name == tiling.told and (tiling.streams or not self.choice.table.price)

    def _revisits(self) -> np.ndarray:
        """Cycles for results that are loaded, added to and stored again."""
        summed = [i for i, dim in enumerate(self.dims) if dim.is_summed]
        again = _product(self.parts[i] for i in summed) - 1 if summed else np.zeros(())
        results = [t for t in self.choice.tensors.values() if t.role in ("out", "inout")]
        return (
            again * self.choice.tiling.costs.revisit * max((t.elements for t in results), default=0)
        )

    def _is_padded(self, dim: Dim) -> bool:
        """Do boxes of the dimension's ends reach over those of tensors, and the code knows it? Of
        tensors that have a form, the DMA fills in what is not there.
        """
        whole, tiling = range(dim.size), self.choice.tiling
        for name, axes in tiling.boxes.items():
            if name in tiling.forms:
                continue
            for axis, size in zip(axes, self.choice.tensors[name].shape, strict=True):
                if axis is None or isinstance(axis, str) or axis.dim != dim.name:
                    continue
                there = axis.of(whole)
                if there.start < 0 or there.stop > size:
                    return True
        return False

    @cached_property
    def _copy_cycles(self) -> dict[str, np.ndarray]:
        """Cycles of the DMA for the largest part of each tensor: beats, and two a burst."""
        found = {}
        for name in self.part_bytes:
            if name in self.choice.tiling.forms:
                size, run, _ = self.choice.tiling.forms[name].effort(self._all_sizes)
            else:
                run, _ = self._runs[name]
                size = self.choice.tensors[name].item * _product(self.part_lengths[name])
            found[name] = np.asarray(size / run * _beats(run))
        return found

    @cached_property
    def _runs(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Those of each tensor that has no form: see _run."""
        forms = self.choice.tiling.forms
        return {name: self._run(name) for name in self.part_bytes if name not in forms}

    def _run(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Bytes of the largest part that lie together, and elements of its longest other axis."""
        tensor, lengths = self.choice.tensors[name], self.part_lengths[name]
        run, lines = tensor.item * np.ones(()), np.ones(())
        row = _product(lengths[-tensor.joined :])
        has_no_gap = np.asarray(tensor.row_of(row) == tensor.item * row)
        is_whole = has_no_gap | (tensor.joined > 1)
        together = tensor.item
        for axis, (length, size, stride) in enumerate(
            zip(reversed(lengths), reversed(tensor.shape), reversed(tensor.strides), strict=True)
        ):
            is_whole = is_whole & (stride == together)
            run = np.where(is_whole | (axis == 0), run * length, run)
            lines = np.where(is_whole | (axis == 0), lines, np.maximum(lines, length))
            is_whole = is_whole & (length == size) & (has_no_gap | (axis + 1 < tensor.joined))
            together *= size
        return np.maximum(run, tensor.item), lines  # of parts that are empty, too

    @property
    def work(self) -> np.ndarray:
        """Cycles of all cores' computing; a tile counts as if it were whole units.

        Where the tiling says what a tile takes, the smaller ones at the ends count as whole ones.
        """
        if self.choice.tiling.work is not None:
            return np.asarray(self.tiles * self.choice.tiling.work(self._all_sizes))
        padded = []
        for i, (dim, sizes) in enumerate(zip(self.dims, self.tried, strict=True)):
            units = [
                dim.size // size * -(-size // dim.unit) + -(-(dim.size % size) // dim.unit)
                for size in sizes
            ]
            padded.append(self.along(i, units) * dim.unit)
        busy = self.choice.tiling.busy
        rate = self.choice.tiling.rate * (busy(self._all_sizes) if busy else 1)
        return np.asarray(_product(padded) / rate)


def _beats(run: np.ndarray) -> np.ndarray:
    """Cycles of the DMA for bytes that lie together: beats, and two a burst."""
    return np.ceil(run / BEAT) + 2 * np.ceil(run / BURST)


def _product(factors: Iterable[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply, factors, np.ones(()))


def _longest(axis: Look, places: list[range], size: int) -> int:
    """Elements inside an axis of `size` that the tile needs that needs most: one of the ends, or of
    those in the middle, which look at nothing outside.
    """
    middle = max(len(places) // 2 - NEAR, 0)
    some = {*places[:NEAR], *places[middle : middle + 2 * NEAR], *places[-NEAR:]}
    wanted = [axis.of(place) for place in some]
    return max(max(0, min(r.stop, size) - max(r.start, 0)) for r in wanted)


def timed_cycles(k: Kernel, tiling: Tiling, tensors: Tensors, buffers: int) -> float:
    """Cycles with the best tiles: timed as their code is, or else as they are chosen by; infinite
    if none fits.
    """
    if not tiling.dims:
        return np.inf
    choice = Choice(k.name, tiling, tensors, buffers, k.l1, 0)
    try:
        grid = choice.grid(choice.sizes({}))
    except KernelError:
        return np.inf
    return float((grid.timed([0]) if tiling.timed else grid.cycles).item())
