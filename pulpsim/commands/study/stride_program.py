"""The program of the stride study: all cores step through L1, a read in each cycle."""

from dataclasses import dataclass

from firmware.runtime import new_kernel, team_of
from pulpsim.commands.study.microbenchmark import lock_step
from pulpsim.commands.study.study import Measured
from soc.chip.spec import SocSpec

READ = "read"  # the region
UNROLL = 4


@dataclass(frozen=True)
class StrideProgram:
    """Core c reads words offset*c, offset*c + stride, ...; stride, offset in words, reads % 4 == 0.

    The region takes a cycle each for its marker, the loop's set-up, the reads and the nop after
    them, and those that the core loses at the banks.
    """

    chip: SocSpec
    cores: int
    stride: int
    offset: int
    reads: int

    def __call__(self) -> Measured:
        k = new_kernel(self.chip, "stride")
        words = self.stride * (self.reads - 1) + self.offset * (self.cores - 1) + 1
        data = k.buffer(k.l1, "data", 4 * words, 4 * self.chip.l1.banks)
        with team_of(k, self.chip, self.cores) as team, k.scope():
            first, at, step, value = k.x(4)
            team.core(first)
            k.li(at, 4 * self.offset)
            k.mul(first, first, at)
            k.li(at, data)
            k.add(first, first, at)
            k.li(step, 4 * self.stride)
            with lock_step(k, team) as passes:
                k.mv(at, first)
                with passes.region(READ), k.hwloop(self.reads // UNROLL):
                    for _ in range(UNROLL):
                        k.load_post(value, step, at)
        return Measured.of(k)
