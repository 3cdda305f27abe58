"""The berHu loss with its gradient, means or sums.

It is |d| up to c and (d^2 + c^2) / 2c beyond, d = x - t; with r = max(|d| - c, 0) it is
|d| + r^2 / 2c, its slope sign(d) (1 + r / c). c is alpha times the largest |d|, and no variable.
So what does not fit L1 is read twice: for the largest |d|, then for the loss.

Source: L. Zwald, S. Lambert-Lacroix, The BerHu Penalty and the Grouped Effect.
"""

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from pydantic import Field as Setting

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.loss.elementwise import (
    ElementArguments,
    Share,
    Sign,
    Step,
    element_boxes,
    element_dims,
    element_family,
    element_loss,
)
from trainlib.primitive.element import ELEMENTS, Element
from trainlib.primitive.operator import Family
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import WORD, Address, Addresses, Tensor, Tensors
from trainlib.primitive.tile_spec import Tiling
from trainlib.reduction.phases import add_old
from trainlib.reduction.row_reduction import SCRATCH, Rows
from trainlib.reduction.row_view import line_of
from trainlib.reference import loss as reference

SMALLEST = 2.0**-126


def berhu(rows: Rows, scale: float, *, alpha: float, largest: Address | None = None) -> Step:
    """loss = mean berHu(x - t), with c = alpha max |x - t|.

    largest    where max |x - t| is; None: it is that of these elements
    """
    k = rows.k
    c = _reduced(rows) if largest is None else _loaded(k, largest)
    inverse, half = k.f(), k.f()
    with k.scope():
        factor, least, one = (constant(k, value) for value in (alpha, SMALLEST, 1.0))
        k.fmul_s(c, c, factor)
        k.fmax_s(inverse, c, least)
        k.fdiv_s(inverse, one, inverse)
        a_half, slope = constant(k, 0.5), constant(k, scale)
        k.fmul_s(half, inverse, a_half)
        k.fmul_s(inverse, inverse, slope)
    sign, zero, slope = Sign(k), constant(k, 0.0), constant(k, scale)

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


def _reduced(rows: Rows) -> Register:
    """max |x - t| of all elements."""

    def larger(v: Lanes, most: Lane, x: Lane, t: Lane) -> None:
        v.fsub_s(x, x, t)
        v.fsgnjx_s(x, x, x)
        v.fmax_s(most, most, x)

    [most] = rows.reduce(["x", "t"], larger, ["max"])
    return most


def _loaded(k: Kernel, address: Address) -> Register:
    value = k.f()
    with k.scope():
        pointer = k.x()
        k.set(pointer, address)
        k.fload(value, 0, pointer)
    return value


class BerhuArguments(ElementArguments):
    """alpha    c as a part of the largest difference"""

    alpha: float = Setting(0.2, gt=0, le=1)


def phases(family: Family, element: Element, point: Any) -> Phases:
    """The largest difference to a buffer of that name, then the loss."""
    given, whole = family.tensors(point), prod(point.shape)

    def emit_largest(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        def work(rows: Rows) -> None:
            with rows.each():
                most = _reduced(rows)
                add_old(rows, tile, "largest", most, "max")
                rows.store("largest", most)

        wide, result = {name: at[name] for name in "xt"}, {"largest": at["largest"]}
        count = tile.part("x").elements
        line = line_of(wide, result, count, at["partials"], point.unroll, element)
        line.emit(k, team, work)

    def emit_loss(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        share, count = Share(whole, not tile.is_first), tile.part("x").elements
        loss = partial(berhu, largest=at["largest"])
        element_loss(k, team, point, at, loss, count, share, element)

    found = []
    boxes = element_boxes(point) | {"largest": [None]}
    for name, names, emit in (
        ("largest", ("x", "t", "largest"), emit_largest),
        ("loss", ("x", "t", "largest", "loss", "dx"), emit_loss),
    ):
        role = Tensor((1,), "out" if name == "largest" else "in")
        tensors: Tensors = {n: given.get(n, role) for n in names}
        own = {n: tuple(boxes[n]) for n in names}
        tiling = Tiling(tuple(element_dims(point)), own, emit, lambda _: dict(SCRATCH))
        found.append(Phase(name, tiling, tensors, {n: (n, 0) for n in names}))
    return Phases(found, {"largest": WORD})


def family(element: Element) -> Family:
    """The loss of this type."""
    found = element_family(element, "berhu_loss", berhu, reference.berhu, BerhuArguments)
    return replace(found, phases=partial(phases, found, element))


FAMILIES = tuple(map(family, ELEMENTS))
