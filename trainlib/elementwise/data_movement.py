"""Tensors copied, transposed, padded: what moves data around layers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from firmware.builder import Kernel, KernelError
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Operand, row_major
from trainlib.elementwise.broadcast import family_of, map_halves
from trainlib.elementwise.elementwise import (
    map_f32,
    map_pairs,
)
from trainlib.elementwise.fill import fill_f32
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Window
from trainlib.primitive.tensor import Address, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled, tiled_by_axes
from trainlib.reference import data_movement as reference
from trainlib.reference.halves import rounded

Dims = Sequence[int]


def _move(k: Kernel, team: Team, dims: Dims, source: Operand, target: Operand, unroll: int) -> None:
    """Copy elements."""
    map_halves(k, team, lambda _: copied, dims, [source], [target], unroll)


def copied(_: Kernel) -> Body:
    def body(_: Lanes, x: Lane) -> list[Lane]:
        return [x]

    return body


def transpose_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    dims: Dims,
    axes: Dims,
    *,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """y = x with its dimensions in another order: dimension i of y is axes[i] of x."""
    shape = [dims[axis] for axis in axes]
    whole = row_major(x, dims, element.moved)
    source = replace(whole, steps=tuple(whole.steps[axis] for axis in axes))
    _move(k, team, shape, source, row_major(y, shape, element.moved), unroll)


def pad_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    dims: Dims,
    before: Dims,
    after: Dims,
    *,
    value: float = 0.0,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """y = x with so many elements of a value before and after it, in each dimension."""
    shape = [b + n + a for b, n, a in zip(before, dims, after, strict=True)]
    if any(before) or any(after):
        fill_f32(k, team, y, prod(shape), value=value, element=element)
        team.barrier()
    if 0 in dims:
        return
    whole = row_major(y, shape, element.moved)
    shift = sum(n * step for n, step in zip(before, whole.steps, strict=True))
    source = row_major(x, dims, element.moved)
    _move(k, team, dims, source, replace(whole, shift=shift), unroll)


def residual_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    da: Address,
    db: Address,
    count: int,
    *,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """da = db = dy: the gradients of a + b."""

    def operation(_: Kernel) -> Body:
        def body(_: Lanes, dy: Lane) -> list[Lane]:
            return [dy, dy]

        return body

    emit = map_pairs if element.is_half else map_f32
    emit(k, team, operation, [dy], [da, db], count, unroll=unroll)


class MovementArguments(TiledArguments):
    """A tensor of any shape.

    unroll    elements that are moved side by side, if registers allow
    """

    shape: tuple[PositiveInt, ...] = Field(min_length=1)
    unroll: int = Field(UNROLL, ge=1, le=8)


class TransposeArguments(MovementArguments):
    """axes    dimension i of the result is axes[i] of x"""

    axes: tuple[NonNegativeInt, ...]


class PadArguments(MovementArguments):
    """before, after    elements that are added in each dimension; value: what they are"""

    before: tuple[NonNegativeInt, ...]
    after: tuple[NonNegativeInt, ...]
    value: float = 0.0


def _transposed(point: Any) -> Tensors:
    if sorted(point.axes) != list(range(len(point.shape))):
        raise KernelError(
            f"transpose: axes {point.axes} are not those of {len(point.shape)} dimensions"
        )
    shape = tuple(point.shape[axis] for axis in point.axes)
    return {"x": Tensor(point.shape), "y": Tensor(shape, "out")}


def _padded(point: Any) -> Tensors:
    if not len(point.before) == len(point.after) == len(point.shape):
        raise KernelError(
            f"pad: before {point.before} and after {point.after} are not for "
            f"{len(point.shape)} dimensions"
        )
    sides = zip(point.before, point.shape, point.after, strict=True)
    return {"x": Tensor(point.shape), "y": Tensor(tuple(map(sum, sides)), "out")}


def _emit_transpose(k: Kernel, team: Team, point: Any, x: Address, y: Address, **how: Any) -> None:
    transpose_f32(k, team, x, y, point.shape, point.axes, unroll=point.unroll, **how)


def _emit_pad(k: Kernel, team: Team, point: Any, x: Address, y: Address, **how: Any) -> None:
    sides = point.before, point.after
    pad_f32(k, team, x, y, point.shape, *sides, value=point.value, unroll=point.unroll, **how)


def _emit_residual_bw(
    k: Kernel, team: Team, point: Any, dy: Address, da: Address, db: Address, **how: Any
) -> None:
    residual_bw_f32(k, team, dy, da, db, prod(point.shape), unroll=point.unroll, **how)


def _padded_values(element: Element, point: Any, values: Arrays) -> list[Expected]:
    exact, bound = reference.pad(values["x"].astype(np.float64), point)
    return [(rounded(element.dtype, exact) if element.is_half else exact, bound)]


def families(element: Element) -> tuple[Family, ...]:
    """Those of this type."""
    return (
        tiled_by_axes(
            family_of(
                element,
                "residual_bw",
                MovementArguments,
                lambda point: {
                    "dy": Tensor(point.shape),
                    "da": Tensor(point.shape, "out"),
                    "db": Tensor(point.shape, "out"),
                },
                lambda _, values: [(values["dy"].astype(np.float64), 0.0)] * 2,
                _emit_residual_bw,
            )
        ),
        tiled(
            family_of(
                element,
                "transpose",
                TransposeArguments,
                _transposed,
                lambda point, values: [(values["x"].transpose(point.axes).astype(np.float64), 0.0)],
                _emit_transpose,
            ),
            lambda point: [Dim(f"d{axis}", n) for axis, n in enumerate(point.shape)],
            lambda point: {
                "x": [f"d{axis}" for axis in range(len(point.shape))],
                "y": [f"d{axis}" for axis in point.axes],
            },
            lambda _, shape: {"shape": shape.part("x").shape},
        ),
        tiled(
            family_of(
                *(element, "pad", PadArguments, _padded),
                *(partial(_padded_values, element), _emit_pad),
            ),
            lambda point: [Dim(f"d{i}", n) for i, n in enumerate(_padded(point)["y"].shape)],
            lambda point: {
                "x": [Window(f"d{i}", 1, before=n) for i, n in enumerate(point.before)],
                "y": [f"d{i}" for i in range(len(point.shape))],
            },
            lambda _, tile: {n: getattr(tile.part("x"), n) for n in ("shape", "before", "after")},
        ),
    )


FAMILIES = tuple(family for element in ELEMENTS for family in families(element))
