"""Softmax along one dimension, forward and backward; the largest element is taken off first."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel, KernelError, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib import kernels
from trainlib.elementary import ExpOfNegative
from trainlib.kernels import (
    WORD,
    Address,
    Addresses,
    Arrays,
    Expected,
    Family,
    Role,
    Tensor,
    Tensors,
)
from trainlib.maps import fitting, no_macs
from trainlib.nest import UNROLL, Body
from trainlib.phases import Phase, emit_phases
from trainlib.reference import softmax as reference
from trainlib.row_passes import Passes
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
                [most] = rows.reduce(["x"], larger, ["max"])
                [total] = rows.reduce(["x"], powers(exp, most), ["sum"], targets=["y"])
                k.fdiv_s(total, exp.one, total)
                rows.sweep(["y"], ["y"], scaled(total))

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
                rows.sweep(["y", "dy"], ["dx"], _slope(total))

    fitting(k, team, emit, unroll)


def powers(exp: ExpOfNegative, most: Register) -> Callable[..., list[Lane]]:
    """A step of a sum: e^(x - most)."""

    def step(v: Lanes, total: Lane, x: Lane) -> list[Lane]:
        t, e = v.f(), v.f()
        v.fsub_s(x, x, most)
        exp.exp(v, x, t, e)
        v.fadd_s(total, total, e)
        return [e]

    return step


def scaled(factor: Register) -> Body:
    def body(v: Lanes, y: Lane) -> list[Lane]:
        v.fmul_s(y, y, factor)
        return [y]

    return body


def _slope(total: Register) -> Body:
    def body(v: Lanes, y: Lane, dy: Lane) -> list[Lane]:
        v.fsub_s(dy, dy, total)
        v.fmul_s(dy, dy, y)
        return [dy]

    return body


def larger(v: Lanes, most: Lane, x: Lane) -> None:
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


def largest(rows: Rows, tile: TileShape, _: Any) -> None:
    """most = the largest x."""
    [most] = rows.reduce(["x"], larger, ["max"])
    if not tile.is_first:
        with rows.k.scope():
            rows.k.fmax_s(most, most, rows.load("most"))
    rows.store("most", most)


def exponential(k: Kernel) -> ExpOfNegative:
    return ExpOfNegative(k, constant(k, 1.0))


def _powers(rows: Rows, tile: TileShape, exp: ExpOfNegative) -> None:
    """The last tile makes a factor of the sum."""
    most = rows.load("most")
    [total] = rows.reduce(["x"], powers(exp, most), ["sum"], targets=["y"])
    add_old(rows, tile, total)
    if tile.is_last:
        rows.k.fdiv_s(total, exp.one, total)
    rows.store("total", total)


def _products(rows: Rows, tile: TileShape, _: Any) -> None:
    [total] = rows.reduce(["y", "dy"], _product, ["sum"])
    add_old(rows, tile, total)
    rows.store("total", total)


def add_old(rows: Rows, tile: TileShape, total: Register, name: str = "total") -> None:
    """Add the row's sum of the tiles before."""
    if not tile.is_first:
        with rows.k.scope():
            rows.k.fadd_s(total, total, rows.load(name))


def _scale(rows: Rows, _: TileShape, __: Any) -> None:
    rows.sweep(["y"], ["y"], scaled(rows.load("total")))


def _slopes(rows: Rows, _: TileShape, __: Any) -> None:
    rows.sweep(["y", "dy"], ["dx"], _slope(rows.load("total")))


def _phases(point: Any, is_backward: bool) -> list[Phase]:
    """Rows are cut too: the largest, powers and their sum, their shares of it."""
    axis = f"d{point.axis % len(point.shape)}"
    sizes = {f"d{a}": n for a, n in enumerate(point.shape)}
    p = Passes(sizes, tuple(a for a in sizes if a != axis), point.split, point.unroll)
    if is_backward:
        given: dict[str, tuple[str, Role]] = {"y": ("y", "in"), "dy": ("dy", "in")}
        return [
            p.of("products", _products, given, {"total": "out"}, is_sum=True),
            p.of("slopes", _slopes, {**given, "dx": ("dx", "out")}, {"total": "in"}, is_sum=False),
        ]
    both: dict[str, tuple[str, Role]] = {"x": ("x", "in"), "y": ("y", "out")}
    sums: dict[str, Role] = {"most": "in", "total": "out"}
    return [
        p.of("largest", largest, {"x": ("x", "in")}, {"most": "out"}, is_sum=True),
        p.of("powers", _powers, both, sums, is_sum=True, prepare=exponential),
        p.of("shares", _scale, {"y": ("y", "inout")}, {"total": "in"}, is_sum=False),
    ]


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

    def emit_l2(k: Kernel, team: Team, point: Any, l2: Mapping[str, int]) -> None:
        rows = WORD * prod(point.shape) // point.shape[point.axis]
        phases, between = _phases(point, output == "dx"), {"most": rows, "total": rows}
        how = point.tile or {}, point.buffers
        emit_phases(k, team, phases, l2, between, *how, is_warm=point.warm)

    of = emitter.__name__, Arguments, tensors, expected, no_macs, emit
    family = Family(*of, emit_l2=emit_l2)
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
