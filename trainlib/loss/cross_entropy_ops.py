"""Cross-entropy as a primitive: its arguments, its tensors, rows larger than L1."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import LTU, Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.elementwise.approximations import ExpOfNegative
from trainlib.elementwise.elementwise import map_f32, no_macs, packed
from trainlib.elementwise.fill import fill_f32
from trainlib.loss.cross_entropy import (
    CrossEntropy,
    added_powers,
    cross_entropy_loss_f32,
    load_element,
    powers_times,
    store_of_class,
    weighed,
    weighed_powers,
    weights_of,
)
from trainlib.loss.elementwise import ALL, Reduction, Share
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.slices import Axis, Sized, TileShape
from trainlib.primitive.tensor import INT32, WORD, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.primitive.uniform_tiles import tiled
from trainlib.reduction.phases import Passes, Work, keep
from trainlib.reduction.row_reduction import LONG_OF_PRODUCTS, PARTIALS, SCRATCH, Rows, Split
from trainlib.reduction.softmax import exponential, keep_largest, largest, powers, scaled
from trainlib.reference import loss as reference
from trainlib.reference.halves import rounded_once


class CrossEntropyArguments(TiledArguments):
    """x[b, classes]; t[b], class numbers, or is_soft: t[b, classes], weights."""

    b: PositiveInt = 1
    classes: PositiveInt
    is_soft: bool = False
    reduction: Reduction = "mean"
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _cross_entropy_tensors(element: Element, point: Any) -> Tensors:
    dims = point.b, point.classes
    numbers = Tensor((point.b,), dtype=INT32, below=point.classes, is_index=True)
    t = packed(dims, "in", element) if point.is_soft else numbers
    scratch = {name: Tensor((point.b,), "scratch") for name in "smw"}
    return {
        "x": packed(dims, "in", element),
        "t": t,
        "loss": Tensor((1,), "out"),
        "dx": packed(dims, "out", element),
        **scratch,
        "partials": PARTIALS,
    }


def _cross_entropy_expected(element: Element, point: Any, values: Arrays) -> dict[str, Expected]:
    scale = ALL.scale(point.reduction, point.b)
    loss, dx = reference.cross_entropy(values["x"], values["t"], scale, point.is_soft)
    return {"loss": loss, **rounded_once(element.dtype, {"dx": dx})}


def _cross_entropy_emit(
    element: Element, k: Kernel, team: Team, point: Any, l1: Addresses, share: Share = ALL
) -> None:
    element.check(k, f"cross_entropy_loss_{element.name}")
    addresses = (l1[name] for name in _cross_entropy_tensors(element, point))
    cross_entropy_loss_f32(
        *(k, team, *addresses, point.b, point.classes),
        is_soft=point.is_soft,
        reduction=point.reduction,
        share=share,
        element=element,
        split=point.split,
        unroll=point.unroll,
    )


def _cross_entropy_part(
    element: Element,
    k: Kernel,
    team: Team,
    point: Any,
    part: Any,
    shape: TileShape,
    l1: Addresses,
) -> None:
    _cross_entropy_emit(element, k, team, part, l1, Share(point.b, not shape.is_first))


def _cross_entropy_boxes(point: Any) -> dict[str, list[Axis]]:
    t: list[Axis] = ["b", None] if point.is_soft else ["b"]
    return {"x": ["b", None], "t": t, "loss": [None], "dx": ["b", None]}


def _phases(element: Element, point: Any) -> Phases:
    """Rows are cut: the largest, powers and sums of each, gradients, then the loss."""
    again = element.is_half
    sizes, every, rows = {"b": point.b, "classes": point.classes}, ("b", "classes"), ("b",)
    wide = ("x", "dx", "t") if point.is_soft else ("x", "dx")
    single = tuple(name for name in (*"tsmw", "most", "left") if name not in wide)
    of = sizes, lambda name: every if name in wide else rows
    p = Passes(*of, point.split, point.unroll, element, single)
    scale = ALL.scale(point.reduction, point.b)
    read: dict[str, Role] = {"x": "in", "t": "in", "most": "in", "m": "out", "w": "out"}
    summed: dict[str, Role] = {"x": "in", "most": "in", "s": "out"}
    found: dict[str, Role] = {"x": "in", "most": "out"}
    made: dict[str, Role] = {"x": "in", "most": "in", "dx": "out"}
    if not again:
        summed, made = {**summed, "dx": "out"}, {"dx": "inout"}
    gradients: Work
    if point.is_soft:
        phases = [
            p.phase("largest", largest, rows, found, is_sum=True),
            p.phase("weights", _weights, rows, read, is_sum=True),
        ]
        gradients, made = _soft_gradients(scale, again), {**made, "t": "in", "s": "in", "w": "in"}
    else:
        found |= {"t": "in", "left": "out", "m": "out"}
        phases = [p.phase("largest", _class_largest, rows, found, is_sum=True)]
        gradients, made = (
            _class_gradients(scale, again),
            {**made, "s": "in", "t": "in", "left": "out"},
        )
    each = [
        *phases,
        p.phase("powers", partial(_powers, again=again), rows, summed, is_sum=True),
        p.phase("gradients", gradients, rows, made, is_sum=not point.is_soft),
        _loss(point, scale),
    ]
    return Phases(each, dict.fromkeys(("most", "s", "m", "w", "left"), WORD * point.b))


def _loss(point: Any, scale: float) -> Phase:
    """From s, m and w of all rows; for classes by number, from the largest x and the class's."""
    names = "smw" if point.is_soft else ("s", "m", "most")

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        of = tile["b"], point.classes, scale, point.is_soft, not tile.is_first
        if not point.is_soft:
            fill_f32(k, team, at["w"], tile["b"], value=1.0)
            map_f32(k, team, _difference, [at["most"], at["m"]], [at["m"]], tile["b"])
            team.barrier()
        CrossEntropy(*of).emit_loss(k, team, at, point.unroll)

    def scratch(sizes: Sized) -> dict[str, Any]:
        return SCRATCH | ({} if point.is_soft else {"w": WORD * sizes["b"]})

    tensors: dict[str, Tensor] = {name: Tensor((point.b,)) for name in names}
    boxes: dict[str, tuple[Axis, ...]] = dict.fromkeys(names, ("b",))
    dims = (Dim("b", point.b, is_summed=True),)
    tiling = Tiling(dims, {**boxes, "loss": (None,)}, emit, scratch)
    tensors["loss"] = Tensor((1,), "out")
    return Phase("loss", tiling, tensors, {name: (name, 0) for name in tensors})


def _difference(_: Kernel) -> Body:
    def body(v: Lanes, x: Lane, y: Lane) -> list[Lane]:
        v.fsub_s(x, x, y)
        return [x]

    return body


def _weights(rows: Rows, tile: TileShape) -> None:
    with rows.each():
        m, w = rows.totals(["x", "t"], weights_of(rows.load("most")), 2, longest=LONG_OF_PRODUCTS)
        keep(rows, tile, m=m, w=w)


def _powers(rows: Rows, tile: TileShape, *, again: bool) -> None:
    exp = exponential(rows.k)
    with rows.each():
        step = (added_powers if again else powers)(exp, rows.load("most"))
        total = rows.total(["x"], step, targets=[] if again else ["dx"], longest=LONG_OF_PRODUCTS)
        keep(rows, tile, s=total)


def _soft_gradients(scale: float, again: bool) -> Work:
    def work(rows: Rows, _: TileShape) -> None:
        k = rows.k
        exp = ExpOfNegative(k, constant(k, 1.0), is_thrifty=True) if again else None
        with rows.each():
            weight, total = rows.load("w"), rows.load("s")
            factors = constant(k, scale), weight, total
            if exp:
                made = weighed_powers(k, exp, rows.load("most"), *factors)
                rows.sweep(["x", "t"], ["dx"], made, late=(1,))
            else:
                rows.sweep(["dx", "t"], ["dx"], weighed(k, *factors))

    return work


def _load_left(rows: Rows, tile: TileShape) -> Register:
    """The row's class, counted from the first one of the tile, in a new register."""
    left = rows.address("t" if tile.is_first else "left")
    rows.k.lw(left, 0, left)
    return left


@contextmanager
def _of_class(rows: Rows, tile: TileShape, left: Register, name: str) -> Iterator[Register]:
    """The address of the class's element; the body is for rows that have it in the tile."""
    k = rows.k
    with k.scope():
        classes, element = k.x(2)
        k.li(classes, tile["classes"])
        with k.if_(LTU, left, classes):
            k.slli(element, left, rows.fields[name].element.size.bit_length() - 1)
            with k.scope():
                k.add(element, element, rows.address(name))
            yield element


def _store_left(rows: Rows, tile: TileShape, left: Register) -> None:
    """What it is for the next tile; once, when all cores have loaded it."""
    k = rows.k
    with rows.team.only(0) if rows.by_columns else nullcontext(), k.scope():
        k.add_constant(left, left, -tile["classes"], k.x())
        k.sw(left, 0, rows.address("left"))


def _class_largest(rows: Rows, tile: TileShape) -> None:
    """The largest x, and m = that of the row's class."""
    k = rows.k
    with rows.each():
        left = _load_left(rows, tile)
        keep_largest(rows, tile)
        value = k.f() if tile.is_first else rows.load("m")
        if tile.is_first:
            k.fzero(value)
        with _of_class(rows, tile, left, "x") as element:
            load_element(k, rows.fields["x"].element, value, element)
        if rows.by_columns:
            rows.team.barrier()
        rows.store("m", value)
        _store_left(rows, tile, left)


def _class_gradients(scale: float, again: bool) -> Work:
    def work(rows: Rows, tile: TileShape) -> None:
        k = rows.k
        exp = ExpOfNegative(k, constant(k, 1.0), is_thrifty=True) if again else None
        with rows.each():
            left, total = _load_left(rows, tile), rows.load("s")
            factor = constant(k, scale)
            k.fdiv_s(total, factor, total)
            most = rows.load("most") if again else factor
            if exp:
                rows.sweep(["x"], ["dx"], powers_times(exp, most, total))
            else:
                rows.sweep(["dx"], ["dx"], scaled(total))
            if rows.by_columns:
                rows.team.barrier()
            alone = rows.team.only(0) if rows.by_columns else nullcontext()
            with alone, _of_class(rows, tile, left, "dx") as element:
                if exp:
                    with _of_class(rows, tile, left, "x") as x:
                        of = rows.fields["x"].element
                        store_of_class(k, exp, of, x, element, most, (total, factor))
                else:
                    k.fload(total, 0, element)
                    k.fsub_s(total, total, factor)
                    k.fstore(total, 0, element)
            _store_left(rows, tile, left)

    return work


def family(element: Element) -> Family:
    """The loss of this type."""
    name = f"cross_entropy_loss_{element.name}"
    own: Any = (_cross_entropy_tensors, _cross_entropy_expected, _cross_entropy_emit, _phases)
    tensors, expected, emit, phases = (partial(of, element) for of in own)
    of: Any = tensors, expected, no_macs, emit
    return tiled(
        replace(Family(name, CrossEntropyArguments, *of), phases=phases),
        lambda point: [Dim("b", point.b, is_summed=True)],
        _cross_entropy_boxes,
        lambda _, shape: {"b": shape["b"]},
        lambda _, shape: SCRATCH | dict.fromkeys("smw", WORD * shape["b"]),
        partial(_cross_entropy_part, element),
    )


FAMILIES = tuple(map(family, ELEMENTS))
