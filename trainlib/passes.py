"""Passes: code that runs twice, measured the second time, when the caches have it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from firmware.builder import EQ, LT, Kernel
from firmware.registers import SP, ZERO

FRAME = 16  # bytes of each core's stack: the passes that are left
WARM = 2

Region = Callable[[str], AbstractContextManager[None]]


@contextmanager
def passes(k: Kernel, is_warm: bool) -> Iterator[Region]:
    """Run the body once, or twice if is_warm; `as` what measures a region in its last pass.

    All registers are free in it. Its memory is what the pass before has left: what it reads and
    overwrites must be put back by the body, outside of its regions.
    """
    if not is_warm:
        yield k.region
        return
    k.addi(SP, SP, -FRAME)
    with k.scope():
        left = k.x()
        k.li(left, WARM)
        k.sw(left, 0, SP)
    again = k.here()
    yield lambda name: _region(k, name)
    with k.scope():
        left = k.x()
        k.lw(left, 0, SP)
        k.addi(left, left, -1)
        k.sw(left, 0, SP)
        with k.if_(LT, ZERO, left):
            k.j(again)
    k.addi(SP, SP, FRAME)


@contextmanager
def _region(k: Kernel, name: str) -> Iterator[None]:
    """A region that begins in the last pass only: an end without a beginning is nothing."""
    number = k.region_number(name)
    with k.scope():
        left, last = k.x(2)
        k.lw(left, 0, SP)
        k.li(last, 1)
        with k.if_(EQ, left, last):
            k.slti(ZERO, ZERO, 2 * number)
    yield
    k.slti(ZERO, ZERO, 2 * number + 1)
