"""Softmax along one dimension, forward and backward; the largest element is taken off first."""

from collections.abc import Callable
from math import prod
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel, KernelError, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.elementwise.approximations import ExpOfNegative
from trainlib.elementwise.elementwise import no_macs, packed
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import WORD, Address, Addresses, Arrays, Role, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled
from trainlib.reduction.phases import Passes, add_old, keep
from trainlib.reduction.row_reduction import LONG_OF_PRODUCTS, PARTIALS, SCRATCH, Field, Rows, Split
from trainlib.reduction.row_view import View
from trainlib.reference import softmax as reference
from trainlib.reference.halves import rounded_once, with_rounding

Shape = tuple[int, int, int]
"""Elements before the dimension, of it, and after it."""


def _view(
    tensors: dict[str, Address],
    partials: Address,
    shape: Shape,
    element: Element,
    split: Split,
    unroll: int,
) -> View:
    outer, n, inner = shape
    size = element.size
    steps = (size * n * inner, size), (size * inner,)
    fields = {name: Field(address, *steps, element) for name, address in tensors.items()}
    return View((outer, inner), (n,), fields, partials, split, unroll)


def softmax_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    partials: Address,
    shape: Shape,
    *,
    element: Element = F32,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y = e^x / (sum of e^x along the dimension).

    partials    scratch, as large as trainlib.reduction.row_reduction.PARTIALS
    """

    def work(rows: Rows) -> None:
        exp = exponential(rows.k)
        with rows.each():
            most = rows.largest("x")
            total = rows.total(["x"], powers(exp, most), targets=["y"], longest=LONG_OF_PRODUCTS)
            rows.k.fdiv_s(total, exp.one, total)
            _scale(rows, total)

    view = _view({"x": x, "y": y}, partials, shape, element, split, unroll)
    view.emit(k, team, work, reductions=2)


def softmax_bw_f32(
    k: Kernel,
    team: Team,
    y: Address,
    dy: Address,
    dx: Address,
    partials: Address,
    shape: Shape,
    *,
    element: Element = F32,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """dx = y (dy - sum of y dy along the dimension), y from softmax_fw."""

    def work(rows: Rows) -> None:
        with rows.each():
            total = rows.total(["y", "dy"], _product, longest=LONG_OF_PRODUCTS)
            rows.sweep(["y", "dy"], ["dx"], _slope(total))

    view = _view({"y": y, "dy": dy, "dx": dx}, partials, shape, element, split, unroll)
    view.emit(k, team, work)


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


def _scale(rows: Rows, factor: Register) -> None:
    """y = y factor.

    Halves that lie together by pairs, with the factor as a sum of two of them: the product with the
    smaller one is part of what is rounded.
    """
    y = rows.fields["y"]
    k, element = rows.k, y.element
    if not element.is_rounded or y.elements[-1] != element.size:
        rows.sweep(["y"], ["y"], scaled(factor))
        return
    with k.scope():
        high, low = k.x(2)
        element.narrow(k, high, factor)
        k.mv(low, high)
        element.widen(k, [low])
        k.fsub_s(low, factor, low)
        element.narrow(k, low, low)
        for part in (high, low):
            k.p_insert(part, part, 15, 16)

        def body(v: Lanes, x: Lane) -> list[Lane]:
            product = v.x()
            getattr(v, f"vfmul_{element.letter}")(product, x, low)
            getattr(v, f"vfmac_{element.letter}")(product, x, high)
            return [product]

        rows.sweep_pairs(["y"], ["y"], body, unroll=rows.unroll)


def _slope(total: Register) -> Body:
    def body(v: Lanes, y: Lane, dy: Lane) -> list[Lane]:
        v.fsub_s(dy, dy, total)
        v.fmul_s(dy, dy, y)
        return [dy]

    return body


def _product(v: Lanes, total: Lane, a: Lane, b: Lane) -> None:
    v.fmadd_s(total, a, b, total)


class SoftmaxArguments(TiledArguments):
    """A tensor of any shape.

    axis      the dimension, -1 for the last one
    split     what is partitioned: rows, parts of each row ("columns"), or what takes less time
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


def exponential(k: Kernel) -> ExpOfNegative:
    return ExpOfNegative(k, constant(k, 1.0))


def largest(rows: Rows, tile: TileShape) -> None:
    """most = the largest x."""
    with rows.each():
        keep_largest(rows, tile)


def keep_largest(rows: Rows, tile: TileShape) -> None:
    """most = the largest x of a row."""
    most = rows.largest("x")
    add_old(rows, tile, "most", most, "max")
    rows.store("most", most)


def _powers(rows: Rows, tile: TileShape) -> None:
    """The last tile makes a factor of the sum."""
    exp = exponential(rows.k)
    with rows.each():
        most = rows.load("most")
        total = rows.total(["x"], powers(exp, most), targets=["y"], longest=LONG_OF_PRODUCTS)
        add_old(rows, tile, "total", total)
        if tile.is_last:
            rows.k.fdiv_s(total, exp.one, total)
        rows.store("total", total)


def _products(rows: Rows, tile: TileShape) -> None:
    with rows.each():
        total = rows.total(["y", "dy"], _product, longest=LONG_OF_PRODUCTS)
        keep(rows, tile, total=total)


def _shares(rows: Rows, _: TileShape) -> None:
    with rows.each():
        _scale(rows, rows.load("total"))


def _slopes(rows: Rows, _: TileShape) -> None:
    with rows.each():
        rows.sweep(["y", "dy"], ["dx"], _slope(rows.load("total")))


def _phases(element: Element, point: Any, is_backward: bool) -> list[Phase]:
    """Rows are cut too: the largest, powers and their sum, their shares of it."""
    axis = f"d{point.axis % len(point.shape)}"
    sizes = {f"d{a}": n for a, n in enumerate(point.shape)}
    every, rows = tuple(sizes), tuple(a for a in sizes if a != axis)
    sums = ("most", "total")
    of = sizes, lambda name: rows if name in sums else every
    p = Passes(*of, point.split, point.unroll, element, sums)
    if is_backward:
        given: dict[str, Role] = {"y": "in", "dy": "in"}
        slopes: dict[str, Role] = {**given, "dx": "out", "total": "in"}
        return [
            p.phase("products", _products, rows, {**given, "total": "out"}, is_sum=True),
            p.phase("slopes", _slopes, rows, slopes, is_sum=False),
        ]
    read: dict[str, Role] = {"x": "in", "y": "out", "most": "in", "total": "out"}
    return [
        p.phase("largest", largest, rows, {"x": "in", "most": "out"}, is_sum=True),
        p.phase("powers", _powers, rows, read, is_sum=True),
        p.phase("shares", _shares, rows, {"y": "inout", "total": "in"}, is_sum=False),
    ]


def _family(
    element: Element, emitter: Callable[..., None], inputs: str, output: str, expects: Callable
) -> Family:
    names = inputs.split()
    kernel = emitter.__name__.replace("f32", element.name)

    def tensors(point: Any) -> Tensors:
        _shape(point)
        read = {name: packed(point.shape, "in", element) for name in names}
        return {**read, output: packed(point.shape, "out", element), "partials": PARTIALS}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        result = expects(*(values[name] for name in names), point.axis)
        if element.is_half and output == "y":  # powers are rounded, too
            result = with_rounding(element.dtype, result)
        return rounded_once(element.dtype, {output: result})

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        element.check(k, kernel)
        addresses = (l1[name] for name in tensors(point))
        how = {"element": element, "split": point.split, "unroll": point.unroll}
        emitter(k, team, *addresses, _shape(point), **how)

    def phases(point: Any) -> Phases:
        rows = WORD * prod(point.shape) // point.shape[point.axis]
        return Phases(_phases(element, point, output == "dx"), {"most": rows, "total": rows})

    of = kernel, SoftmaxArguments, tensors, expected, no_macs, emit
    family = Family(*of, phases=phases)
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


FAMILIES = tuple(
    _family(element, *of)
    for element in ELEMENTS
    for of in (
        (softmax_fw_f32, "x", "y", reference.forward),
        (softmax_bw_f32, "y dy", "dx", reference.backward),
    )
)
