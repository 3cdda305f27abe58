"""Does the cost of an instruction depend on the length of the run, on cores, on banks?"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from math import ceil
from statistics import median
from sys import executable

from benchmarks.clocks import ROOT, ns_per_instruction, simulate
from benchmarks.figure import Figure
from benchmarks.workload import INSTRUCTIONS, chip, products
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.jit.code_cache import INTERPRET_ALL, SHARED, Policy
from soc.result import RunResult

LENGTHS = (1, 10, 100)  # millions of instructions
LONGEST = 2000
CHIPS = ((1, 4), (2, 4), (2, 64), (4, 8), (4, 64), (8, 16), (8, 64), (16, 32), (16, 64))
"""Cores and banks."""
MOST = 1.2
WARM_UP = 50_000_000  # instructions


def first_cost(program: Program, spec: SocSpec) -> float:
    """The same of a program that has not run before: it is over before any of it is translated."""
    with policy(INTERPRET_ALL):
        return ns_per_instruction(simulate(program, spec))


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


def warm_up(run: Callable[[], RunResult]) -> None:
    """Run something until what is hot in it is translated."""
    started = run()
    with translating_at_once():
        for _ in range(ceil(WARM_UP / started.instructions)):
            run()


@contextmanager
def policy(other: Policy) -> Iterator[None]:
    """Let runs translate by another policy."""
    before, SHARED.policy = SHARED.policy, other
    try:
        yield
    finally:
        SHARED.policy = before


def translating_at_once() -> AbstractContextManager[None]:
    """Let runs wait for what they have started to translate."""
    return policy(replace(SHARED.policy, waits=True))


def by_length(rounds: int, lengths: tuple[int, ...] = LENGTHS) -> Iterator[Figure]:
    """Runs of a million instructions and more, each beside the cheapest.

    The longest, of `LONGEST`, runs once.
    """
    spec = chip()
    programs = {length: program_of(spec, length) for length in lengths}
    first = median(first_cost(programs[1], spec) for _ in range(rounds))
    costs: dict[str, Callable[[], float]] = {
        f"{n:,} M instructions": warm_cost(program, spec) for n, program in programs.items()
    }
    costs["1 M instructions, in a new process"] = cost_in_a_new_process
    yield from beside_cheapest(costs, rounds, once=(f"{LONGEST:,} M instructions",))
    yield Figure("1 M instructions, for the first time ever", first, "ns/instr")


def program_of(spec: SocSpec, millions: float) -> Program:
    """Products of so many million instructions."""
    return products(spec, round(millions * 1e6 / INSTRUCTIONS / spec.cores))


def by_chip(rounds: int) -> Iterator[Figure]:
    """Chips from one core to sixteen, each beside the cheapest."""
    costs = {}
    for cores, banks in CHIPS:
        spec = chip(cores, banks)
        name = f"{cores} core{'s' * (cores > 1)}, {banks} banks"
        costs[name] = warm_cost(program_of(spec, 20), spec)
    yield from beside_cheapest(costs, rounds)


def warm_cost(program: Program, spec: SocSpec) -> Callable[[], float]:
    """What tells the nanoseconds for an instruction of a program that has run before.

    That is: often enough that all of it is translated that is worth it.
    """
    warm_up(lambda: simulate(program, spec))
    return lambda: ns_per_instruction(simulate(program, spec))


def beside_cheapest(
    costs: dict[str, Callable[[], float]], rounds: int, once: tuple[str, ...] = ()
) -> Iterator[Figure]:
    """Each cost and its ratio to the cheapest, measured in turns: the machine's speed drifts.

    A turn begins with the last one. So what is short is measured after what is long: whoever has
    waited for another process finds the host's caches cold.

    once    names of those that are measured in the first round only
    """
    found = [
        {name: costs[name]() for name in reversed(costs) if turn == 0 or name not in once}
        for turn in range(rounds)
    ]
    medians = {name: median(each[name] for each in found if name in each) for name in costs}
    cheapest = min((name for name in costs if name not in once), key=medians.__getitem__)
    for name, ns in medians.items():
        ratio = median(each[name] / each[cheapest] for each in found if name in each)
        yield Figure(name, ns, "ns/instr", medians[cheapest], ratio, most=MOST)


def asleep(rounds: int) -> Iterator[Figure]:
    """Cycles per second while seven of eight cores wait at a barrier, and while all work."""
    spec = chip()
    one = products(spec, 4_000_000 // INSTRUCTIONS, working=1)
    all_of_them = products(spec, 4_000_000 // INSTRUCTIONS)
    pairs = []
    for _ in range(rounds):
        pair = [simulate(program, spec) for program in (one, all_of_them)]
        pairs.append([result.cycles / result.processor_seconds / 1e6 for result in pair])
    yield Figure.of_pairs("seven of eight cores wait", "M cycles/s", pairs, least=4)
