"""Strided copies: a box of a tensor, and tensors one after the other along a dimension.

Halves go two at a time where neighbours make words in both tensors.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from firmware.builder import Kernel, KernelError
from firmware.lanes import Lane, Lanes
from firmware.registers import Register
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Operand, row_major
from trainlib.codegen.pairs import in_words
from trainlib.elementwise.broadcast import family_of, twice
from trainlib.elementwise.elementwise import map_nest
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape, Window
from trainlib.primitive.tensor import Address, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled

Dims = Sequence[int]
MOST = 8  # tensors that one concatenation takes


def _copied(_: Kernel) -> Body:
    def body(v: Lanes, x: Lane | Register) -> list[Lane]:
        return [x if isinstance(x, list) else [x] * v.width]

    return body


def _repeated(_: Kernel) -> Body:
    """Of a half that fills words."""

    def body(v: Lanes, x: Lane | Register) -> list[Lane]:
        return [twice(v, x)]

    return body


def _move(k: Kernel, team: Team, dims: Dims, source: Operand, target: Operand, unroll: int) -> None:
    operation = _copied
    if target.element.is_half and (words := in_words(dims, [source], [target])):
        dims, [source], [target] = words
        operation = _repeated if source.element.is_half else _copied
    map_nest(k, team, operation, dims, [source], [target], unroll=unroll)


def slice_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    dims: Dims,
    start: Dims,
    step: Dims,
    size: Dims,
    *,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """y[i] = x[start + step i] for i < size, in each dimension; a step of 0 repeats an element."""
    strides = row_major(x, dims, element).steps
    shift = sum(first * stride for first, stride in zip(start, strides, strict=True))
    steps = tuple(n * stride for n, stride in zip(step, strides, strict=True))
    source = Operand(x, steps, shift=shift, element=element.moved)
    _move(k, team, size, source, row_major(y, size, element.moved), unroll)


def concat_f32(
    k: Kernel,
    team: Team,
    sources: Sequence[Address],
    y: Address,
    dims: Dims,
    axis: int,
    sizes: Dims,
    *,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """y = tensors one after the other along an axis, which have so many elements there each."""
    steps = row_major(y, dims, element).steps
    for x, size, first in zip(sources, sizes, accumulate(sizes, initial=0), strict=False):
        if size:
            own = [*dims[:axis], size, *dims[axis + 1 :]]
            target = Operand(y, steps, shift=first * steps[axis], element=element.moved)
            _move(k, team, own, row_major(x, own, element.moved), target, unroll)


class SliceArguments(TiledArguments):
    """A box of x: y[i] = x[start + step i] for i < size, in each dimension.

    step      1 in each dimension if it is not said; 0 repeats an element
    unroll    elements that are moved side by side, if registers allow
    """

    shape: tuple[PositiveInt, ...] = Field(min_length=1)
    start: tuple[NonNegativeInt, ...]
    size: tuple[PositiveInt, ...]
    step: tuple[NonNegativeInt, ...] = ()
    unroll: int = Field(UNROLL, ge=1, le=8)

    @property
    def steps(self) -> tuple[int, ...]:
        return self.step or (1,) * len(self.shape)


class ConcatArguments(TiledArguments):
    """y of a shape, made of tensors x0, x1, ... along one axis.

    sizes     elements that each has along the axis
    unroll    elements that are moved side by side, if registers allow
    """

    shape: tuple[PositiveInt, ...] = Field(min_length=1)
    axis: NonNegativeInt
    sizes: tuple[PositiveInt, ...] = Field(min_length=1, max_length=MOST)
    unroll: int = Field(UNROLL, ge=1, le=8)


def _sliced(point: Any) -> Tensors:
    rank = len(point.shape)
    if not len(point.start) == len(point.size) == len(point.steps) == rank:
        raise KernelError(f"slice: start, step and size are not for {rank} dimensions")
    sides = zip(point.shape, point.start, point.steps, point.size, strict=True)
    for axis, (n, first, step, size) in enumerate(sides):
        if first + step * (size - 1) >= n:
            raise KernelError(
                f"slice: dimension {axis} has {n} elements; start {first}, step {step} and size "
                f"{size} reach beyond"
            )
    return {"x": Tensor(point.shape), "y": Tensor(point.size, "out")}


def _sliced_reference(point: Any, values: Arrays) -> list[Expected]:
    sides = zip(point.start, point.steps, point.size, strict=True)
    grids = [[first + step * i for i in range(size)] for first, step, size in sides]
    x = values["x"]
    for axis, grid in enumerate(grids):
        x = x.take(grid, axis)
    return [(x, 0.0)]


def _emit_slice(k: Kernel, team: Team, point: Any, x: Address, y: Address, **how: Any) -> None:
    box = point.start, point.steps, point.size
    slice_f32(k, team, x, y, point.shape, *box, unroll=point.unroll, **how)


def _slice_dims(point: Any) -> list[Dim]:
    return [Dim(f"d{axis}", n) for axis, n in enumerate(point.size)]


def _slice_boxes(point: Any) -> dict[str, list[Axis]]:
    sides = enumerate(zip(point.start, point.steps, strict=True))
    x: list[Axis] = [Window(f"d{i}", 1, stride=step, before=-first) for i, (first, step) in sides]
    return {"x": x, "y": [f"d{i}" for i in range(len(point.size))]}


def _smaller_slice(point: Any, tile: TileShape) -> dict[str, Any]:
    x, y = tile.part("x").shape, tile.part("y").shape
    return {"shape": x, "start": (0,) * len(x), "step": point.steps, "size": y}


def _concatenated(point: Any) -> Tensors:
    if point.axis >= len(point.shape) or sum(point.sizes) != point.shape[point.axis]:
        raise KernelError(
            f"concat: sizes {list(point.sizes)} do not add up to dimension {point.axis} of "
            f"{list(point.shape)}"
        )
    before, after = point.shape[: point.axis], point.shape[point.axis + 1 :]
    own = {f"x{i}": Tensor((*before, n, *after)) for i, n in enumerate(point.sizes)}
    return {**own, "y": Tensor(point.shape, "out")}


def _concat_reference(point: Any, values: Arrays) -> list[Expected]:
    parts = [values[f"x{i}"] for i in range(len(point.sizes))]
    return [(np.concatenate(parts, point.axis), 0.0)]


def _emit_concat(k: Kernel, team: Team, point: Any, *at: Address, **how: Any) -> None:
    *sources, y = at
    of = point.shape, point.axis, point.sizes
    concat_f32(k, team, sources, y, *of, unroll=point.unroll, **how)


def _concat_boxes(point: Any) -> dict[str, list[Axis]]:
    whole: list[Axis] = [f"d{axis}" for axis in range(len(point.shape))]
    boxes = {"y": whole}
    for number, first in enumerate(list(accumulate(point.sizes, initial=0))[:-1]):
        own = list(whole)
        own[point.axis] = Window(f"d{point.axis}", 1, before=first)
        boxes[f"x{number}"] = own
    return boxes


def _smaller_concat(point: Any, tile: TileShape) -> dict[str, Any]:
    parts = [tile.part(f"x{i}").shape for i in range(len(point.sizes))]
    sizes = tuple(part[point.axis] if prod(part) else 0 for part in parts)
    return {"shape": tile.part("y").shape, "sizes": sizes}


def families(element: Element) -> tuple[Family, ...]:
    """Those of this type."""
    return (
        tiled(
            family_of(element, "slice", SliceArguments, _sliced, _sliced_reference, _emit_slice),
            *(_slice_dims, _slice_boxes, _smaller_slice),
        ),
        tiled(
            family_of(
                *(element, "concat", ConcatArguments, _concatenated),
                *(_concat_reference, _emit_concat),
            ),
            lambda point: [Dim(f"d{axis}", n) for axis, n in enumerate(point.shape)],
            *(_concat_boxes, _smaller_concat),
        ),
    )


FAMILIES = tuple(family for element in ELEMENTS for family in families(element))
