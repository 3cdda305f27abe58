"""The event engine: slow and readable, but not too slow to be used."""

from collections.abc import Iterator
from statistics import median

from benchmarks.clocks import simulate
from benchmarks.figure import Figure
from benchmarks.workload import INSTRUCTIONS, chip, products

LEAST = 100_000


def event_engine(rounds: int) -> Iterator[Figure]:
    """Instructions per second on eight cores."""
    spec = chip()
    program = products(spec, 80_000 // (INSTRUCTIONS * spec.cores))
    results = [simulate(program, spec, "event") for _ in range(rounds + 1)][1:]
    rate = median(result.instructions / result.processor_seconds for result in results)
    yield Figure("event engine, eight cores", rate, "instr/s", least=LEAST)
