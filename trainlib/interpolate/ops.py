"""Interpolation as primitives."""

from collections.abc import Callable
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.interpolate.directions import Directions
from trainlib.interpolate.planes import Planes, interpolate_bw_f32, interpolate_fw_f32
from trainlib.interpolate.sources import Method
from trainlib.interpolate.tiles import Tiles
from trainlib.loops.nest import UNROLL
from trainlib.maps.map import no_macs
from trainlib.pool.windows import Layout
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.family import Expected, Family
from trainlib.primitive.phases import Phases
from trainlib.primitive.tensor import Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tiling import Tiling
from trainlib.reference import interpolate as reference
from trainlib.rows.sweep import Split


class Arguments(CommonArguments):
    """x[b, c, h, w] to y[b, c, out height, out width]; layout "hwc": channels last.

    split     what is dealt out: lines of outputs ("rows"), parts of each ("columns"), or the best
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


class BilinearArguments(Arguments):
    """aligned    are the corners of x those of y?"""

    aligned: bool = False


def _method(point: Any) -> Method:
    if not isinstance(point, BilinearArguments):
        return "nearest"
    return "aligned" if point.aligned else "bilinear"


def _family(
    name: str, expects: Callable[..., Expected], arguments: type[Arguments], is_backward: bool
) -> Family:
    options = ["aligned"] if arguments is BilinearArguments else []
    names = ("dy", "dx") if is_backward else ("x", "y")
    emitter: Any = interpolate_bw_f32 if is_backward else interpolate_fw_f32

    def tensors(point: Any) -> Tensors:
        p = point.planes
        sizes = (p.out, p.size) if is_backward else (p.size, p.out)
        source, target = (p.shape(size) for size in sizes)
        is_pooling = _method(point) == "nearest" and p.copies()
        between = Tensor((1 if is_pooling else p.between,), "scratch")
        return {names[0]: Tensor(source), names[1]: Tensor(target, "out"), "between": between}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        chosen = {option: getattr(point, option) for option in options}
        return {names[1]: expects(point, values[names[0]], **chosen)}

    def emit_part(point: Any, k: Kernel, team: Team, *operands: Any, **more: Any) -> None:
        how = {} if is_backward else {"split": point.split}
        emitter(k, team, *operands, unroll=point.unroll, **how, **more)

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        at = (l1[n] for n in (*names, "between"))
        emit_part(point, k, team, *at, point.planes, _method(point))

    def cut(point: Any) -> tuple[Any, ...]:
        def emit_tile(k: Kernel, team: Team, *operands: Any, **more: Any) -> None:
            emit_part(point, k, team, *operands, **more)

        return point.planes, _method(point), emit_tile, names, is_backward

    def tiling(point: Any) -> Tiling:
        return Tiles(*cut(point)).tiling()

    def phases(point: Any) -> Phases:
        return Directions(*cut(point)).phases()

    of = name, arguments, tensors, expected, no_macs, emit, tiling
    return Family(*of, phases=phases)


FAMILIES = (
    _family("nearest_fw_f32", reference.nearest_forward, Arguments, False),
    _family("nearest_bw_f32", reference.nearest_backward, Arguments, True),
    _family("bilinear_fw_f32", reference.bilinear_forward, BilinearArguments, False),
    _family("bilinear_bw_f32", reference.bilinear_backward, BilinearArguments, True),
)
