"""The command: start-up, memory, and the very first run."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.clocks import ROOT, folder_of_runs, keeping_bytecode, middle, pulpsim, run_elf
from benchmarks.figure import Figure
from benchmarks.workload import INSTRUCTIONS, chip, elf, products

LENGTHS = (1, 100)  # millions of instructions
LONGEST = 2000
MOST_MEMORY = 350  # MB
MOST_COMPILING = 12  # s
MOST_HELLO, MOST_WITHOUT = 0.35, 0.5  # s


def start_up(rounds: int) -> Iterator[Figure]:
    """Processor time of `pulpsim run` of hello, its interpreter kept, and of `pulpsim --help`.

    With Python's bytecode of all modules kept, and of all but the clone's own, as where
    PYTHONDONTWRITEBYTECODE is set.
    """
    with folder_of_runs() as kept:
        variables = keeping_bytecode(kept)
        yield _hello("with .pyc", rounds, variables, MOST_HELLO)
        for package in ROOT.glob("*/__init__.py"):
            shutil.rmtree(f"{kept}{package.parent}", ignore_errors=True)
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        yield _hello("without", rounds, variables, MOST_WITHOUT)
    shown = middle([pulpsim("--help") for _ in range(rounds)])
    yield Figure("pulpsim --help", shown.processor, "s", most=0.5)


def _hello(how: str, rounds: int, variables: Mapping[str, str], most: float) -> Figure:
    run_elf(elf("hello"), variables=variables)
    runs = [run_elf(elf("hello"), variables=variables) for _ in range(rounds)]
    return Figure(f"pulpsim run hello, {how}", middle(runs).processor, "s", most=most)


def memory(lengths: tuple[int, ...] = LENGTHS) -> Iterator[Figure]:
    """Resident memory of runs of different lengths."""
    spec = chip()
    for millions in lengths:
        program = products(spec, round(millions * 1e6 / INSTRUCTIONS / spec.cores))
        used = run_elf(program).memory
        yield Figure(f"memory of {millions:,} M instructions", used, "MB", most=MOST_MEMORY)


def first_run() -> Iterator[Figure]:
    """`pulpsim run` of hello with an empty cache: the interpreter is compiled."""
    with folder_of_runs() as folder:
        cost = run_elf(elf("hello"), Path(folder) / "cache")
    yield Figure("first run of all, wall time", cost.wall, "s")
    yield Figure("first run of all, processor time", cost.processor, "s", most=MOST_COMPILING)
