"""Instructions per second inside the run, beside the yardstick's."""

from collections.abc import Iterator
from functools import partial

from benchmarks import limit
from benchmarks.clocks import simulate
from benchmarks.figure import Figure
from benchmarks.flatness import warm_up
from benchmarks.limit import Rate
from benchmarks.network import TRAINING
from benchmarks.workload import elf
from isa.program import Program
from trainlib.launch import program as kernel_program

LEAST = {"speed2_mm_hwl": 0.75, "speed2_mm_2x2": 0.75, "speed2_mm_naive": 1.0, "training": 0.45}
STEPS = 100
"""Of the training: the network of the tutorial, all of it in L2 but what the DMA fetches."""


def program_of(name: str) -> Program:
    """An ELF, or the training."""
    if name != "training":
        return elf(name)
    return kernel_program("train_f32", {**TRAINING, "steps": STEPS}, "pulp").program


def rate(program: Program) -> Rate:
    """Of one run."""
    result = simulate(program)
    millions = result.instructions / 1e6
    return Rate(millions / result.processor_seconds, millions / result.seconds)


def speed(rounds: int) -> Iterator[Figure]:
    """The programs, each run between two of the yardstick's: the machine's speed drifts."""
    pairs: dict[str, list[tuple[Rate, Rate]]] = {name: [] for name in LEAST}
    programs = {name: program_of(name) for name in LEAST}
    for program in programs.values():
        warm_up(partial(simulate, program))
    with limit.compiled() as yardstick:
        for _ in range(rounds):
            for name in LEAST:
                pairs[name].append((rate(programs[name]), limit.rate(yardstick)))
    for name, least in LEAST.items():
        for clock in Rate._fields:
            both = [(getattr(a, clock), getattr(b, clock)) for a, b in pairs[name]]
            yield Figure.of_pairs(f"{name}, {clock} time", "M instr/s", both, least=least)
