"""Numbers of classes: one of them replaced, which a loss ignores; and all of them as floats."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.elementwise import ElementwiseArguments, Operation, map_f32, no_macs
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.tensor import FLOAT32, INT32, Addresses, Arrays, Tensor, Tensors
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


def converted(_: Kernel) -> Body:
    """y = x as a float: exact up to 2^24."""

    def body(v: Lanes, x: Lane) -> list[Lane]:
        words = v.words(x)
        v.fcvt_s_w(x, words)
        return [x]

    return body


class ReplaceArguments(ElementwiseArguments):
    """old, new    integers: y is new where x is old"""

    old: Word
    new: Word


def _family(
    name: str,
    arguments: type[ElementwiseArguments],
    operation: Callable[[Any], Operation],
    reference: Callable[[Any, np.ndarray], np.ndarray],
    output: Any,
) -> Family:
    """Of integers, one by one.

    operation    of the arguments
    reference    of the arguments, and of x
    output       type of y
    """

    def tensors(point: Any) -> Tensors:
        return {"x": Tensor(point.shape, dtype=INT32), "y": Tensor(point.shape, "out", output)}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        return {"y": (reference(point, values["x"]), 0.0)}

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        count, unroll = prod(point.shape), point.unroll
        map_f32(k, team, operation(point), [l1["x"]], [l1["y"]], count, unroll=unroll)

    return tiled_by_axes(Family(name, arguments, tensors, expected, no_macs, emit))


FAMILIES = (
    _family(
        *("replace_label_f32", ReplaceArguments),
        lambda p: partial(replaced, old=p.old, new=p.new),
        lambda p, x: np.where(x == p.old, p.new, x),
        INT32,
    ),
    _family(
        *("as_floats_f32", ElementwiseArguments),
        lambda _: converted,
        lambda _, x: x.astype(np.float32),
        FLOAT32,
    ),
)
