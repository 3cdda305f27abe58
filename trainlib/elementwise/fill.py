"""Filling tensors in L1 with a number."""

from collections.abc import Sequence

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.codegen.nest_operands import Operand
from trainlib.elementwise.elementwise import map_f32, map_nest, map_pairs
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import Address

UNROLL = 4  # stores: a hardware loop has three instructions at least


def fill_nest(k: Kernel, team: Team, dims: Sequence[int], y: Operand) -> None:
    """y = 0, of single precision, in a space of any dimensions."""

    def operation(k: Kernel) -> Body:
        zero = constant(k, 0.0)

        def body(v: Lanes) -> list[Lane]:
            return [[zero] * v.width]

        return body

    map_nest(k, team, operation, dims, [], [y], unroll=UNROLL)


def fill_f32(
    k: Kernel,
    team: Team,
    y: Address,
    count: int,
    *,
    value: float = 0.0,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """y = value."""

    def operation(k: Kernel) -> Body:
        number = element.twice(k, value) if element.is_half else constant(k, value)

        def body(v: Lanes) -> list[Lane]:
            return [[number] * v.width]

        return body

    if element.is_half:
        map_pairs(k, team, operation, [], [y], count, unroll=unroll)
    else:
        map_f32(k, team, operation, [], [y], count, unroll=unroll)
