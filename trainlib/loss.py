"""Losses of elements with their gradients in one pass: MSE, L1, berHu; means or sums.

berHu is |d| up to c and (d^2 + c^2) / 2c beyond, d = x - t; with r = max(|d| - c, 0) it is
|d| + r^2 / 2c, its slope sign(d) (1 + r / c). c is alpha times the largest |d|, and no variable.

Source: L. Zwald, S. Lambert-Lacroix, The BerHu Penalty and the Grouped Effect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib import kernels
from trainlib.kernels import (
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
from trainlib.nest import UNROLL
from trainlib.reference import loss as reference
from trainlib.rows import PARTIALS, SCRATCH, Field, Rows, Split
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


FAMILIES = (
    _element_family(mse_loss_f32, reference.mse, MseArguments),
    _element_family(l1_loss_f32, reference.l1, ElementArguments),
    _element_family(berhu_loss_f32, reference.berhu, BerhuArguments, has_tiles=False),
)
