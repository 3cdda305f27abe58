"""Casts between single precision and halves, both ways: two elements at a time.

Rounded to nearest, ties to even; NaNs become the canonical one.
"""

from functools import partial
from math import prod
from typing import Any

import numpy as np

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Operand
from trainlib.elementwise.elementwise import ElementwiseArguments, map_nest, no_macs
from trainlib.primitive.element import BF16, F16, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.tensor import WORD, Address, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.uniform_tiles import tiled_by_axes
from trainlib.reference.halves import rounded

PAIR = 2
PAD = 1  # words after rows of single precision: a pair's second element may be the first of them


def _narrow(half: Element, k: Kernel) -> Body:
    def body(v: Lanes, low: Lane, high: Lane) -> list[Lane]:
        convert = getattr(v, f"fcvt_{half.letter}_s")
        convert(low, low)
        convert(high, high)
        v.p_insert(low, high, 15, 16)
        return [low]

    return body


def _widen(half: Element, k: Kernel) -> Body:
    def body(v: Lanes, pair: Lane) -> list[Lane]:
        convert, high = getattr(v, f"fcvt_s_{half.letter}"), v.f()
        v.srli(high, pair, 16)
        convert(pair, pair)
        convert(high, high)
        return [pair, high]

    return body


def cast(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    rows: int,
    columns: int,
    source: Element,
    target: Element,
    *,
    unroll: int = UNROLL,
) -> None:
    """Y[rows, columns] = X in another type, one of the two in single precision.

    Rows begin as Tensor.row_of says, those of single precision with a word after each.

    raises    KernelError if the chip does not compute with halves
    """
    half = target if source == F32 else source
    half.check(k, f"cast_{source.name}_{target.name}")
    steps = [_tensor((columns,), element).row for element in (source, target)]
    words, halves = steps if source == F32 else steps[::-1]
    of_words = x if source == F32 else y
    both = [Operand(of_words, (words, PAIR * WORD), shift=at) for at in (0, WORD)]
    pairs = [Operand(y if source == F32 else x, (halves, WORD))]
    dims = rows, -(-columns // PAIR)
    if source == F32:
        map_nest(k, team, partial(_narrow, half), dims, both, pairs, unroll=unroll)
    else:
        map_nest(k, team, partial(_widen, half), dims, pairs, both, unroll=unroll)


def _tensor(shape: tuple[int, ...], element: Element, role: Role = "in") -> Tensor:
    is_read_on = not element.is_half and role == "in" and shape[-1] % PAIR == 1
    pad = 0 if element.is_half else PAD
    return Tensor(shape, role, element.dtype, pad=pad, reads_on=is_read_on)


def family(source: Element, target: Element) -> Family:
    """The cast from one type to another."""

    def tensors(point: Any) -> Tensors:
        return {"X": _tensor(point.shape, source), "Y": _tensor(point.shape, target, "out")}

    def expected(_: Any, values: Arrays) -> dict[str, Expected]:
        exact = values["X"].astype(np.float64)
        return {"Y": (rounded(target.dtype, exact) if target.is_half else exact, 0.0)}

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        sizes = prod(point.shape[:-1]), point.shape[-1]
        cast(k, team, l1["X"], l1["Y"], *sizes, source, target, unroll=point.unroll)

    name = f"cast_{source.name}_{target.name}"
    return tiled_by_axes(Family(name, ElementwiseArguments, tensors, expected, no_macs, emit))


FAMILIES = tuple(family(*pair) for half in (F16, BF16) for pair in ((F32, half), (half, F32)))
