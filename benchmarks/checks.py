"""Checking a run: how much slower than the same run without."""

from collections.abc import Iterator
from functools import partial

from benchmarks.clocks import ns_per_instruction, simulate
from benchmarks.figure import Figure
from benchmarks.flatness import warm_up
from benchmarks.workload import elf

PROGRAMS = "speed2_mm_hwl", "speed2_mm_2x2", "speed2_mm_naive"
CYCLES = 4_000_000
SLOWEST = {"races": 8, "memory": 3}


def checks(rounds: int) -> Iterator[Figure]:
    """The C programs of the other figures under each check, beside the same cycles without."""
    for program in PROGRAMS:
        plain = partial(simulate, elf(program), max_cycles=CYCLES)
        warm_up(plain)
        for check, most in SLOWEST.items():
            ways = [partial(plain, checks=(check,)), plain]
            warm_up(ways[0])
            pairs = [[ns_per_instruction(way()) for way in ways] for _ in range(rounds)]
            yield Figure.of_pairs(f"{program} --check {check}", "ns/instr", pairs, most=most)
