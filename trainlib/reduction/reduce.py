"""Sums, means and maxima over any dimensions of a tensor."""

from functools import partial
from math import nan, prod
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import NonNegativeInt, PositiveInt

from firmware.builder import EQ, NE, Kernel, KernelError, Register
from firmware.lanes import Lane, Lanes, constant, load_constant, pattern
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.codegen.nest_operands import row_major
from trainlib.elementwise.elementwise import no_macs, packed
from trainlib.elementwise.rounded_sums import rounded_sums
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import Address, Addresses, Arrays, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled
from trainlib.reduction.row_reduction import PARTIALS, SCRATCH, Field, Kind, Rows, Split
from trainlib.reduction.row_view import View
from trainlib.reference import reduce as reference
from trainlib.reference.halves import rounded_once

What = Literal["sum", "mean", "max"]


def reduce_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    partials: Address,
    dims: tuple[int, ...],
    axes: tuple[int, ...],
    *,
    what: What = "sum",
    accumulate: bool = False,
    count: int | None = None,
    element: Element = F32,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y = the sum, mean or largest element of x over some of its dimensions, which y has not.

    partials      scratch, as large as trainlib.reduction.row_reduction.PARTIALS
    accumulate    to the sum, or the largest element, that y has
    count         elements that a mean is of; None: those of x; 0: it is still a sum
    element       type of x; y is single precision
    """
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    rows_dims, elements = [dims[a] for a in kept] or [1], [dims[a] for a in axes]
    steps = row_major(x, dims, element).steps
    x_rows = tuple(steps[a] for a in kept) or (0,)
    y_rows = row_major(y, rows_dims).steps if kept else (0,)
    fields = {
        "x": Field(x, x_rows, tuple(steps[a] for a in axes), element),
        "y": Field(y, y_rows, (0,) * len(elements)),
    }

    def work(rows: Rows) -> None:
        k = rows.k
        with rows.each():
            if what == "max":
                most = _largest(k, rows)
                if accumulate:
                    with rows.once():
                        _join(k, most, rows.load("y"))
                rows.store("y", most)
                return
            total = rows.total(["x"], _add)
            if accumulate:
                with rows.once(), k.scope():
                    k.fadd_s(total, total, rows.load("y"))
            terms = prod(elements) if count is None else count
            if what == "mean" and terms:
                k.fmul_s(total, total, constant(k, 1 / terms))
            rows.store("y", total)

    View(tuple(rows_dims), tuple(elements), fields, partials, split, unroll).emit(k, team, work)


def _add(v: Lanes, total: Lane, x: Lane) -> None:
    v.fadd_s(total, total, x)


def _largest(k: Kernel, rows: Rows) -> Any:
    """The largest, NaN if there is any: fmax forgets them, so it is kept apart whether one was."""

    def step(v: Lanes, most: Lane, is_nan: Lane, x: Lane) -> None:
        t = v.x()
        v.feq_s(t, x, x)
        v.xori(t, t, 1)
        v.fmax_s(most, most, x)
        flag = x  # 1 as a pattern is the smallest float above 0
        v.floats(flag, t)
        v.fmax_s(is_nan, is_nan, flag)

    kinds: list[Kind] = ["max", "max"]
    most, is_nan = rows.reduce(["x"], step, kinds)
    v = Lanes(k, 1)
    words, flag, nan = v.words([most]), v.words([is_nan]), k.x()
    k.li(nan, pattern(float("nan")))
    v.slt(flag, ZERO, flag)
    v.sub(flag, ZERO, flag)
    v.and_(flag, flag, nan)
    v.or_(words, words, flag)
    v.floats([most], words)
    return most


def _join(k: Kernel, most: Register, old: Register) -> None:
    """The larger of them, NaN if one is."""
    for value, other in ((most, old), (old, most)):
        with k.scope():
            is_number = k.x()
            k.feq_s(is_number, value, value)
            with k.if_(EQ, is_number, ZERO):
                load_constant(k, other, nan)
    with k.scope():
        is_number = k.x()
        k.feq_s(is_number, most, most)
        with k.if_(NE, is_number, ZERO):
            k.fmax_s(most, most, old)


class ReduceArguments(TiledArguments):
    """A tensor of any shape, and the dimensions that are summed over.

    split     what is partitioned: results ("rows"), parts of each sum ("columns"), or what is best
    unroll    elements that are added side by side
    """

    shape: tuple[PositiveInt, ...] = Setting(min_length=1)
    axes: tuple[NonNegativeInt, ...] = Setting(min_length=1)
    what: What = "sum"
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _tensors(element: Element, point: Any) -> Tensors:
    dims, axes = point.shape, point.axes
    if len(set(axes)) < len(axes) or max(axes) >= len(dims):
        raise KernelError(f"reduce: axes {axes} are not different ones of {len(dims)} dimensions")
    kept = tuple(n for axis, n in enumerate(dims) if axis not in axes)
    x, y = packed(dims, "in", element), packed(kept or (1,), "out", element)
    return {"x": x, "y": y, "partials": PARTIALS}


def _expected(element: Element, point: Any, values: Arrays) -> dict[str, Expected]:
    result = reference.reduce(values["x"], point.axes, point.what)
    return rounded_once(element.dtype, {"y": result})


def _emit(element: Element, k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
    reduce_f32(
        *(k, team, l1["x"], l1["y"], l1["partials"], point.shape, point.axes),
        what=point.what,
        element=element,
        split=point.split,
        unroll=point.unroll,
    )


def _dims(point: Any) -> list[Dim]:
    """Those that are summed over last."""
    dims = [Dim(f"d{a}", n, is_summed=a in point.axes) for a, n in enumerate(point.shape)]
    return sorted(dims, key=lambda dim: dim.is_summed)


def _boxes(point: Any) -> dict[str, list[Axis]]:
    x: list[Axis] = [f"d{axis}" for axis in range(len(point.shape))]
    y = [name for axis, name in enumerate(x) if axis not in point.axes]
    return {"x": x, "y": y or [None]}


def _smaller(point: Any, shape: TileShape) -> dict[str, Any]:
    return {"shape": shape.part("x").shape}


def _emit_part(
    element: Element,
    k: Kernel,
    team: Team,
    point: Any,
    part: Any,
    tile: TileShape,
    l1: Addresses,
) -> None:
    element.check(k, f"reduce_{element.name}")
    reduce_f32(
        *(k, team, l1["x"], l1["y"], l1["partials"], part.shape, point.axes),
        what=point.what,
        accumulate=not tile.is_first,
        count=prod(point.shape[axis] for axis in point.axes) if tile.is_last else 0,
        element=element,
        split=point.split,
        unroll=point.unroll,
    )


def family(element: Element) -> Family:
    """The reductions of this type: sums are in single precision."""
    tensors, expected, emit = (partial(of, element) for of in (_tensors, _expected, _emit))
    of: Any = ReduceArguments, tensors, expected, no_macs, emit
    whole = Family(f"reduce_{element.name}", *of)
    parts = _dims, _boxes, _smaller, SCRATCH, partial(_emit_part, element)
    return rounded_sums(tiled(whole, *parts, tells_last=True), element, ["y"])


FAMILIES = tuple(map(family, ELEMENTS))
