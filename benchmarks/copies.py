"""The fewest cycles of the DMA for so many bytes: those of a program that does nothing else.

MCHAN cuts all it copies into bursts of 256 bytes, 32 beats. On the chip without company, so that
nobody takes a bank from it, a burst takes 34 cycles to L1 and 35 back: in commands of one core or
eight, wherever bytes lie, in lines or not. Lines that are shorter are bursts of their own, which
take more: two of 128 bytes 36 and 38. So a beat a cycle is more than the hardware can do.
"""

from firmware.drivers import Dma
from firmware.runtime import new_kernel, team_of
from soc.chip.spec import SocSpec
from soc.run import run_program

COPY = 32768  # bytes of a command, of which buffers in L1 and L2 are reused
ALIGNED = 256  # bytes, what a burst has


def copies_bound(to_l1: float, to_l2: float, chip: SocSpec) -> float:
    """Cycles that the DMA needs at least for bytes to L1 and back: it moves both at once."""
    return max(_alone(round(size), is_in, chip) for size, is_in in ((to_l1, True), (to_l2, False)))


def _alone(size: int, is_in: bool, chip: SocSpec) -> int:
    """Cycles from the first command to the end of the last."""
    k = new_kernel(chip, "copies")
    l1, l2 = k.buffer(k.l1, "A", COPY, ALIGNED), k.buffer(k.l2, "B", COPY, ALIGNED)
    with team_of(k, chip, chip.cores) as team, team.only(0):
        dma, counter = Dma(k), k.x()
        dma.begin(counter)
        with k.region("copies"):
            for start in range(0, size, COPY):
                copy = dma.to_l1 if is_in else dma.to_l2
                copy(l1, l2, min(COPY, size - start))
            dma.wait(counter)
    (region,) = run_program(k.build(), chip).to_json()["harts"][0]["regions"]
    return int(region["cycles"])
