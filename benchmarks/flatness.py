"""Does the cost of an instruction depend on the length of the run, on cores, on banks?"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from statistics import median
from sys import executable

from benchmarks.clocks import ROOT, ns_per_instruction, simulate
from benchmarks.figure import Figure
from benchmarks.workload import INSTRUCTIONS, chip, products
from isa.program import Program
from soc.result import RunResult
from soc.spec import SocSpec
from soc.state import NEVER
from soc.translation import Translator

LENGTHS = (1, 10, 100)  # millions of instructions
LONGEST = 2000
CHIPS = ((1, 4), (2, 4), (2, 64), (4, 8), (4, 64), (8, 16), (8, 64), (16, 32), (16, 64))
"""Cores and banks."""
MOST = 1.2
WARM_UP = 50_000_000  # instructions


def first_cost(program: Program, spec: SocSpec) -> float:
    """The same of a program that nobody has run: it is over before any of it is translated."""
    warm, Translator.warm = Translator.warm, NEVER
    try:
        return ns_per_instruction(simulate(program, spec))
    finally:
        Translator.warm = warm


IN_A_NEW_PROCESS = """
from benchmarks.clocks import ns_per_instruction, simulate
from benchmarks.flatness import program_of
from benchmarks.workload import chip
print(ns_per_instruction(simulate(program_of(chip(), 1), chip())))
"""


def cost_in_a_new_process() -> float:
    """The same of the first run in a process, of 1 M instructions that others have run before."""
    command = [executable, "-c", IN_A_NEW_PROCESS]
    return float(
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    )


def cost(program: Program, spec: SocSpec, rounds: int) -> float:
    """Nanoseconds of processor time for an instruction of a program that has run before.

    That is: often enough that all of it is translated that is worth it.
    """
    warm_up(lambda: simulate(program, spec))
    return median(ns_per_instruction(simulate(program, spec)) for _ in range(rounds))


def warm_up(run: Callable[[], RunResult]) -> None:
    """Run something until what is hot in it is translated."""
    started = run()
    with translating_at_once():
        for _ in range(ceil(WARM_UP / started.instructions)):
            run()


@contextmanager
def translating_at_once() -> Iterator[None]:
    """Let runs wait for what they have started to translate."""
    Translator.waits = True
    try:
        yield
    finally:
        Translator.waits = False


def by_length(rounds: int, lengths: tuple[int, ...] = LENGTHS) -> Iterator[Figure]:
    """Runs of a million instructions and more, each beside the cheapest."""
    spec = chip()
    programs = {length: program_of(spec, length) for length in lengths}
    first = median(first_cost(programs[1], spec) for _ in range(rounds))
    costs = {
        f"{n:,} M instructions": cost(programs[n], spec, rounds if n <= 100 else 1) for n in lengths
    }
    again = median(cost_in_a_new_process() for _ in range(rounds))
    yield from _beside_cheapest(costs | {"1 M instructions, in a new process": again})
    yield Figure("1 M instructions, for the first time ever", first, "ns/instr")


def program_of(spec: SocSpec, millions: float) -> Program:
    """Products of so many million instructions."""
    return products(spec, round(millions * 1e6 / INSTRUCTIONS / spec.cores))


def by_chip(rounds: int) -> Iterator[Figure]:
    """Chips from one core to sixteen, each beside the cheapest."""
    specs = {shape: chip(*shape) for shape in CHIPS}
    costs = {shape: cost(program_of(spec, 20), spec, rounds) for shape, spec in specs.items()}
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
