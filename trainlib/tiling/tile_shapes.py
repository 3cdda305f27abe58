"""Shapes of the tiles that a primitive is cut into, and how often each comes."""

from itertools import product
from math import prod

from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import Tensors
from trainlib.primitive.tile_spec import Dim, Sizes, Tiling


def shapes_of(tiling: Tiling, sizes: Sizes, tensors: Tensors) -> dict[TileShape, int]:
    """How many tiles there are of each shape, if none is walked or grows, and the table tells none
    apart.
    """
    found: dict[TileShape, int] = {}
    for places in product(*(_alike(tiling, dim, sizes, tensors) for dim in tiling.dims)):
        there = {dim.name: first for dim, (first, _) in zip(tiling.dims, places, strict=True)}
        shape = tiling.tile(there, tensors).shape
        found[shape] = found.get(shape, 0) + prod(count for _, count in places)
    return found


def _alike(tiling: Tiling, dim: Dim, sizes: Sizes, tensors: Tensors) -> list[tuple[range, int]]:
    """The ranges of a dimension in tiles of these sizes, those that code can't tell apart as one,
    and how many there are.
    """
    looks = [
        (axis, length)
        for name, axes in tiling.boxes.items()
        for axis, length in zip(axes, tensors[name].shape, strict=True)
        if axis is not None and not isinstance(axis, str) and axis.dim == dim.name
    ]
    found: dict[tuple[int, ...], tuple[range, int]] = {}
    for there in tiling.ranges(dim, sizes, tensors):
        key = [len(there), dim.is_summed and not there.start]
        for axis, length in looks:
            wanted = axis.of(there)
            key += [max(-wanted.start, 0), max(wanted.stop - length, 0), axis.phase(there)]
        first, count = found.get(tuple(key), (there, 0))
        found[tuple(key)] = first, count + 1
    return list(found.values())
