"""Tilings of primitives whose code for a tile is that for smaller arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.primitive.operator import Family
from trainlib.primitive.slices import Axis, Sized, TileShape
from trainlib.primitive.tensor import Addresses
from trainlib.primitive.tile_spec import Dim, Tiling

UNIT = 16  # elements of a row that no copy or core is idle for


def tiled(
    family: Family,
    dims: Callable[[Any], Sequence[Dim]],
    boxes: Callable[[Any], Mapping[str, Sequence[Axis]]],
    smaller: Callable[[Any, TileShape], dict[str, Any]],
    scratch: Mapping[str, int] | Callable[[Any, Sized], dict[str, Any]] = MappingProxyType({}),
    emit_part: Callable[[Kernel, Team, Any, Any, TileShape, Addresses], None] | None = None,
    *,
    tells_last: bool = False,
    rate: Callable[[Any], float] = lambda _: Tiling.rate,
    work: Callable[[Any], Callable[[Sized], Any] | None] = lambda _: None,
) -> Family:
    """The family with a tiling.

    smaller      what of the arguments is another for a tile
    scratch      bytes of further buffers; maybe given all arguments and sizes
    emit_part    what emits a tile, given all arguments and the smaller ones; None: the family's
    tells_last, rate, work   see Tiling
    """
    emit_l1 = family.emit_l1
    assert emit_l1 is not None

    def tiling(point: Any) -> Tiling:
        def emit(k: Kernel, team: Team, shape: TileShape, l1: Addresses) -> None:
            part = point.model_copy(update=smaller(point, shape))
            if emit_part:
                emit_part(k, team, point, part, shape, l1)
            else:
                emit_l1(k, team, part, l1)

        axes = {name: tuple(box) for name, box in boxes(point).items()}

        def further(sizes: Sized) -> dict[str, Any]:
            return scratch(point, sizes) if callable(scratch) else dict(scratch)

        how: Any = {"tells_last": tells_last, "rate": rate(point), "work": work(point)}
        return Tiling(tuple(dims(point)), axes, emit, further, **how)

    return replace(family, tiling=tiling)


def tiled_by_axes(
    family: Family,
    whole: Sequence[str] = (),
    *,
    rate: Callable[[Any], float] = lambda _: Tiling.rate,
) -> Family:
    """Tiles of the argument `shape`, which all tensors have.

    whole    tensors of another shape, which every tile needs all of
    rate     see Tiling
    """

    def dims(point: Any) -> list[Dim]:
        last = len(point.shape) - 1
        sizes = enumerate(point.shape)
        return [Dim(f"d{axis}", n, UNIT if axis == last else 1) for axis, n in sizes]

    def boxes(point: Any) -> dict[str, list[Axis]]:
        own: list[Axis] = [f"d{axis}" for axis in range(len(point.shape))]
        tensors = family.tensors(point)
        return {n: [None] * len(t.shape) if n in whole else own for n, t in tensors.items()}

    def smaller(point: Any, shape: TileShape) -> dict[str, Any]:
        return {"shape": tuple(shape[f"d{axis}"] for axis in range(len(point.shape)))}

    return tiled(family, dims, boxes, smaller, rate=rate)
