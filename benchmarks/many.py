"""Many simulations at once: how well they share two processors, and what each costs by itself."""

from collections.abc import Iterator
from operator import attrgetter
from statistics import median
from time import perf_counter, process_time

from benchmarks.figure import Figure
from benchmarks.flatness import policy
from benchmarks.workload import INSTRUCTIONS, chip, products
from soc.jit.code_cache import INTERPRET_ALL
from soc.run_many import Run, run_many

CYCLES = 535  # of one product and its barrier on eight cores
SHORT = 50_000  # cycles: a kernel of the autotuner
LEAST_SCALING = 1.8
MOST_OVERHEAD = 5  # ms
CYCLES_ONLY = attrgetter("cycles")


def many(rounds: int) -> Iterator[Figure]:
    """Two workers beside one, on long and on short runs; the fixed cost of a short one."""
    spec = chip()
    long = Run(products(spec, 10_000_000 // (INSTRUCTIONS * spec.cores)), spec)
    short = Run(products(spec, SHORT // CYCLES), spec)
    yield scaling("run_many, 10 M instructions, threads", [long] * 8, "thread", rounds)
    yield scaling("run_many, 50,000 cycles, threads", [short] * 200, "thread", rounds)
    yield scaling("run_many, 50,000 cycles, processes", [short] * 200, "process", rounds)
    yield overhead(rounds)


def rate(runs: list[Run], workers: int, isolation: str) -> float:
    """Runs per second, from the end of the first ones on: workers have started by then."""
    ends: list[float] = []
    run_many(
        runs,
        workers=workers,
        isolation=isolation,
        keep=CYCLES_ONLY,
        on_end=lambda *_: ends.append(perf_counter()),
    )
    first = len(runs) // 4
    return (len(runs) - 1 - first) / (ends[-1] - ends[first])


def scaling(name: str, runs: list[Run], isolation: str, rounds: int) -> Figure:
    """Runs per second of two workers, beside one's."""
    pairs = [(rate(runs, 2, isolation), rate(runs, 1, isolation)) for _ in range(rounds)]
    return Figure.of_pairs(name, "runs/s", pairs, least=LEAST_SCALING)


def overhead(rounds: int) -> Figure:
    """Processor time of a run that does not depend on its length."""
    spec = chip()
    lengths = SHORT // CYCLES, 10 * SHORT // CYCLES
    runs = [[Run(products(spec, length), spec)] * 20 for length in lengths]
    fixed = []
    with policy(INTERPRET_ALL):  # else long runs would cost less per cycle
        for _ in range(rounds):
            short, long = (_milliseconds(some) for some in runs)
            fixed.append(short - (long - short) / (lengths[1] / lengths[0] - 1))
    return Figure("fixed cost of a run", median(fixed), "ms", most=MOST_OVERHEAD)


def _milliseconds(runs: list[Run]) -> float:
    started = process_time()
    run_many(runs, workers=1, keep=CYCLES_ONLY)
    return (process_time() - started) / len(runs) * 1e3
