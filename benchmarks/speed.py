"""Instructions per second inside the run, beside the yardstick's."""

from collections.abc import Iterator
from statistics import median

from benchmarks import limit
from benchmarks.clocks import simulate
from benchmarks.figure import Figure
from benchmarks.limit import Rate
from benchmarks.workload import elf

LEAST = {"speed2_mm_hwl": 0.75, "speed2_mm_2x2": 0.75, "speed2_mm_naive": 1.0}


def rate(name: str) -> Rate:
    """Of one run of an ELF."""
    result = simulate(elf(name))
    millions = result.instructions / 1e6
    return Rate(millions / result.processor_seconds, millions / result.seconds)


def speed(rounds: int) -> Iterator[Figure]:
    """The three programs, each run between two of the yardstick's: the machine's speed drifts."""
    pairs: dict[str, list[tuple[Rate, Rate]]] = {name: [] for name in LEAST}
    for name in LEAST:
        rate(name)
    with limit.compiled() as yardstick:
        for _ in range(rounds):
            for name in LEAST:
                pairs[name].append((rate(name), limit.rate(yardstick)))
    for name, least in LEAST.items():
        for clock in Rate._fields:
            both = [(getattr(a, clock), getattr(b, clock)) for a, b in pairs[name]]
            yield Figure(
                f"{name}, {clock} time",
                median(ours for ours, _ in both),
                "M instr/s",
                median(theirs for _, theirs in both),
                median(ours / theirs for ours, theirs in both),
                least=least,
            )
