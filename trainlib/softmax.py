"""Softmax along one dimension, forward and backward; the largest element is taken off first."""

from collections.abc import Callable
from math import prod
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel, KernelError
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib import kernels
from trainlib.elementary import ExpOfNegative
from trainlib.kernels import WORD, Address, Addresses, Arrays, Expected, Family, Tensor, Tensors
from trainlib.maps import fitting, no_macs
from trainlib.nest import UNROLL
from trainlib.reference import softmax as reference
from trainlib.rows import PARTIALS, SCRATCH, Field, Rows, Split, split_of
from trainlib.tiled import tiled
from trainlib.tiling import Axis, Dim, TileShape

Shape = tuple[int, int, int]
"""Elements before the dimension, of it, and behind it."""


def _rows(
    k: Kernel,
    team: Team,
    tensors: dict[str, Address],
    partials: Address,
    shape: Shape,
    reductions: int,
    split: Split,
    unroll: int,
) -> Rows:
    outer, n, inner = shape
    steps = (WORD * n * inner, WORD), (WORD * inner,)
    fields = {name: Field(address, *steps) for name, address in tensors.items()}
    split = split_of(split, outer * inner, n, reductions, team.cores)
    return Rows(k, team, (outer, inner), (n,), fields, partials, split, unroll=unroll)


def softmax_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    partials: Address,
    shape: Shape,
    *,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y = e^x / (sum of e^x along the dimension).

    partials    scratch, as large as trainlib.rows.PARTIALS
    """

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            rows = _rows(k, team, {"x": x, "y": y}, partials, shape, 2, split, width)
            exp = ExpOfNegative(k, constant(k, 1.0))
            with rows.each(), k.scope():
                [most] = rows.reduce(["x"], _larger, ["max"])

                def power(v: Lanes, total: Lane, x: Lane) -> list[Lane]:
                    t, e = v.f(), v.f()
                    v.fsub_s(x, x, most)
                    exp.exp(v, x, t, e)
                    v.fadd_s(total, total, e)
                    return [e]

                [total] = rows.reduce(["x"], power, ["sum"], targets=["y"])
                k.fdiv_s(total, exp.one, total)

                def scale(v: Lanes, y: Lane) -> list[Lane]:
                    v.fmul_s(y, y, total)
                    return [y]

                rows.sweep(["y"], ["y"], scale)

    fitting(k, team, emit, unroll)


def softmax_bw_f32(
    k: Kernel,
    team: Team,
    y: Address,
    dy: Address,
    dx: Address,
    partials: Address,
    shape: Shape,
    *,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """dx = y (dy - sum of y dy along the dimension), y from softmax_fw."""

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            rows = _rows(k, team, {"y": y, "dy": dy, "dx": dx}, partials, shape, 1, split, width)
            with rows.each(), k.scope():
                [total] = rows.reduce(["y", "dy"], _product, ["sum"])

                def step(v: Lanes, y: Lane, dy: Lane) -> list[Lane]:
                    v.fsub_s(dy, dy, total)
                    v.fmul_s(dy, dy, y)
                    return [dy]

                rows.sweep(["y", "dy"], ["dx"], step)

    fitting(k, team, emit, unroll)


def _larger(v: Lanes, most: Lane, x: Lane) -> None:
    v.fmax_s(most, most, x)


def _product(v: Lanes, total: Lane, a: Lane, b: Lane) -> None:
    v.fmadd_s(total, a, b, total)


class Arguments(kernels.Arguments):
    """A tensor of any shape.

    axis      the dimension, -1 for the last one
    split     what is dealt out: rows, parts of each row ("columns"), or what takes less time
    unroll    elements that are computed side by side, if registers allow
    """

    shape: tuple[PositiveInt, ...] = Setting(min_length=1)
    axis: int = -1
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _shape(point: Any) -> Shape:
    dims, axis = point.shape, point.axis
    if not -len(dims) <= axis < len(dims):
        raise KernelError(f"softmax: axis {axis}; the shape has {len(dims)} dimensions")
    axis %= len(dims)
    return prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])


def _family(emitter: Callable[..., None], inputs: str, output: str, expects: Callable) -> Family:
    names = inputs.split()

    def tensors(point: Any) -> Tensors:
        _shape(point)
        read = {name: Tensor(point.shape) for name in names}
        return {**read, output: Tensor(point.shape, "out"), "partials": PARTIALS}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        return {output: expects(*(values[name] for name in names), point.axis)}

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        addresses = (l1[name] for name in tensors(point))
        emitter(k, team, *addresses, _shape(point), split=point.split, unroll=point.unroll)

    family = Family(emitter.__name__, Arguments, tensors, expected, no_macs, emit)
    return tiled(
        family, _dims, lambda point: dict.fromkeys([*names, output], _box(point)), _smaller, SCRATCH
    )


def _box(point: Any) -> list[Axis]:
    """Rows are whole."""
    rank = len(point.shape)
    return [None if axis == point.axis % rank else f"d{axis}" for axis in range(rank)]


def _dims(point: Any) -> list[Dim]:
    return [Dim(f"d{axis}", n) for axis, n in enumerate(point.shape) if _box(point)[axis]]


def _smaller(point: Any, shape: TileShape) -> dict[str, Any]:
    box = enumerate(_box(point))
    return {"shape": tuple(shape[f"d{a}"] if dim else point.shape[a] for a, dim in box)}


FAMILIES = (
    _family(softmax_fw_f32, "x", "y", reference.forward),
    _family(softmax_bw_f32, "y dy", "dx", reference.backward),
)
