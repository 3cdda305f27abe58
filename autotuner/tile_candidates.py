"""Tiles that are tried: of every dimension some sizes, and of their combinations those that fit."""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import prod

import numpy as np

from autotuner.point import Items
from autotuner.schedule_size import Tables
from trainlib.primitive.tile_spec import Dim, Sizes
from trainlib.tiling.tile_size import Choice, Grid, candidates

SIZES = 6
"""Sizes of each dimension, unless it is said otherwise."""

MOST_TILES = 512
"""Of a layer: a step costs 200 cycles and more beside its work, so smaller tiles do not win."""

NO_LIMIT = 1 << 30

Estimates = dict[Items, float]
"""Tiles and trainlib's estimate of their cycles."""


def tried(dims: Iterable[Dim], given: Sizes, most: int) -> list[list[int]]:
    """Sizes by dimension, the largest first: those given, or so many at most."""
    return [
        [given[dim.name]] if dim.name in given else thinned(candidates(dim), most) for dim in dims
    ]


def tried_that_fit(choice: Choice, given: Sizes, most: int) -> list[list[int]]:
    """The same of those sizes that some tile may have: not more tiles, or bytes, than there may be.

    The others are left out before: of a long dimension, most sizes do not fit.
    """
    found = tried(choice.tiling.dims, given, NO_LIMIT)
    for at, (dim, sizes) in enumerate(zip(choice.tiling.dims, found, strict=True)):
        others = [[min(some)] for some in found]
        alone = Grid(choice, [*others[:at], sizes, *others[at + 1 :]])
        fits = (alone.bytes <= choice.free).ravel().tolist()
        useful = [size for size, f in zip(sizes, fits, strict=True) if f and _is_few(dim, size)]
        found[at] = thinned(useful or sizes, most)
    return found


def _is_few(dim: Dim, size: int) -> bool:
    return dim.size <= size * MOST_TILES


def thinned(sizes: list[int], most: int) -> list[int]:
    """At most so many of the sizes, the largest and the smallest among them."""
    places = np.linspace(0, len(sizes) - 1, min(most, len(sizes))).round().astype(int)
    return [sizes[at] for at in dict.fromkeys(places.tolist())]


def fitting_tiles(alike: Sequence[Tables], cores: int, l2: int, *, are_few: bool) -> Estimates:
    """Tiles that fit with their tables.

    alike      those of computations that follow each other with the same tiles
    l2         bytes of L2 that are left for the tables
    are_few    tiles of which there are no more than MOST_TILES, or the others
    """
    grids = [tables.grid for tables in alike]
    counts = reduce(np.add, [_tiles(grid) for grid in grids])
    fits = (counts <= MOST_TILES) == are_few
    for tables in alike:
        fits = tables.fitting(cores, l2, fits)
    cycles = reduce(np.add, [np.broadcast_to(grid.cycles, counts.shape) for grid in grids])
    places = np.flatnonzero(fits.ravel()).tolist()
    return {tuple(grids[0].sizes(at).items()): float(cycles.flat[at]) for at in places}


def _tiles(grid: Grid) -> np.ndarray:
    count: np.ndarray = np.ones(grid.bytes.shape)
    for parts in grid.parts:
        count = count * parts
    return count


def count_of(dims: Iterable[Dim], sizes: Sizes) -> int:
    """How many tiles of these sizes there are."""
    return prod(-(-dim.size // sizes[dim.name]) for dim in dims)
