"""Cross-entropy as a primitive: its arguments, its tensors, rows larger than L1."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import LTU, Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib import kernels
from trainlib.cross_entropy import CrossEntropy, cross_entropy_loss_f32, weighed, weights_of
from trainlib.elementary import ExpOfNegative
from trainlib.fill import fill_f32
from trainlib.kernels import (
    INT32,
    WORD,
    Addresses,
    Arrays,
    Expected,
    Family,
    Role,
    Tensor,
    Tensors,
)
from trainlib.loss import ALL, Reduction, Share
from trainlib.maps import fitting, map_f32, no_macs
from trainlib.nest import UNROLL, Body
from trainlib.phases import Phase, emit_phases
from trainlib.reference import loss as reference
from trainlib.row_passes import Passes, Work
from trainlib.rows import PARTIALS, SCRATCH, Rows, Split
from trainlib.softmax import add_old, exponential, largest, powers, scaled
from trainlib.tiled import tiled
from trainlib.tiling import Axis, Dim, Sized, TileShape, Tiling


class CrossEntropyArguments(kernels.Arguments):
    """x[b, classes]; t[b], class numbers, or is_soft: t[b, classes], weights."""

    b: PositiveInt = 1
    classes: PositiveInt
    is_soft: bool = False
    reduction: Reduction = "mean"
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _cross_entropy_tensors(point: Any) -> Tensors:
    dims = point.b, point.classes
    numbers = Tensor((point.b,), dtype=INT32, below=point.classes, is_index=True)
    t = Tensor(dims) if point.is_soft else numbers
    scratch = {name: Tensor((point.b,), "scratch") for name in "smw"}
    return {
        "x": Tensor(dims),
        "t": t,
        "loss": Tensor((1,), "out"),
        "dx": Tensor(dims, "out"),
        **scratch,
        "partials": PARTIALS,
    }


def _cross_entropy_expected(point: Any, values: Arrays) -> dict[str, Expected]:
    scale = ALL.scale(point.reduction, point.b)
    loss, dx = reference.cross_entropy(values["x"], values["t"], scale, point.is_soft)
    return {"loss": loss, "dx": dx}


def _cross_entropy_emit(
    k: Kernel, team: Team, point: Any, l1: Addresses, share: Share = ALL
) -> None:
    addresses = (l1[name] for name in _cross_entropy_tensors(point))
    cross_entropy_loss_f32(
        *(k, team, *addresses, point.b, point.classes),
        is_soft=point.is_soft,
        reduction=point.reduction,
        share=share,
        split=point.split,
        unroll=point.unroll,
    )


def _cross_entropy_part(
    k: Kernel, team: Team, point: Any, part: Any, shape: TileShape, l1: Addresses
) -> None:
    _cross_entropy_emit(k, team, part, l1, Share(point.b, not shape.is_first))


def _cross_entropy_boxes(point: Any) -> dict[str, list[Axis]]:
    t: list[Axis] = ["b", None] if point.is_soft else ["b"]
    return {"x": ["b", None], "t": t, "loss": [None], "dx": ["b", None]}


def _phases(point: Any) -> list[Phase]:
    """Rows are cut: the largest, powers and sums of each, gradients, then the loss."""
    p = Passes({"b": point.b, "classes": point.classes}, ("b",), point.split, point.unroll)
    scale = ALL.scale(point.reduction, point.b)
    x: dict[str, tuple[str, Role]] = {"x": ("x", "in")}
    t: dict[str, tuple[str, Role]] = {"t": ("t", "in")}
    dx: dict[str, tuple[str, Role]] = {"dx": ("dx", "out")}
    again: dict[str, tuple[str, Role]] = {"dx": ("dx", "inout")}
    most: dict[str, Role] = {"most": "out"}
    total: dict[str, Role] = {"most": "in", "s": "out"}
    weight: dict[str, Role] = {"most": "in", "m": "out", "w": "out"}
    number: dict[str, Role] = {"t": "in", "left": "out"}
    shares: dict[str, Role] = {"s": "in", "w": "in"}
    gradients: Work
    if point.is_soft:
        phases = [
            p.of("largest", largest, x, most, is_sum=True),
            p.of("weights", _weights, x | t, weight, is_sum=True),
        ]
        gradients, last, again = _soft_gradients(scale), shares, again | t
    else:
        picked: dict[str, Role] = {**most, **number, "m": "out"}
        phases = [p.of("largest", _class_largest, x, picked, is_sum=True)]
        gradients, last = _class_gradients(scale), {"s": "in", **number}
    return [
        *phases,
        p.of("powers", _powers, x | dx, total, is_sum=True, prepare=exponential),
        p.of("gradients", gradients, again, last, is_sum=not point.is_soft),
        _loss(point, scale),
    ]


def _loss(point: Any, scale: float) -> Phase:
    """From s, m and w of all rows; for classes by number, from the largest x and the class's."""
    names = "smw" if point.is_soft else ("s", "m", "most")

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        of = tile["b"], point.classes, scale, point.is_soft, not tile.is_first
        entropy = CrossEntropy(*of)

        def emit_loss(k: Kernel, team: Team, width: int) -> None:
            with k.scope():
                entropy.emit_loss(k, team, at, width)

        if not point.is_soft:
            fill_f32(k, team, at["w"], tile["b"], value=1.0)
            map_f32(k, team, _difference, [at["most"], at["m"]], [at["m"]], tile["b"])
            team.barrier()
        fitting(k, team, emit_loss, point.unroll)

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


def _weights(rows: Rows, tile: TileShape, _: Any) -> None:
    totals = rows.reduce(["x", "t"], weights_of(rows.load("most")), ["sum", "sum"])
    for name, total in zip("mw", totals, strict=True):
        add_old(rows, tile, total, name)
        rows.store(name, total)


def _powers(rows: Rows, tile: TileShape, exp: ExpOfNegative) -> None:
    [total] = rows.reduce(["x"], powers(exp, rows.load("most")), ["sum"], targets=["dx"])
    add_old(rows, tile, total, "s")
    rows.store("s", total)


def _soft_gradients(scale: float) -> Work:
    def work(rows: Rows, _: TileShape, __: Any) -> None:
        weight, total = rows.load("w"), rows.load("s")
        body = weighed(rows.k, constant(rows.k, scale), weight, total)
        rows.sweep(["dx", "t"], ["dx"], body)

    return work


def _load_left(rows: Rows, tile: TileShape) -> Register:
    """The row's class, counted from the first one of the tile, in a new register."""
    left = rows.address("t" if tile.is_first else "left")
    rows.k.lw(left, 0, left)
    return left


def _here(rows: Rows, left: Register, name: str, element: Register) -> None:
    """element = the address of the class's element, for rows that have it in the tile."""
    k = rows.k
    k.slli(element, left, 2)
    with k.scope():
        k.add(element, element, rows.address(name))


def _store_left(rows: Rows, tile: TileShape, left: Register) -> None:
    """What it is for the next tile; once, when all cores have loaded it."""
    k = rows.k
    with rows.team.only(0) if rows.by_columns else nullcontext(), k.scope():
        k.add_constant(left, left, -tile["classes"], k.x())
        k.sw(left, 0, rows.address("left"))


def _class_largest(rows: Rows, tile: TileShape, _: Any) -> None:
    """The largest x, and m = that of the row's class."""
    k, left = rows.k, _load_left(rows, tile)
    largest(rows, tile, None)
    value = k.f() if tile.is_first else rows.load("m")
    if tile.is_first:
        k.fzero(value)
    with k.scope():
        classes, element = k.x(2)
        k.li(classes, tile["classes"])
        with k.if_(LTU, left, classes):
            _here(rows, left, "x", element)
            k.fload(value, 0, element)
    if rows.by_columns:
        rows.team.barrier()
    rows.store("m", value)
    _store_left(rows, tile, left)


def _class_gradients(scale: float) -> Work:
    def work(rows: Rows, tile: TileShape, _: Any) -> None:
        k, left, total = rows.k, _load_left(rows, tile), rows.load("s")
        factor = constant(k, scale)
        k.fdiv_s(total, factor, total)
        rows.sweep(["dx"], ["dx"], scaled(total))
        if rows.by_columns:
            rows.team.barrier()
        with rows.team.only(0) if rows.by_columns else nullcontext(), k.scope():
            classes, element = k.x(2)
            k.li(classes, tile["classes"])
            with k.if_(LTU, left, classes):
                _here(rows, left, "dx", element)
                k.fload(total, 0, element)
                k.fsub_s(total, total, factor)
                k.fstore(total, 0, element)
        _store_left(rows, tile, left)

    return work


def _emit_l2(k: Kernel, team: Team, point: Any, l2: Mapping[str, int]) -> None:
    between = dict.fromkeys(("most", "s", "m", "w", "left"), WORD * point.b)
    how = point.tile or {}, point.buffers
    emit_phases(k, team, _phases(point), l2, between, *how, is_warm=point.warm)


CROSS_ENTROPY = tiled(
    Family(
        "cross_entropy_loss_f32",
        CrossEntropyArguments,
        _cross_entropy_tensors,
        _cross_entropy_expected,
        no_macs,
        _cross_entropy_emit,
        emit_l2=_emit_l2,
    ),
    lambda point: [Dim("b", point.b, is_summed=True)],
    _cross_entropy_boxes,
    lambda _, shape: {"b": shape["b"]},
    lambda shape: SCRATCH | dict.fromkeys("smw", WORD * shape["b"]),
    _cross_entropy_part,
)

FAMILIES = (CROSS_ENTROPY,)
