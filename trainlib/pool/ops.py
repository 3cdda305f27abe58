"""Pooling as primitives."""

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.elementwise.elementwise import no_macs
from trainlib.elementwise.rounded_sums import rounded_sums
from trainlib.pool.avg_pool import avgpool2d_bw_f32, avgpool2d_fw_f32
from trainlib.pool.max_pool import maxpool2d_bw_f32, maxpool2d_fw_f32
from trainlib.pool.tiles import Tiles
from trainlib.pool.windows import Layout, Pooling
from trainlib.primitive.arguments import TiledArguments, pair_of
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.tensor import INT32, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Tiling
from trainlib.reference import pool as reference
from trainlib.reference.halves import rounded_once

Pair = Annotated[tuple[PositiveInt, PositiveInt], BeforeValidator(pair_of)]
PadPair = Annotated[tuple[NonNegativeInt, NonNegativeInt], BeforeValidator(pair_of)]


class PoolArguments(TiledArguments):
    """x[b, c, h, w] or, layout "hwc", x[b, h, w, c].

    kernel    height and width of a window, or one for both; so are stride and pad
    stride    between windows; not given: the window's
    pad       border on each side, at most half a window
    unroll    outputs that are computed side by side, if registers allow
    """

    b: PositiveInt = 1
    c: PositiveInt
    h: PositiveInt
    w: PositiveInt
    kernel: Pair
    stride: Pair | None = None
    pad: PadPair = (0, 0)
    layout: Layout = "chw"
    unroll: int = Field(UNROLL, ge=1, le=8)

    @property
    def pooling(self) -> Pooling:
        """All but how it is computed.

        raises    KernelError if there is none
        """
        kernel, stride, pad = self.kernel, self.stride or self.kernel, self.pad
        for side, size in enumerate((self.h, self.w)):
            if 2 * pad[side] > kernel[side]:
                raise KernelError(f"pool: pad {pad} is more than half of kernel {kernel}")
            if size + 2 * pad[side] < kernel[side]:
                raise KernelError(
                    f"pool: kernel {kernel} is larger than x, {(self.h, self.w)} with pad {pad}"
                )
        return Pooling(self.b, self.c, self.h, self.w, kernel, stride, pad, self.layout)


class AverageArguments(PoolArguments):
    """counts_pad    are elements outside x zeros? Else they are no elements."""

    counts_pad: bool = True


def _family(
    element: Element,
    emitter: Any,
    inputs: str,
    output: str,
    expects: Any,
    arguments: type[PoolArguments],
) -> Family:
    """Sums of gradients that windows share are single precision until they are whole."""
    kernel = emitter.__name__.replace("f32", element.name)
    names = [*inputs.split(), *output.split()]
    options = [n for n in arguments.model_fields if n not in PoolArguments.model_fields]

    def tensors(point: Any) -> Tensors:
        p = point.pooling
        outside, inside = p.shape(*p.out), p.shape(p.h, p.w)
        shapes = {"x": inside, "dx": inside, "y": outside, "dy": outside, "index": outside}
        return {
            name: Tensor(
                shapes[name],
                "in" if name in inputs.split() else "out",
                INT32 if name == "index" else element.dtype,
                packed=element.is_half,
                below=p.h * p.w,
                is_index=name == "index",
            )
            for name in names
        }

    def has_sums(point: Any) -> bool:
        return "dx" in names and not point.pooling.is_disjoint

    def pooling(point: Any) -> Pooling:
        image = F32 if has_sums(point) else element
        return replace(point.pooling, image=image, value=element)

    def chosen(point: Any) -> dict[str, Any]:
        return {name: getattr(point, name) for name in options}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        arrays = (values[name] for name in inputs.split())
        results = expects(point.pooling, *arrays, **chosen(point))
        return rounded_once(element.dtype, dict(zip(output.split(), results, strict=True)))

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        element.check(k, kernel)
        addresses = (l1[name] for name in names)
        emitter(k, team, *addresses, pooling(point), unroll=point.unroll, **chosen(point))

    def draw(point: Any, numbers: np.random.Generator) -> Arrays:
        """Indices that a forward pass would give."""
        if "index" not in inputs.split():
            return {}
        x = numbers.standard_normal(point.pooling.shape(point.h, point.w), np.float32)
        return {"index": reference.max_forward(point.pooling, x)[1][0].astype(INT32)}

    def tiling(point: Any) -> Tiling:
        def emit_part(k: Kernel, team: Team, *operands: Any, **more: Any) -> None:
            emitter(k, team, *operands, unroll=point.unroll, **chosen(point), **more)

        return Tiles(
            pooling(point),
            emit_part,
            tuple(names),
            is_backward="dx" in names,
            has_index="index" in names,
            counts_pad=chosen(point).get("counts_pad", True),
        ).tiling()

    of = kernel, arguments, tensors, expected, no_macs, emit, tiling
    family = Family(*of, draw=draw)
    if "dx" not in names:
        return family
    return rounded_sums(family, element, ["dx"], each_tile=True, where=has_sums)


FAMILIES = tuple(
    _family(element, *of)
    for element in ELEMENTS
    for of in (
        (maxpool2d_fw_f32, "x", "y index", reference.max_forward, PoolArguments),
        (maxpool2d_bw_f32, "dy index", "dx", reference.max_backward, PoolArguments),
        (avgpool2d_fw_f32, "x", "y", reference.average_forward, AverageArguments),
        (avgpool2d_bw_f32, "dy", "dx", reference.average_backward, AverageArguments),
    )
)
