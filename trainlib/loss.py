"""Losses with their gradients in one pass: MSE, L1, berHu, cross-entropy; means or sums.

berHu is |d| up to c and (d^2 + c^2) / 2c beyond, d = x - t; with r = max(|d| - c, 0) it is
|d| + r^2 / 2c, its slope sign(d) (1 + r / c). c is alpha times the largest |d|, and no variable.
Cross-entropy takes off the largest logit first, and adds up logarithms last, all rows together.

Source: L. Zwald, S. Lambert-Lacroix, The BerHu Penalty and the Grouped Effect.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib import kernels
from trainlib.elementary import ExpOfNegative, Log
from trainlib.kernels import (
    INT32,
    WORD,
    Address,
    Addresses,
    Arrays,
    Expected,
    Family,
    Tensor,
    Tensors,
)
from trainlib.maps import fitting, no_macs
from trainlib.nest import UNROLL, Load
from trainlib.reference import loss as reference
from trainlib.rows import PARTIALS, SCRATCH, Field, Rows, Split, split_of
from trainlib.tiled import tiled
from trainlib.tiling import Axis, Dim, TileShape

Reduction = Literal["mean", "sum"]
SMALLEST = 2.0**-126
Step = Callable[[Lanes, Lane, Lane], list[Lane]]


@dataclass(frozen=True)
class Share:
    """What a tile is of all: elements or rows that the mean is of (None: the tile's own), and
    whether the loss is added to that of other tiles.
    """

    whole: int | None = None
    adds: bool = False

    def scale(self, reduction: Reduction, count: int) -> float:
        return 1 / (self.whole or count) if reduction == "mean" else 1.0


ALL = Share()


def _element_loss(
    k: Kernel,
    team: Team,
    at: tuple[Address, Address, Address, Address, Address],
    count: int,
    scale: float,
    adds: bool,
    step_of: Callable[[Kernel, Rows], Step],
    unroll: int,
) -> None:
    """The loss and dx of one row of all elements; step(lanes, total, difference) adds, gives dx."""
    x, t, loss, dx, partials = at
    fields = {name: Field(a, (0,), (WORD,)) for name, a in zip("xtd", (x, t, dx), strict=True)}

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            fields["loss"] = Field(loss, (0,), (0,))
            split: Split = "columns"
            rows = Rows(k, team, (1,), (count,), fields, partials, split, unroll=width)
            with rows.each(), k.scope():
                step = step_of(k, rows)

                def body(v: Lanes, total: Lane, x: Lane, t: Lane) -> list[Lane]:
                    v.fsub_s(x, x, t)
                    return step(v, total, x)

                [total] = rows.reduce(["x", "t"], body, ["sum"], targets=["d"])
                k.fmul_s(total, total, constant(k, scale))
                (rows.add if adds else rows.store)("loss", total)

    fitting(k, team, emit, unroll)


def mse_loss_f32(
    k: Kernel,
    team: Team,
    x: Address,
    t: Address,
    loss: Address,
    dx: Address,
    partials: Address,
    count: int,
    *,
    factor: float = 1.0,
    reduction: Reduction = "mean",
    share: Share = ALL,
    unroll: int = UNROLL,
) -> None:
    """loss = mean (x - t)^2 and its gradient dx, times a factor.

    partials    scratch, as large as trainlib.rows.PARTIALS
    """
    scale = share.scale(reduction, count)

    def step_of(k: Kernel, _: Rows) -> Step:
        slope = constant(k, 2 * scale * factor)

        def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
            v.fmadd_s(total, d, d, total)
            v.fmul_s(d, d, slope)
            return [d]

        return step

    _element_loss(k, team, (x, t, loss, dx, partials), count, scale, share.adds, step_of, unroll)


def l1_loss_f32(
    k: Kernel,
    team: Team,
    x: Address,
    t: Address,
    loss: Address,
    dx: Address,
    partials: Address,
    count: int,
    *,
    reduction: Reduction = "mean",
    share: Share = ALL,
    unroll: int = UNROLL,
) -> None:
    """loss = mean |x - t| and its gradient dx, 0 where x = t."""
    scale = share.scale(reduction, count)

    def step_of(k: Kernel, _: Rows) -> Step:
        sign = _Sign(k)
        slope = constant(k, scale)

        def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
            size = v.f()
            v.fsgnjx_s(size, d, d)
            sign(v, d)
            v.fadd_s(total, total, size)
            v.fmul_s(d, d, slope)
            return [d]

        return step

    _element_loss(k, team, (x, t, loss, dx, partials), count, scale, share.adds, step_of, unroll)


def berhu_loss_f32(
    k: Kernel,
    team: Team,
    x: Address,
    t: Address,
    loss: Address,
    dx: Address,
    partials: Address,
    count: int,
    *,
    alpha: float = 0.2,
    reduction: Reduction = "mean",
    unroll: int = UNROLL,
) -> None:
    """loss = mean berHu(x - t) and its gradient dx, with c = alpha max |x - t|."""
    scale = ALL.scale(reduction, count)

    def step_of(k: Kernel, rows: Rows) -> Step:
        def larger(v: Lanes, most: Lane, x: Lane, t: Lane) -> None:
            v.fsub_s(x, x, t)
            v.fsgnjx_s(x, x, x)
            v.fmax_s(most, most, x)

        [c] = rows.reduce(["x", "t"], larger, ["max"])
        inverse, half = k.f(), k.f()
        with k.scope():
            factor, least, one = (constant(k, value) for value in (alpha, SMALLEST, 1.0))
            k.fmul_s(c, c, factor)
            k.fmax_s(inverse, c, least)
            k.fdiv_s(inverse, one, inverse)
            a_half, slope = constant(k, 0.5), constant(k, scale)
            k.fmul_s(half, inverse, a_half)
            k.fmul_s(inverse, inverse, slope)
        sign, zero, slope = _Sign(k), constant(k, 0.0), constant(k, scale)

        def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
            size, rest = v.f(), v.f()
            v.fsgnjx_s(size, d, d)
            v.fsub_s(rest, size, c)
            sign(v, d)
            v.fmax_s(rest, rest, zero)
            v.fadd_s(total, total, size)
            v.fmul_s(size, rest, half)
            v.fmadd_s(total, size, rest, total)
            v.fmadd_s(rest, rest, inverse, slope)
            v.fmul_s(d, d, rest)
            return [d]

        return step

    _element_loss(k, team, (x, t, loss, dx, partials), count, scale, False, step_of, unroll)


class _Sign:
    """d = 1, 0 or -1, as torch's: 0 for NaN too."""

    def __init__(self, k: Kernel) -> None:
        self.zero = constant(k, 0.0)

    def __call__(self, v: Lanes, d: Lane) -> None:
        with v.k.scope():
            above, below = v.x(), v.x()
            v.flt_s(above, self.zero, d)
            v.flt_s(below, d, self.zero)
            v.sub(above, above, below)
            v.fcvt_s_w(d, above)


def cross_entropy_loss_f32(
    k: Kernel,
    team: Team,
    x: Address,
    t: Address,
    loss: Address,
    dx: Address,
    s: Address,
    m: Address,
    w: Address,
    partials: Address,
    b: int,
    classes: int,
    *,
    is_soft: bool = False,
    reduction: Reduction = "mean",
    share: Share = ALL,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """loss = mean over b rows of -log softmax(x)[t], and its gradient dx.

    t          class numbers, 0 .. classes - 1, as integers; is_soft: weights of all classes
    s, m, w    scratch, b words each
    """
    entropy = _CrossEntropy(b, classes, share.scale(reduction, b), is_soft, share.adds)
    at = {"x": x, "t": t, "dx": dx, "loss": loss, "partials": partials, "s": s, "m": m, "w": w}

    def emit_rows(k: Kernel, team: Team, width: int) -> None:
        how = split_of(split, b, classes, 2, team.cores)
        with k.scope():
            entropy.emit_rows(k, team, at, how, width)

    def emit_loss(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            entropy.emit_loss(k, team, at, width)

    fitting(k, team, emit_rows, unroll)
    team.barrier()
    fitting(k, team, emit_loss, unroll)


def _of_class(k: Kernel, rows: Rows, name: str) -> Register:
    """The address of the element whose number t has, in a new register."""
    at, place = rows.address(name), rows.address("t")
    k.lw(place, 0, place)
    k.slli(place, place, 2)
    k.add(at, at, place)
    return at


def _larger(v: Lanes, most: Lane, x: Lane) -> None:
    v.fmax_s(most, most, x)


@dataclass(frozen=True)
class _CrossEntropy:
    """For each row: s = sum of e^(x - max), m = sum of t (max - x), w = sum of t; w log s + m."""

    b: int
    classes: int
    scale: float
    is_soft: bool
    adds: bool

    def emit_rows(self, k: Kernel, team: Team, at: Addresses, split: Split, width: int) -> None:
        """dx, and s, m and w of all rows."""
        row, one = (WORD * self.classes,), (WORD,)
        fields = {name: Field(at[name], row, one) for name in ("x", "dx")}
        fields["t"] = Field(at["t"], row, one) if self.is_soft else Field(at["t"], one, (0,))
        fields |= {name: Field(at[name], one, (0,)) for name in "smw"}
        rows = Rows(
            k, team, (self.b,), (self.classes,), fields, at["partials"], split, unroll=width
        )
        exp = ExpOfNegative(k, constant(k, 1.0), is_thrifty=self.is_soft)
        with rows.each(), k.scope():
            [most] = rows.reduce(["x"], _larger, ["max"])
            if self.is_soft:
                self._soft(k, rows, exp, most)
            else:
                self._hard(k, team, rows, exp, most)

    def _powers(self, exp: ExpOfNegative, most: Register) -> Callable[..., list[Lane]]:
        def step(v: Lanes, total: Lane, x: Lane) -> list[Lane]:
            t, e = v.f(), v.f()
            v.fsub_s(x, x, most)
            exp.exp(v, x, t, e)
            v.fadd_s(total, total, e)
            return [e]

        return step

    def _hard(self, k: Kernel, team: Team, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        [total] = rows.reduce(["x"], self._powers(exp, most), ["sum"], targets=["dx"])
        with k.scope():
            value = k.f()
            k.fload(value, 0, _of_class(k, rows, "x"))
            k.fsub_s(most, most, value)
        for name, value in (("s", total), ("m", most), ("w", exp.one)):
            rows.store(name, value)
        scale = constant(k, self.scale)
        k.fdiv_s(total, scale, total)

        def weigh(v: Lanes, e: Lane) -> list[Lane]:
            v.fmul_s(e, e, total)
            return [e]

        rows.sweep(["dx"], ["dx"], weigh)
        if rows.by_columns:
            team.barrier()
        with team.only(0) if rows.by_columns else nullcontext(), k.scope():
            place, value = _of_class(k, rows, "dx"), k.f()
            k.fload(value, 0, place)
            k.fsub_s(value, value, scale)
            k.fstore(value, 0, place)

    def _soft(self, k: Kernel, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        def step(v: Lanes, below: Lane, weight: Lane, x: Lane, t: Lane) -> None:
            v.fsub_s(x, most, x)
            v.fadd_s(weight, weight, t)
            v.fmadd_s(below, x, t, below)

        below, weight = rows.reduce(["x", "t"], step, ["sum", "sum"])
        rows.store("m", below)
        rows.store("w", weight)
        k.free(below)
        [total] = rows.reduce(["x"], self._powers(exp, most), ["sum"], targets=["dx"])
        rows.store("s", total)
        scale = constant(k, self.scale)
        k.fmul_s(weight, weight, scale)
        k.fdiv_s(total, weight, total)

        def weigh(v: Lanes, e: Lane, t: Lane) -> list[Lane]:
            v.fmul_s(t, t, scale)
            v.fmsub_s(e, e, total, t)
            return [e]

        rows.sweep(["dx", "t"], ["dx"], weigh)

    def emit_loss(self, k: Kernel, team: Team, at: Addresses, width: int) -> None:
        """loss = scale (sum of w log s + m)."""
        fields = {name: Field(at[name], (0,), (WORD,)) for name in "smw"}
        fields["loss"] = Field(at["loss"], (0,), (0,))
        rows = Rows(k, team, (1,), (self.b,), fields, at["partials"], "columns", unroll=width)
        log = Log(k)

        def step(v: Lanes, total: Lane, s: Lane, load_m: Load, load_w: Load) -> None:
            log(v, s)
            other = v.f()
            load_w(other)
            v.fmadd_s(total, s, other, total)
            load_m(other)
            v.fadd_s(total, total, other)

        with rows.each(), k.scope():
            [total] = rows.reduce(["s", "m", "w"], step, ["sum"], late=(1, 2))
            k.fmul_s(total, total, constant(k, self.scale))
            (rows.add if self.adds else rows.store)("loss", total)


class ElementArguments(kernels.Arguments):
    """x and t of one shape.

    reduction    the mean of the elements' losses, or their sum
    unroll       elements that are computed side by side, if registers allow
    """

    shape: tuple[PositiveInt, ...] = Setting(min_length=1)
    reduction: Reduction = "mean"
    unroll: int = Setting(UNROLL, ge=1, le=8)


class MseArguments(ElementArguments):
    """factor    of dx: -lr gives gradients that are added to weights"""

    factor: float = Setting(1.0, allow_inf_nan=False)


class BerhuArguments(ElementArguments):
    """alpha    c as a part of the largest difference"""

    alpha: float = Setting(0.2, gt=0, le=1)


class CrossEntropyArguments(kernels.Arguments):
    """x[b, classes]; t[b], class numbers, or is_soft: t[b, classes], weights."""

    b: PositiveInt = 1
    classes: PositiveInt
    is_soft: bool = False
    reduction: Reduction = "mean"
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _element_family(
    emitter: Callable[..., None],
    expects: Callable[..., Any],
    arguments: type[ElementArguments],
    *,
    has_tiles: bool = True,
) -> Family:
    """berHu has no tiles: each would need the largest difference of all."""
    options = [n for n in arguments.model_fields if n not in ElementArguments.model_fields]

    def tensors(point: Any) -> Tensors:
        return {
            "x": Tensor(point.shape),
            "t": Tensor(point.shape),
            "loss": Tensor((1,), "out"),
            "dx": Tensor(point.shape, "out"),
            "partials": PARTIALS,
        }

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        scale = ALL.scale(point.reduction, prod(point.shape))
        chosen = {name: getattr(point, name) for name in options}
        loss, dx = expects(values["x"], values["t"], scale, **chosen)
        return {"loss": loss, "dx": dx}

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        addresses = (l1[name] for name in tensors(point))
        chosen = {name: getattr(point, name) for name in ("reduction", "unroll", *options)}
        emitter(k, team, *addresses, prod(point.shape), **chosen)

    family = Family(emitter.__name__, arguments, tensors, expected, no_macs, emit)

    def emit_part(
        k: Kernel, team: Team, point: Any, part: Any, shape: TileShape, l1: Addresses
    ) -> None:
        share = Share(prod(point.shape), not shape.is_first)
        addresses = (l1[name] for name in tensors(point))
        chosen = {name: getattr(point, name) for name in ("reduction", "unroll", *options)}
        emitter(k, team, *addresses, prod(part.shape), share=share, **chosen)

    def dims(point: Any) -> list[Dim]:
        return [Dim(f"d{axis}", n, is_summed=True) for axis, n in enumerate(point.shape)]

    def boxes(point: Any) -> dict[str, list[Axis]]:
        own: list[Axis] = [f"d{axis}" for axis in range(len(point.shape))]
        return {"x": own, "t": own, "loss": [None], "dx": own}

    def smaller(point: Any, shape: TileShape) -> dict[str, Any]:
        return {"shape": tuple(shape[f"d{axis}"] for axis in range(len(point.shape)))}

    if not has_tiles:
        return family
    return tiled(family, dims, boxes, smaller, SCRATCH, emit_part)


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


CROSS_ENTROPY = tiled(
    Family(
        "cross_entropy_loss_f32",
        CrossEntropyArguments,
        _cross_entropy_tensors,
        _cross_entropy_expected,
        no_macs,
        _cross_entropy_emit,
    ),
    lambda point: [Dim("b", point.b, is_summed=True)],
    _cross_entropy_boxes,
    lambda _, shape: {"b": shape["b"]},
    lambda shape: SCRATCH | dict.fromkeys("smw", WORD * shape["b"]),
    _cross_entropy_part,
)

FAMILIES = (
    _element_family(mse_loss_f32, reference.mse, MseArguments),
    _element_family(l1_loss_f32, reference.l1, ElementArguments),
    _element_family(berhu_loss_f32, reference.berhu, BerhuArguments, has_tiles=False),
    CROSS_ENTROPY,
)
