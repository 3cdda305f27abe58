"""Does the cost of an instruction depend on the length of the run, on cores, on banks?"""

from collections.abc import Iterator
from statistics import median

from benchmarks.clocks import ns_per_instruction, simulate
from benchmarks.figure import Figure
from benchmarks.workload import INSTRUCTIONS, chip, products

LENGTHS = (1, 10, 100)  # millions of instructions
LONGEST = 2000
CHIPS = ((1, 4), (2, 4), (2, 64), (4, 8), (4, 64), (8, 16), (8, 64), (16, 32), (16, 64))
"""Cores and banks."""
MOST = 1.2


def cost(cores: int, banks: int, millions: float, rounds: int) -> float:
    """Nanoseconds of processor time for an instruction of a run of this length."""
    spec = chip(cores, banks)
    program = products(spec, round(millions * 1e6 / INSTRUCTIONS / cores))
    return median(ns_per_instruction(simulate(program, spec)) for _ in range(rounds))


def by_length(rounds: int, lengths: tuple[int, ...] = LENGTHS) -> Iterator[Figure]:
    """Runs of a million instructions and more, each beside the cheapest."""
    costs = {length: cost(8, 16, length, rounds if length <= 10 else 1) for length in lengths}
    yield from _beside_cheapest({f"{length:,} M instructions": c for length, c in costs.items()})


def by_chip(rounds: int) -> Iterator[Figure]:
    """Chips from one core to sixteen, each beside the cheapest."""
    costs = {(cores, banks): cost(cores, banks, 4, rounds) for cores, banks in CHIPS}
    yield from _beside_cheapest(
        {f"{c} core{'s' * (c > 1)}, {b} banks": ns for (c, b), ns in costs.items()}
    )


def _beside_cheapest(costs: dict[str, float]) -> Iterator[Figure]:
    least = min(costs.values())
    for name, ns in costs.items():
        yield Figure(name, ns, "ns/instr", least, ns / least, most=MOST)


def asleep(rounds: int) -> Iterator[Figure]:
    """Cycles per second while seven of eight cores wait at a barrier, and while all work."""
    spec = chip()
    one = products(spec, 4_000_000 // INSTRUCTIONS, working=1)
    all_of_them = products(spec, 4_000_000 // INSTRUCTIONS)
    pairs = []
    for _ in range(rounds):
        pair = [simulate(program, spec) for program in (one, all_of_them)]
        pairs.append([result.cycles / result.processor_seconds / 1e6 for result in pair])
    yield Figure(
        "seven of eight cores wait",
        median(ours for ours, _ in pairs),
        "M cycles/s",
        median(theirs for _, theirs in pairs),
        median(ours / theirs for ours, theirs in pairs),
        least=4,
    )
