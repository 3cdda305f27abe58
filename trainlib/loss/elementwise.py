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
from trainlib.loops.nest import UNROLL
from trainlib.maps.map import no_macs
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.boxes import Axis, TileShape
from trainlib.primitive.family import Expected, Family
from trainlib.primitive.tensor import Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tiled import tiled
from trainlib.primitive.tiling import Dim
from trainlib.reference import loss as reference
from trainlib.rows.sweep import PARTIALS, SCRATCH, Rows
from trainlib.rows.view import line_of

Reduction = Literal["mean", "sum"]
SMALLEST = 2.0**-126
Step = Callable[[Lanes, Lane, Lane], list[Lane]]
"""step(lanes, total, d) adds the loss of differences d = x - t to the total, and returns dx."""
Loss = Callable[..., Step]
"""loss(rows, scale, **options) takes registers for constants; scale: the share of an element."""


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


def mse(rows: Rows, scale: float, *, factor: float) -> Step:
    """loss = mean (x - t)^2; dx, times a factor."""
    slope = constant(rows.k, 2 * scale * factor)

    def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
        v.fmadd_s(total, d, d, total)
        v.fmul_s(d, d, slope)
        return [d]

    return step


def l1(rows: Rows, scale: float) -> Step:
    """loss = mean |x - t|; dx is 0 where x = t."""
    sign, slope = Sign(rows.k), constant(rows.k, scale)

    def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
        size = v.f()
        v.fsgnjx_s(size, d, d)
        sign(v, d)
        v.fadd_s(total, total, size)
        v.fmul_s(d, d, slope)
        return [d]

    return step


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


class ElementArguments(CommonArguments):
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


def element_loss(
    k: Kernel, team: Team, point: Any, at: Addresses, loss: Loss, count: int, share: Share = ALL
) -> None:
    """A loss, and its gradient dx, of so many elements in a row.

    at    addresses: x, t, loss, dx, partials
    """
    scale, options = share.scale(point.reduction, count), options_of(point)

    def work(rows: Rows) -> None:
        with rows.each():
            step = loss(rows, scale, **options)

            def body(v: Lanes, total: Lane, x: Lane, t: Lane) -> list[Lane]:
                v.fsub_s(x, x, t)
                return step(v, total, x)

            [total] = rows.reduce(["x", "t"], body, ["sum"], targets=["dx"])
            rows.k.fmul_s(total, total, constant(rows.k, scale))
            (rows.add if share.adds else rows.store)("loss", total)

    wide, result = {name: at[name] for name in ("x", "t", "dx")}, {"loss": at["loss"]}
    line_of(wide, result, count, at["partials"], point.unroll).emit(k, team, work)


def options_of(point: Any) -> dict[str, Any]:
    """What a loss has that others have not."""
    names = [n for n in type(point).model_fields if n not in ElementArguments.model_fields]
    return {name: getattr(point, name) for name in names}


def element_family(
    name: str, loss: Loss, expects: Callable[..., Any], arguments: type[ElementArguments]
) -> Family:
    """A loss of elements that all fit L1."""

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
        loss, dx = expects(values["x"], values["t"], scale, **options_of(point))
        return {"loss": loss, "dx": dx}

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        element_loss(k, team, point, l1, loss, prod(point.shape))

    return Family(name, arguments, tensors, expected, no_macs, emit)


def element_dims(point: Any) -> list[Dim]:
    """All are summed up."""
    return [Dim(f"d{axis}", n, is_summed=True) for axis, n in enumerate(point.shape)]


def element_boxes(point: Any) -> dict[str, list[Axis]]:
    """A tile's elements, and the loss of all."""
    own: list[Axis] = [f"d{axis}" for axis in range(len(point.shape))]
    return {"x": own, "t": own, "loss": [None], "dx": own}


def _tiled(loss: Loss, family: Family) -> Family:
    def emit_part(
        k: Kernel, team: Team, point: Any, part: Any, tile: TileShape, l1: Addresses
    ) -> None:
        share = Share(prod(point.shape), not tile.is_first)
        element_loss(k, team, point, l1, loss, prod(part.shape), share)

    def smaller(point: Any, shape: TileShape) -> dict[str, Any]:
        return {"shape": tuple(shape[f"d{axis}"] for axis in range(len(point.shape)))}

    return tiled(family, element_dims, element_boxes, smaller, SCRATCH, emit_part)


FAMILIES = tuple(
    _tiled(loss, element_family(name, loss, expects, arguments))
    for name, loss, expects, arguments in (
        ("mse_loss_f32", mse, reference.mse, MseArguments),
        ("l1_loss_f32", l1, reference.l1, ElementArguments),
    )
)
