"""The program of the DMA study: core 0 copies blocks, the other cores load from L1 all the while.

Core 0 has two copies under way and waits for the older one before it starts the next. It goes on
until its copies are done and the others wait at the barrier: it reads that barrier's status, which
touches no bank. The others load random words, as in the study of traffic; instruction caches are
ideal, as there.
"""

from dataclasses import dataclass

from firmware.builder import Kernel
from firmware.drivers import Dma
from firmware.platform import EVENT_UNIT, in_event_unit
from firmware.registers import RA, ZERO
from firmware.runtime import new_kernel, team_of
from pulpsim.commands.study.study import Measured
from pulpsim.commands.study.traffic_program import (
    AROUND,
    CODE_OFFSET,
    TRAFFIC,
    UNIFORM,
    WINDOW,
    line,
    with_lines,
    words_of,
)
from soc.chip.spec import SocSpec

COPY = "copy"  # the region of core 0; that of the others is TRAFFIC
TO_L1, TO_L2, BOTH, NONE = "L2 to L1", "L1 to L2", "both ways", "none"
DIRECTIONS = {TO_L1: (True, True), TO_L2: (False, False), BOTH: (True, False)}
"""Is a copy to L1? Of the first and of the second copy of a pair."""


@dataclass(frozen=True)
class DmaProgram:
    """Copies beside loads.

    direction    of DIRECTIONS, or NONE: the loads alone
    size         bytes of a copy
    pairs        of copies, at least
    loaders      cores that load
    rate         loads in a slot, 0 .. 1
    slots        of each
    """

    chip: SocSpec
    direction: str
    size: int
    pairs: int
    loaders: int = 0
    rate: float = 0.0
    slots: int = 0
    seed: int = 0

    def __call__(self) -> Measured:
        k = new_kernel(self.chip, "dma")
        window = k.buffer(k.l1, "window", 4 * WINDOW, 4 * WINDOW)
        near = [k.buffer(k.l1, f"near_{i}", self.size) for i in range(2)]
        far = [k.buffer(k.l2, f"far_{i}", self.size) for i in range(2)]
        at, size = self.chip.l2.base + CODE_OFFSET, 4 * (self.slots + AROUND + 2)
        with team_of(k, self.chip, 1 + self.loaders) as team, k.scope():
            k.registers.hold(RA)
            place, base, value = k.x(3)
            team.core(place)
            k.li(base, size)
            k.mul(place, place, base)
            k.li(base, at - size)
            k.add(place, place, base)
            k.li(base, window + 2 * WINDOW)
            team.barrier()
            with team.only(0):
                if self.direction != NONE:
                    with k.region(COPY):
                        self._copy(k, near, far)
            with k.else_():
                k.jalr(RA, 0, place)
            team.barrier()
        number = k.region_number(TRAFFIC)
        words = [
            words_of(UNIFORM, self.rate, self.slots, self.seed, core)
            for core in range(self.loaders)
        ]
        lines = [line(k.isa, some, number, base, value) for some in words]
        return with_lines(Measured.of(k), at, lines)

    def _copy(self, k: Kernel, near: list[int], far: list[int]) -> None:
        dma = Dma(k)
        with k.scope():
            counters = k.x(2)
            left, all_others, base, status = k.x(4)

            def start(which: int) -> None:
                dma.begin(counters[which])
                copy = dma.to_l1 if DIRECTIONS[self.direction][which] else dma.to_l2
                copy(near[which], far[which], self.size)

            k.li(left, self.pairs)
            k.li(all_others, (1 << 1 + self.loaders) - 2)
            start(0)
            again, more = k.here(), k.label()
            start(1)
            dma.wait(counters[0])
            k.addi(left, left, -1)
            k.blt(ZERO, left, more)  # not enough yet
            k.li(base, EVENT_UNIT)
            k.lw(status, in_event_unit("BARRIER_STATUS"), base)
            k.and_(status, status, all_others)
            done = k.label()
            k.beq(status, all_others, done)
            k.place(more)
            start(0)
            dma.wait(counters[1])
            k.j(again)
            k.place(done)
            dma.wait(counters[1])
