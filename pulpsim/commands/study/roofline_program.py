"""Programs that reach the ceilings: multiply-adds of all cores, and loads of all cores from L2."""

from dataclasses import dataclass

from firmware.runtime import new_kernel, team_of
from pulpsim.commands.study.microbenchmark import lock_step
from pulpsim.commands.study.study import Measured
from soc.chip.spec import SocSpec

PEAK = "peak"  # the region
SUMS = 8  # independent, so that no multiply-add waits for the one before
LOADS = 4  # of a round
WORD = 4  # bytes


@dataclass(frozen=True)
class FpuProgram:
    """Every core does `rounds` times SUMS multiply-adds.

    is_half    of two halves each
    """

    chip: SocSpec
    cores: int
    rounds: int
    is_half: bool = False

    def __call__(self) -> Measured:
        k = new_kernel(self.chip, "fpu")
        with team_of(k, self.chip, self.cores) as team, lock_step(k, team) as passes, k.scope():
            sums, (a, b) = k.f(SUMS), k.f(2)
            for value in (*sums, a, b):
                k.fzero(value)
            with passes.region(PEAK), k.hwloop(self.rounds):
                for value in sums:
                    if self.is_half:
                        k.vfmac_h(value, a, b)
                    else:
                        k.fmadd_s(value, a, b, value)
        return Measured.of(k)


@dataclass(frozen=True)
class L2Program:
    """Every core loads `rounds` times LOADS words of its own from L2, one after the other."""

    chip: SocSpec
    cores: int
    rounds: int

    def __call__(self) -> Measured:
        k = new_kernel(self.chip, "l2")
        size = WORD * LOADS * self.rounds
        data = k.buffer(k.l2, "data", (size + WORD) * self.cores)
        with team_of(k, self.chip, self.cores) as team, k.scope():
            first, at, value = k.x(3)
            team.core(first)
            k.li(at, size + WORD)  # so cores begin in different banks
            k.mul(first, first, at)
            k.li(at, data)
            k.add(first, first, at)
            with lock_step(k, team) as passes:
                k.mv(at, first)
                with passes.region(PEAK), k.hwloop(self.rounds):
                    for _ in range(LOADS):
                        k.load_post(value, WORD, at)
        return Measured.of(k)
