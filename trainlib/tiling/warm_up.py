"""Passes: code that runs several times, and what is measured the last time, its caches warm."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from firmware.builder import EQ, LT, Kernel, Register
from firmware.registers import SP, ZERO
from firmware.team import Team

FRAME = 16  # bytes of each core's stack: the passes that are left
WARM = 2

Region = Callable[[str], AbstractContextManager[None]]
LoadLeft = Callable[[Register], None]


@contextmanager
def repeated(k: Kernel, count: int) -> Iterator[LoadLeft]:
    """Run the body `count` times; `as` what loads how often it is still to run, count to 1.

    All registers are free in it.
    """
    k.addi(SP, SP, -FRAME)
    with k.scope():
        left = k.x()
        k.li(left, count)
        k.sw(left, 0, SP)
    again = k.here()
    yield lambda rd: k.lw(rd, 0, SP)
    with k.scope():
        left = k.x()
        k.lw(left, 0, SP)
        k.addi(left, left, -1)
        k.sw(left, 0, SP)
        with k.if_(LT, ZERO, left):
            k.j(again)
    k.addi(SP, SP, FRAME)


@contextmanager
def passes(k: Kernel, team: Team, is_warm: bool) -> Iterator[Region]:
    """Run the body once, or twice if is_warm; `as` what measures a region in its last pass.

    All cores begin a region of it together: how they came out of the pass before is no part of it.
    Memory is what the pass before has left: what the body reads and overwrites, it must put back
    itself, outside of its regions.
    """
    if not is_warm:
        yield k.region
        return
    with repeated(k, WARM) as load_left:
        yield lambda name: _region(k, team, name, load_left)


@contextmanager
def _region(k: Kernel, team: Team, name: str, load_left: LoadLeft) -> Iterator[None]:
    """A region that begins in the last pass only: an end without a beginning is nothing."""
    number = k.region_number(name)
    team.barrier()
    with k.scope():
        left, last = k.x(2)
        load_left(left)
        k.li(last, 1)
        with k.if_(EQ, left, last):
            k.slti(ZERO, ZERO, 2 * number)
    yield
    k.slti(ZERO, ZERO, 2 * number + 1)
