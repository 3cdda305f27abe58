"""Copies while all cores sleep: their cycles, passed many at a time, stay as they are."""

import pytest

from firmware.drivers import Dma
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.chip.spec import load_chip
from tests.soc.engine.test_engines import differences, ends

BYTES = 1500
EVENTS = 2_000  # cycles


def copies_both_ways(apart: int, is_read: bool) -> Program:
    """A core starts a copy each way, and sleeps until both are done.

    apart    bytes from one's place in L1 to the other's, beyond whole rows of banks
    is_read  another core reads words of L1 now and then
    """
    spec = load_chip("pulp")
    k = new_kernel(spec, "copies")
    source = k.data("source", bytes((7 * n + 3) % 251 for n in range(BYTES)))
    target = k.buffer(k.l2, "target", BYTES + 64)
    to, start = k.buffer(k.l1, "to", 2048), k.buffer(k.l1, "from", 2048 + 64)
    with team_of(k, spec, 2) as team:
        with team.only(0), k.scope():
            dma, counter = Dma(k), k.x()
            dma.begin(counter)
            dma.to_l1(to, source, BYTES)
            dma.to_l2(start + apart, target + apart % 8, BYTES)
            dma.wait(counter)
        if is_read:
            with team.only(1), k.scope():
                left, base, word = k.x(3)
                k.li(base, to)
                k.li(left, 20)
                with k.loop(left):
                    k.lw(word, 4, base)
                    for _ in range(9):
                        k.xori(word, word, 1)
        team.barrier()
    return k.build()


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("apart", [0, 3, 8, 16, 40, 56])
def test_both_engines_come_to_the_same(apart: int, is_read: bool) -> None:
    one, other = ends(copies_both_ways(apart, is_read), EVENTS)

    assert one.report["exit"] == {"reason": "exit", "code": 0}
    assert not differences([one, other])
