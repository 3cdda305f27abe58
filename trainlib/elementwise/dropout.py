"""Dropout: elements are kept or not by a number drawn for each from a seed and its place.

    y = x / (1 - p) if the number is at least p 2^32, else x 0

The number is a hash of place + seed 0x9E3779B9, so it depends neither on how many cores there are
nor on the order; the backward pass draws the same ones again: dropout of dy with the same seed.

Source of the hash: C. Wellons, hash-prospector, "lowbias32".
"""

from functools import partial
from math import prod
from typing import Any

from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, pattern
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Operand, Window
from trainlib.elementwise.elementwise import ElementwiseArguments, map_nest, no_macs, packed
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import INT32, WORD, Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled
from trainlib.reference import dropout as reference
from trainlib.reference.dropout import FIRST, SECOND, SPREAD, threshold
from trainlib.reference.halves import rounded_once

SEEDS = 1 << 31


def dropout_f32(
    k: Kernel,
    team: Team,
    x: Address,
    seed: Address,
    y: Address,
    count: int,
    *,
    first: Address | None = None,
    p: float = 0.5,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """y = dropout(x), or dx = dropout(dy) for the same seed, an integer in L1.

    first    where the place of the first element is, another integer in L1; None: 0
    """

    def operation(k: Kernel) -> Body:
        start, one, second, least, factor = k.x(5)
        k.set(start, seed)
        k.lw(start, 0, start)
        k.li(one, SPREAD)
        k.mul(start, start, one)
        if first is not None:
            k.set(one, first)
            k.lw(one, 0, one)
            k.add(start, start, one)
        for register, value in ((one, FIRST), (second, SECOND), (least, threshold(p))):
            k.li(register, value)
        k.li(factor, pattern(1 / (1 - p) if p < 1 else 0.0))

        def body(v: Lanes, x: Lane, place: Window) -> list[Lane]:
            bits, t = v.x(), v.x()
            place.count(bits)
            v.add(bits, bits, start)
            for shift, multiplier in ((16, one), (15, second), (16, ZERO)):
                v.srli(t, bits, shift)
                v.xor(bits, bits, t)
                if multiplier != ZERO:
                    v.mul(bits, bits, multiplier)
            v.sltu(bits, bits, least)
            v.addi(bits, bits, -1)
            v.and_(bits, bits, factor)
            if v.k.has_float_registers:
                scale = v.f()
                v.floats(scale, bits)
            else:
                scale = bits
            v.fmul_s(x, x, scale)
            return [x]

        return body

    sources = [Operand(x, (element.size,), element=element), Operand(0, (1,))]
    target = Operand(y, (element.size,), element=element)
    map_nest(k, team, operation, (count,), sources, [target], windows=(1,), unroll=unroll)


class DropoutArguments(ElementwiseArguments):
    """p    the part of elements that is not kept"""

    p: float = Field(0.5, ge=0, le=1)


def _tensors(element: Element, point: Any) -> Tensors:
    return {
        "x": packed(point.shape, "in", element),
        "seed": Tensor((1,), dtype=INT32, below=SEEDS),
        "y": packed(point.shape, "out", element),
    }


def _expected(element: Element, point: Any, values: Arrays) -> dict[str, Expected]:
    result = reference.forward(values["x"], int(values["seed"][0]), point.p)
    return rounded_once(element.dtype, {"y": result})


def _emit(
    element: Element,
    k: Kernel,
    team: Team,
    point: Any,
    l1: Addresses,
    first: Address | None = None,
) -> None:
    element.check(k, f"dropout_{element.name}")
    dropout_f32(
        *(k, team, l1["x"], l1["seed"], l1["y"], prod(point.shape)),
        first=first,
        p=point.p,
        element=element,
        unroll=point.unroll,
    )


def _dims(point: Any) -> list[Dim]:
    """Elements of a tile follow each other: it is cut along the first dimension that is not 1."""
    axis = _cut(point)
    return [Dim(f"d{axis}", point.shape[axis], is_summed=True)]


def _cut(point: Any) -> int:
    return next((axis for axis, n in enumerate(point.shape) if n > 1), 0)


def _boxes(point: Any) -> dict[str, list[Axis]]:
    cut = _cut(point)
    own: list[Axis] = [f"d{axis}" if axis == cut else None for axis in range(len(point.shape))]
    return {"x": own, "seed": [None], "y": own}


def _smaller(point: Any, tile: TileShape) -> dict[str, Any]:
    return {"shape": tile.part("x").shape}


def _emit_part(
    element: Element,
    k: Kernel,
    team: Team,
    point: Any,
    part: Any,
    tile: TileShape,
    l1: Addresses,
) -> None:
    """Emit a tile: its first element's place is what tiles before it have left in L1."""
    count = prod(part.shape)
    if tile.is_first:
        with team.only(0), k.scope():
            place = k.x()
            k.set(place, l1["place"])
            k.sw(ZERO, 0, place)
        team.barrier()
    _emit(element, k, team, part, l1, first=l1["place"])
    team.barrier()
    with team.only(0), k.scope():
        place, first, more = k.x(3)
        k.set(place, l1["place"])
        k.lw(first, 0, place)
        k.li(more, count)
        k.add(first, first, more)
        k.sw(first, 0, place)


def family(element: Element) -> Family:
    """Dropout of this type."""
    tensors, expected, emit = (partial(of, element) for of in (_tensors, _expected, _emit))
    of: Any = DropoutArguments, tensors, expected, no_macs, emit
    return tiled(
        Family(f"dropout_{element.name}", *of),
        *(_dims, _boxes, _smaller, {"place": WORD}, partial(_emit_part, element)),
    )


FAMILIES = tuple(map(family, ELEMENTS))
