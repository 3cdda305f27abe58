"""Losses of elements with their gradients in one pass: MSE, L1, Huber; means or sums."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.elementwise.clipping import Clamp
from trainlib.elementwise.elementwise import no_macs, packed
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled
from trainlib.reduction.row_reduction import PARTIALS, SCRATCH, Rows
from trainlib.reduction.row_view import line_of
from trainlib.reference import loss as reference
from trainlib.reference.halves import rounded_once

Reduction = Literal["mean", "sum"]
SMALLEST = 2.0**-126
Step = Callable[..., list[Lane]]
"""step(lanes, total, d) adds the loss of differences d = x - t to the total, and returns dx; of
pairs, it is step(lanes, total, x, t)."""
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


def huber(rows: Rows, scale: float, *, delta: float, factor: float) -> Step:
    """loss = mean of d^2 / 2, or delta (|d| - delta / 2) where |d| > delta: times a factor.

    With c = d kept within -delta .. delta it is c (d - c / 2), and its slope is c.
    """
    clamp = Clamp(rows.k, -delta, delta)
    half, share, slope = (constant(rows.k, n) for n in (0.5, factor, scale))

    def step(v: Lanes, total: Lane, d: Lane) -> list[Lane]:
        rest = v.f()
        v.fsgnj_s(rest, d, d)
        clamp(v, d)
        v.fnmsub_s(rest, d, half, rest)
        if factor != 1:
            v.fmul_s(d, d, share)
        v.fmadd_s(total, d, rest, total)
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


class ElementArguments(TiledArguments):
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


class HuberArguments(MseArguments):
    """delta    where the slope stops growing; factor    of loss and dx: 1 / delta for smooth L1"""

    delta: float = Setting(1.0, gt=0, allow_inf_nan=False)


def element_loss(
    k: Kernel,
    team: Team,
    point: Any,
    at: Addresses,
    loss: Loss,
    count: int,
    share: Share = ALL,
    element: Element = F32,
    *,
    of_pairs: bool = False,
) -> None:
    """A loss, and its gradient dx, of so many elements in a row.

    at          addresses: x, t, loss, dx, partials
    element     type of x, t and dx; the loss is single precision
    of_pairs    of x and t, not of their differences
    """
    scale, options = share.scale(point.reduction, count), options_of(point)

    def work(rows: Rows) -> None:
        with rows.each():
            step = loss(rows, scale, **options)

            def body(v: Lanes, total: Lane, x: Lane, t: Lane) -> list[Lane]:
                if of_pairs:
                    return step(v, total, x, t)
                v.fsub_s(x, x, t)
                return step(v, total, x)

            total = rows.total(["x", "t"], body, targets=["dx"])
            rows.k.fmul_s(total, total, constant(rows.k, scale))
            (rows.add if share.adds else rows.store)("loss", total)

    wide, result = {name: at[name] for name in ("x", "t", "dx")}, {"loss": at["loss"]}
    line_of(wide, result, count, at["partials"], point.unroll, element).emit(k, team, work)


def options_of(point: Any) -> dict[str, Any]:
    """What a loss has that others have not."""
    names = [n for n in type(point).model_fields if n not in ElementArguments.model_fields]
    return {name: getattr(point, name) for name in names}


def element_family(
    element: Element,
    stem: str,
    loss: Loss,
    expects: Callable[..., Any],
    arguments: type[ElementArguments],
    *,
    of_pairs: bool = False,
) -> Family:
    """A loss of elements that all fit L1."""
    name = f"{stem}_{element.name}"

    def tensors(point: Any) -> Tensors:
        return {
            "x": packed(point.shape, "in", element),
            "t": packed(point.shape, "in", element),
            "loss": Tensor((1,), "out"),
            "dx": packed(point.shape, "out", element),
            "partials": PARTIALS,
        }

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        scale = ALL.scale(point.reduction, prod(point.shape))
        loss, dx = expects(values["x"], values["t"], scale, **options_of(point))
        return {"loss": loss, **rounded_once(element.dtype, {"dx": dx})}

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        element.check(k, name)
        how: Any = {"element": element, "of_pairs": of_pairs}
        element_loss(k, team, point, l1, loss, prod(point.shape), **how)

    return Family(name, arguments, tensors, expected, no_macs, emit)


def element_dims(point: Any) -> list[Dim]:
    """All are summed up."""
    return [Dim(f"d{axis}", n, is_summed=True) for axis, n in enumerate(point.shape)]


def element_boxes(point: Any) -> dict[str, list[Axis]]:
    """A tile's elements, and the loss of all."""
    own: list[Axis] = [f"d{axis}" for axis in range(len(point.shape))]
    return {"x": own, "t": own, "loss": [None], "dx": own}


def tiled_loss(element: Element, loss: Loss, family: Family, *, of_pairs: bool = False) -> Family:
    """The family with tiles, whose losses are added."""

    def emit_part(
        k: Kernel, team: Team, point: Any, part: Any, tile: TileShape, l1: Addresses
    ) -> None:
        share = Share(prod(point.shape), not tile.is_first)
        count = prod(part.shape)
        element_loss(k, team, point, l1, loss, count, share, element, of_pairs=of_pairs)

    def smaller(point: Any, shape: TileShape) -> dict[str, Any]:
        return {"shape": tuple(shape[f"d{axis}"] for axis in range(len(point.shape)))}

    return tiled(family, element_dims, element_boxes, smaller, SCRATCH, emit_part)


FAMILIES = tuple(
    tiled_loss(element, loss, element_family(element, stem, loss, expects, arguments))
    for element in ELEMENTS
    for stem, loss, expects, arguments in (
        ("mse_loss", mse, reference.mse, MseArguments),
        ("l1_loss", l1, reference.l1, ElementArguments),
        ("huber_loss", huber, reference.huber, HuberArguments),
    )
)
