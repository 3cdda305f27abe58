"""The command: start-up, memory, and the very first run."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clocks import middle, pulpsim, run_elf
from benchmarks.figure import Figure
from benchmarks.workload import INSTRUCTIONS, chip, elf, products

LENGTHS = (1, 100)  # millions of instructions
LONGEST = 2000
MOST_MEMORY = 350  # MB


def start_up(rounds: int) -> Iterator[Figure]:
    """Processor time of `pulpsim run` of hello, its interpreter kept, and of `pulpsim --help`."""
    run_elf(elf("hello"))
    hello = middle([run_elf(elf("hello")) for _ in range(rounds)])
    yield Figure("pulpsim run hello", hello.processor, "s", most=2.0)
    shown = middle([pulpsim("--help") for _ in range(rounds)])
    yield Figure("pulpsim --help", shown.processor, "s", most=0.5)


def memory(lengths: tuple[int, ...] = LENGTHS) -> Iterator[Figure]:
    """Resident memory of runs of different lengths."""
    spec = chip()
    for millions in lengths:
        program = products(spec, round(millions * 1e6 / INSTRUCTIONS / spec.cores))
        used = run_elf(program).memory
        yield Figure(f"memory of {millions:,} M instructions", used, "MB", most=MOST_MEMORY)


def first_run() -> Iterator[Figure]:
    """`pulpsim run` of hello with an empty cache: the interpreter is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        cost = run_elf(elf("hello"), Path(folder) / "cache")
    yield Figure("first run of all, wall time", cost.wall, "s")
    yield Figure("first run of all, processor time", cost.processor, "s")
