"""Interpolation as primitives."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.elementwise.elementwise import no_macs, packed
from trainlib.elementwise.rounded_sums import rounded_sums
from trainlib.interpolate.interpolate import (
    Planes,
    copies,
    interpolate_bw_f32,
    interpolate_fw_f32,
)
from trainlib.interpolate.separable import Directions
from trainlib.interpolate.tiles import Tiles
from trainlib.interpolate.weights import Method
from trainlib.pool.windows import Layout
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phases
from trainlib.primitive.tensor import Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Tiling
from trainlib.reduction.row_reduction import Split
from trainlib.reference import interpolate as reference
from trainlib.reference.halves import rounded_once


class InterpolateArguments(TiledArguments):
    """x[b, c, h, w] to y[b, c, out height, out width]; layout "hwc": channels last.

    split     what is partitioned: lines of outputs ("rows"), parts of each ("columns"), or the best
    unroll    elements that are computed side by side
    """

    b: PositiveInt = 1
    c: PositiveInt
    h: PositiveInt
    w: PositiveInt
    out: tuple[PositiveInt, PositiveInt]
    layout: Layout = "chw"
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)

    @property
    def planes(self) -> Planes:
        return Planes(self.b, self.c, (self.h, self.w), self.out, self.layout)


class BilinearArguments(InterpolateArguments):
    """aligned    are the corners of x those of y?"""

    aligned: bool = False


def _method(point: Any) -> Method:
    if not isinstance(point, BilinearArguments):
        return "nearest"
    return "aligned" if point.aligned else "bilinear"


def _family(
    element: Element,
    stem: str,
    expects: Callable[..., Expected],
    arguments: type[InterpolateArguments],
    is_backward: bool,
) -> Family:
    """Backward, what is a sum is single precision until it is whole."""
    name = f"{stem}_{element.name}"
    options = ["aligned"] if arguments is BilinearArguments else []
    names = ("dy", "dx") if is_backward else ("x", "y")
    emitter: Any = interpolate_bw_f32 if is_backward else interpolate_fw_f32

    def tensors(point: Any) -> Tensors:
        p = point.planes
        sizes = (p.out, p.size) if is_backward else (p.size, p.out)
        source, target = (p.shape(size) for size in sizes)
        between = Tensor((1 if copies(p, _method(point)) else p.between,), "scratch")
        given, result = packed(source, "in", element), packed(target, "out", element)
        return {names[0]: given, names[1]: result, "between": between}

    def has_sums(point: Any) -> bool:
        return is_backward and not copies(point.planes, _method(point))

    def planes(point: Any) -> Planes:
        p = point.planes
        p.elements = F32 if has_sums(point) else element, element
        return p

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        chosen = {option: getattr(point, option) for option in options}
        result = expects(point, values[names[0]], **chosen)
        return rounded_once(element.dtype, {names[1]: result})

    def emit_part(point: Any, k: Kernel, team: Team, *operands: Any, **more: Any) -> None:
        how = {} if is_backward else {"split": point.split}
        emitter(k, team, *operands, unroll=point.unroll, **how, **more)

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        element.check(k, name)
        at = (l1[n] for n in (*names, "between"))
        emit_part(point, k, team, *at, planes(point), _method(point))

    def cut(point: Any) -> Any:
        def emit_tile(k: Kernel, team: Team, *operands: Any, **more: Any) -> None:
            emit_part(point, k, team, *operands, **more)

        return planes(point), _method(point), emit_tile, names, is_backward

    def tiling(point: Any) -> Tiling:
        return Tiles(*cut(point)).tiling()

    def phases(point: Any) -> Phases:
        return replace(Directions(*cut(point)), element=element).phases()

    of = name, arguments, tensors, expected, no_macs, emit, tiling
    family = Family(*of, phases=phases)
    if not is_backward:
        return family
    return rounded_sums(family, element, names[1:], each_tile=True, where=has_sums)


FAMILIES = tuple(
    _family(element, *of)
    for element in ELEMENTS
    for of in (
        ("nearest_fw", reference.nearest_forward, InterpolateArguments, False),
        ("nearest_bw", reference.nearest_backward, InterpolateArguments, True),
        ("bilinear_fw", reference.bilinear_forward, BilinearArguments, False),
        ("bilinear_bw", reference.bilinear_backward, BilinearArguments, True),
    )
)
