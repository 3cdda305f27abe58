"""Numbers of classes, one of them replaced: what a loss ignores becomes a class of its own."""

from math import prod
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.elementwise import ElementwiseArguments, map_f32, no_macs
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.tensor import INT32, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.uniform_tiles import tiled_by_axes

Word = Annotated[int, Field(ge=-(2**31), lt=2**31)]


def replaced(k: Kernel, *, old: int, new: int) -> Body:
    """y = new where x is old, else x: integers."""
    found, change = k.x(2)
    k.li(found, old)
    k.li(change, (old ^ new) & 0xFFFFFFFF)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        words, is_old = v.words(x), v.x()
        v.xor(is_old, words, found)
        v.sltiu(is_old, is_old, 1)
        v.sub(is_old, ZERO, is_old)
        v.and_(is_old, is_old, change)
        v.xor(words, words, is_old)
        v.floats(x, words)
        return [x]

    return body


class ReplaceArguments(ElementwiseArguments):
    """old, new    integers: y is new where x is old"""

    old: Word
    new: Word


def _tensors(point: Any) -> Tensors:
    return {"x": Tensor(point.shape, dtype=INT32), "y": Tensor(point.shape, "out", dtype=INT32)}


def _expected(point: Any, values: Arrays) -> dict[str, Expected]:
    return {"y": (np.where(values["x"] == point.old, point.new, values["x"]), 0.0)}


def _emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
    def operation(k: Kernel) -> Body:
        return replaced(k, old=point.old, new=point.new)

    count = prod(point.shape)
    map_f32(k, team, operation, [l1["x"]], [l1["y"]], count, unroll=point.unroll)


FAMILIES = (
    tiled_by_axes(
        Family("replace_label_f32", ReplaceArguments, _tensors, _expected, no_macs, _emit)
    ),
)
