"""What single things cost: a cycle of the DMA, a miss of the instruction cache, a translation."""

from collections.abc import Iterator
from functools import partial
from statistics import median

from benchmarks.clocks import simulate
from benchmarks.figure import Figure
from benchmarks.flatness import warm_up
from benchmarks.workload import chip
from firmware.drivers import Dma
from firmware.registers import ZERO
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.result import RunResult

COPY, COPIES = 32768, 200  # bytes, each way
LONG, SHORT, INSTRUCTIONS = 700, 70, 700_000
"""Instructions of loops that a core's own cache does not hold, and does; of a core in all."""
LOAD_EVERY = 4  # instructions
DMA_CYCLE, MISS = 12.0, 150.0  # ns


def copies() -> Program:
    """A core that copies from L2 to L1 and back, and sleeps meanwhile."""
    spec = chip()
    k = new_kernel(spec, "copies")
    l1, l2 = k.buffer(k.l1, "A", COPY), k.buffer(k.l2, "B", COPY)
    with team_of(k, spec, spec.cores) as team, team.only(0):
        dma, left, counter = Dma(k), k.x(), k.x()
        k.li(left, COPIES)
        again = k.here()
        for copy in (dma.to_l1, dma.to_l2):
            dma.begin(counter)
            copy(l1, l2, COPY)
            dma.wait(counter)
        k.addi(left, left, -1)
        k.bne(left, ZERO, again)
    return k.build()


def straight(length: int) -> Program:
    """All cores repeat so many instructions, loads among them."""
    spec = chip()
    k = new_kernel(spec, "straight")
    words = k.buffer(k.l1, "A", 64)
    with team_of(k, spec, spec.cores):
        left, base, word = k.x(3)
        k.li(base, words)
        k.li(left, INSTRUCTIONS // length)
        again = k.here()
        for number in range(length):
            if number % LOAD_EVERY == 0:
                k.lw(word, number % 64, base)
            else:
                k.xori(word, left, 1)
        k.addi(left, left, -1)
        k.bne(left, ZERO, again)
    return k.build()


def parts(rounds: int) -> Iterator[Figure]:
    """Processor time of each."""
    programs = {"copies": copies(), "long": straight(LONG), "short": straight(SHORT)}
    for name in ("long", "short"):
        warm_up(partial(simulate, programs[name]))
    runs = [{name: simulate(program) for name, program in programs.items()} for _ in range(rounds)]
    yield Figure(
        "a cycle in which the DMA alone moves data",
        median(run["copies"].processor_seconds / run["copies"].cycles * 1e9 for run in runs),
        "ns",
        most=DMA_CYCLE,
    )
    yield Figure(
        "a miss of a core's instruction cache",
        median(_miss(run["long"], run["short"]) for run in runs),
        "ns",
        most=MISS,
    )


def _miss(long: RunResult, short: RunResult) -> float:
    """Nanoseconds more for each miss that a run has more; it has as many instructions."""
    misses = [int(run.chip.fetch["misses"].sum()) for run in (long, short)]
    more = long.processor_seconds - short.processor_seconds
    return more / (misses[0] - misses[1]) * 1e9
