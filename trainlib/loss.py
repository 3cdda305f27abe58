"""Losses of elements with their gradients in one pass: MSE, L1; means or sums."""

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
    Address,
    Addresses,
    Arrays,
    Expected,
    Family,
    Tensor,
    Tensors,
)
from trainlib.maps import no_macs
from trainlib.nest import UNROLL
from trainlib.reference import loss as reference
from trainlib.rows import PARTIALS, SCRATCH, Rows
from trainlib.tiled import tiled
from trainlib.tiling import Axis, Dim, TileShape
from trainlib.view import line_of

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


def element_loss(
    k: Kernel,
    team: Team,
    at: tuple[Address, Address, Address, Address, Address],
    count: int,
    scale: float,
    adds: bool,
    step_of: Callable[[Rows], Step],
    unroll: int,
) -> None:
    """The loss and dx of one row of all elements; step(lanes, total, difference) adds, gives dx."""
    x, t, loss, dx, partials = at

    def work(rows: Rows) -> None:
        with rows.each():
            step = step_of(rows)

            def body(v: Lanes, total: Lane, x: Lane, t: Lane) -> list[Lane]:
                v.fsub_s(x, x, t)
                return step(v, total, x)

            [total] = rows.reduce(["x", "t"], body, ["sum"], targets=["dx"])
            rows.k.fmul_s(total, total, constant(rows.k, scale))
            (rows.add if adds else rows.store)("loss", total)

    line_of({"x": x, "t": t, "dx": dx}, {"loss": loss}, count, partials, unroll).emit(k, team, work)


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

    def step_of(rows: Rows) -> Step:
        slope = constant(rows.k, 2 * scale * factor)

        def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
            v.fmadd_s(total, d, d, total)
            v.fmul_s(d, d, slope)
            return [d]

        return step

    element_loss(k, team, (x, t, loss, dx, partials), count, scale, share.adds, step_of, unroll)


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

    def step_of(rows: Rows) -> Step:
        sign, slope = Sign(rows.k), constant(rows.k, scale)

        def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
            size = v.f()
            v.fsgnjx_s(size, d, d)
            sign(v, d)
            v.fadd_s(total, total, size)
            v.fmul_s(d, d, slope)
            return [d]

        return step

    element_loss(k, team, (x, t, loss, dx, partials), count, scale, share.adds, step_of, unroll)


class Sign:
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


def element_family(
    emitter: Callable[..., None],
    expects: Callable[..., Any],
    arguments: type[ElementArguments],
) -> Family:
    """A loss of elements that all fit L1."""
    options = _options(arguments)

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

    return Family(emitter.__name__, arguments, tensors, expected, no_macs, emit)


def element_dims(point: Any) -> list[Dim]:
    """All are summed up."""
    return [Dim(f"d{axis}", n, is_summed=True) for axis, n in enumerate(point.shape)]


def element_boxes(point: Any) -> dict[str, list[Axis]]:
    """A tile's elements, and the loss of all."""
    own: list[Axis] = [f"d{axis}" for axis in range(len(point.shape))]
    return {"x": own, "t": own, "loss": [None], "dx": own}


def _tiled(emitter: Callable[..., None], family: Family) -> Family:
    names = ("reduction", "unroll", *_options(family.arguments))

    def emit_part(
        k: Kernel, team: Team, point: Any, part: Any, shape: TileShape, l1: Addresses
    ) -> None:
        share = Share(prod(point.shape), not shape.is_first)
        addresses = (l1[name] for name in family.tensors(point))
        chosen = {name: getattr(point, name) for name in names}
        emitter(k, team, *addresses, prod(part.shape), share=share, **chosen)

    def smaller(point: Any, shape: TileShape) -> dict[str, Any]:
        return {"shape": tuple(shape[f"d{axis}"] for axis in range(len(point.shape)))}

    return tiled(family, element_dims, element_boxes, smaller, SCRATCH, emit_part)


def _options(arguments: type[kernels.Arguments]) -> list[str]:
    """What a loss has that others have not."""
    return [name for name in arguments.model_fields if name not in ElementArguments.model_fields]


FAMILIES = tuple(
    _tiled(emitter, element_family(emitter, expects, arguments))
    for emitter, expects, arguments in (
        (mse_loss_f32, reference.mse, MseArguments),
        (l1_loss_f32, reference.l1, ElementArguments),
    )
)
