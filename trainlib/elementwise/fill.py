"""Filling tensors in L1 with a number."""

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.loops.nest import Body
from trainlib.maps.map import map_f32
from trainlib.primitive.tensor import Address

UNROLL = 4  # stores: a hardware loop has three instructions at least


def fill_f32(
    k: Kernel, team: Team, y: Address, count: int, *, value: float = 0.0, unroll: int = UNROLL
) -> None:
    """y = value."""

    def operation(k: Kernel) -> Body:
        number = constant(k, value)

        def body(v: Lanes) -> list[Lane]:
            return [[number] * v.width]

        return body

    map_f32(k, team, operation, [], [y], count, unroll=unroll)
