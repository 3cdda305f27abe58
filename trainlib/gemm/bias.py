"""Starts of sums that are more than one tensor: a bias is added to what they are added to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes
from firmware.registers import SP
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.codegen.nest_operands import Operand
from trainlib.elementwise.elementwise import map_nest
from trainlib.primitive.tensor import Address

FRAME = 16  # bytes of stack

Along = tuple[int, int, int]
"""A dimension: its size, and bytes from one element to the next of the sums and of the bias."""


@contextmanager
def bias_added(
    k: Kernel, team: Team, sums: Address, bias: Address, along: Sequence[Along]
) -> Iterator[None]:
    """sums += bias on all cores, which meet after it: another core may go on with a sum.

    The body has the register of the bias for other things, if it is in one.
    """
    dims, steps, bias_steps = zip(*sorted(along, key=lambda axis: -axis[1]), strict=True)
    held = Operand(sums, steps)
    map_nest(k, team, _addition, dims, [held, Operand(bias, bias_steps)], [held])
    team.barrier()
    if not isinstance(bias, Register):
        yield
        return
    k.addi(SP, SP, -FRAME)
    k.sw(bias, 0, SP)
    with k.scope():
        k.free(bias)
        yield
    k.lw(bias, 0, SP)
    k.addi(SP, SP, FRAME)


@contextmanager
def bias_left(
    k: Kernel,
    team: Team,
    sums: Address,
    bias: Address | None,
    along: Sequence[Along],
    accumulate: bool,
) -> Iterator[Address | None]:
    """Of a bias, what sums in the body start with: None if they start with what is there.

    Then that has the bias: see bias_added.
    """
    if bias is None or not accumulate:
        yield bias
        return
    with bias_added(k, team, sums, bias, along):
        yield None


def _addition(_: Kernel) -> Body:
    def body(v: Lanes, held: Lane, bias: Lane) -> list[Lane]:
        v.fadd_s(held, held, bias)
        return [held]

    return body
