"""Whole processes: `pulpsim run` from its start to its end, beside the yardstick's rate.

Python's bytecode is kept, as it is unless PYTHONDONTWRITEBYTECODE is set: benchmarks.command shows
what start-up takes without.
"""

import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks import limit
from benchmarks.clocks import folder_of_runs, keeping_bytecode, run_elf, simulate
from benchmarks.figure import Figure
from benchmarks.flatness import warm_up
from benchmarks.layers import pairs
from benchmarks.workload import elf
from isa.program import Program
from soc.host.cache_folder import cache_folder

LEAST = {"speed2_mm_hwl": 0.47, "speed2_mm_2x2": 0.46, "speed2_mm_naive": 0.6}
FIRST = 60
"""Million instructions per second of a program that has not run before."""
OF_PROGRAMS = shutil.ignore_patterns("superblock*", "profile*")


def processes(rounds: int) -> Iterator[Figure]:
    """Instructions per second of processor time; of first runs per second, as others translate."""
    with limit.compiled() as yardstick, folder_of_runs() as kept:
        variables = keeping_bytecode(kept)
        run_elf(elf("hello"), variables=variables)
        for name, least in LEAST.items():
            program = elf(name)
            warm_up(partial(simulate, program))
            millions = simulate(program).instructions / 1e6
            measure = partial(_rate, program, millions, variables)
            yield pairs(f"{name}, whole process", measure, yardstick, rounds, least)
            yield Figure(
                f"{name}, first run, wall time",
                millions / first_seconds(program, variables),
                "M instr/s",
                least=FIRST,
            )


def _rate(program: Program, millions: float, variables: Mapping[str, str]) -> float:
    return millions / run_elf(program, variables=variables).processor


def first_seconds(program: Program, variables: Mapping[str, str]) -> float:
    """Of a process that finds the interpreter and nothing else in its cache."""
    with folder_of_runs() as folder:
        cache = Path(folder) / "cache"
        shutil.copytree(cache_folder(), cache, ignore=OF_PROGRAMS)
        return run_elf(program, cache, variables).wall
