"""Recording a trace: how much slower, how large, how much memory."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.clocks import ns_per_instruction, pulpsim, simulate
from benchmarks.command import MOST_MEMORY
from benchmarks.figure import Figure
from benchmarks.flatness import warm_up
from benchmarks.workload import elf
from pulpsim.commands.run.command import STOPPED
from soc.trace.reader import Trace
from soc.trace.recorder import Recording

PROGRAM = "speed2_mm_hwl"
EVENTS = 10_000_000
ISSUE_AND_MEMORY = ("kind=issue,memory",)
PROBE = 400_000  # cycles
SLOWEST = 3


def traces(rounds: int) -> Iterator[Figure]:
    """A C program that fills 10 M events, beside the same cycles of it without a trace."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.trace"
        for name, filters in (("issue and memory", ISSUE_AND_MEMORY), ("everything", ())):
            cycles = _cycles(file, filters)
            ways = [
                partial(simulate, elf(PROGRAM), max_cycles=cycles, trace=trace)
                for trace in (Recording(file, filters=filters), None)
            ]
            for way in ways:
                warm_up(way)
            pairs = [[ns_per_instruction(way()) for way in ways] for _ in range(rounds)]
            yield Figure.of_pairs(f"trace of {name}", "ns/instr", pairs, most=SLOWEST)
        yield from _sizes(Path(folder), file, cycles)


def _cycles(file: Path, filters: tuple[str, ...]) -> int:
    """In which there are so many events, counted where all cores work."""
    simulate(elf(PROGRAM), max_cycles=PROBE, trace=Recording(file, filters=filters))
    trace = Trace.open(file)
    early = trace.select(end=PROBE // 2).size
    late = trace.events.size - early
    return round((EVENTS - early) / late * PROBE / 2 + PROBE / 2)


def _sizes(folder: Path, file: Path, cycles: int) -> Iterator[Figure]:
    trace = Trace.open(file)
    size = trace.events.size * trace.events.itemsize
    yield Figure(
        f"{trace.events.size / 1e6:.0f} M events", size / trace.events.size, "bytes/event", most=16
    )
    program = folder / "program.elf"
    program.write_bytes(elf(PROGRAM).to_elf())
    config = folder / "run.toml"
    config.write_text(f'program.elf = "program.elf"\nrun.max_cycles = {cycles}\n')
    used = pulpsim("run", str(config), "--trace", str(file), status=STOPPED).memory
    yield Figure("memory of a run with that trace", used, "MB", most=MOST_MEMORY)
