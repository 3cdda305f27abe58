"""Programs that cost their host as much as they can: python -m tests.soc.costs

Prints the processor time for a million cycles and the memory that the process has come to: 10 s and
350 MB are the bounds. Nine harts do what needs Python most: they access registers of peripherals,
come to code for the first time, change code. Of accesses to registers two come in a cycle at most,
and each takes Python some 3 us.
"""

import argparse
import resource
import sys
from collections.abc import Callable
from random import Random
from time import process_time

from isa.extensions.profiles import profile
from isa.program import Program, Segment
from soc.host.collector import paused_collector
from soc.result import RunResult
from soc.run import run_program
from tests.soc.hostile_programs import CODE, CONTROLLER, START, Code

HARTS = CONTROLLER + 1
FLUSH, CLUSTER_TIMER, EVENT_MASK, SCRATCHES = (
    0x10201408,
    0x10200410,
    0x10200800,
    (0x10200048, 0x10200050),
)
OWN_EVENT_MASK, STDOUT = 0x10204000, 0x1A10F000
TIMER_RUNS = 0b101
"""CONFIG: enabled, its target an event."""
SIZE = 0x200
"""Bytes of code of one hart."""

ISA = profile("ri5cy", "x")
NOP = 0x00000013


def boot(entries: list[int]) -> Segment:
    """The fabric controller starts the cores, with their cache on, and goes to its own code."""
    code = Code(Random(0), ISA, START)
    for core, entry in enumerate(entries[:CONTROLLER]):
        code.store(0x10200040 + 4 * core, entry)
    code.store(0x10201400, 1)
    code.store(0x10200008, (1 << CONTROLLER) - 1)
    code.jump(entries[CONTROLLER])
    return segment(code)


def segment(code: Code) -> Segment:
    return Segment(code.base, bytes(code.data), len(code.data), executable=True)


def each(name: str, write: Callable[[Code, int], None]) -> Program:
    """A program of which `write(code, h)` writes each hart's part."""
    codes = [Code(Random(0), ISA, CODE + SIZE * h) for h in range(HARTS)]
    for h, code in enumerate(codes):
        write(code, h)
    segments = (boot([code.base for code in codes]), *map(segment, codes))
    return Program(segments, START, name=name)


def stores(name: str, address_of: Callable[[int], int]) -> Program:
    """Each hart stores to one register, as fast as it can."""

    def write(code: Code, h: int) -> None:
        code.li(6, ord("A"))
        flood(code, address_of(h))

    return each(name, write)


def flood(code: Code, address: int) -> None:
    """Store x6 to an address for ever."""
    code.li(5, address)
    start = code.here
    for _ in range(32):
        code.insn("sw", rs1=5, rs2=6, imm=0)
    code.jump(start)


def console() -> Program:
    """All print."""
    return stores("console", lambda h: STDOUT)


def registers() -> Program:
    """The cores store to registers of the cluster, of as many peripherals as there are."""
    targets = (SCRATCHES[0], CLUSTER_TIMER, EVENT_MASK, FLUSH + 4, SCRATCHES[1], CLUSTER_TIMER)
    return stores("registers", lambda h: STDOUT if h == CONTROLLER else targets[h % len(targets)])


def timers() -> Program:
    """The cores set targets of the cluster's timer, which it will not reach for long."""

    def write(code: Code, h: int) -> None:
        code.li(6, 0x7FFFFFFF)
        code.store(CLUSTER_TIMER + 4 * (h & 1), 0x7FFFFFFF)
        code.store(CLUSTER_TIMER - 0x10 + 4 * (h & 1), TIMER_RUNS)
        flood(code, STDOUT if h == CONTROLLER else CLUSTER_TIMER + 4 * (h & 1))

    return each("timers", write)


def collisions() -> Program:
    """A core stores to its event unit's registers, and the others by the shared view, too."""

    def write(code: Code, h: int) -> None:
        code.li(6, 1)
        flood(code, STDOUT if h == CONTROLLER else OWN_EVENT_MASK if h == 0 else EVENT_MASK)

    return each("collisions", write)


def flushes() -> Program:
    """The cores flush each other's instruction cache."""
    return stores("flushes", lambda h: STDOUT if h == CONTROLLER else FLUSH)


def fences() -> Program:
    """Nothing but fence.i."""

    def write(code: Code, h: int) -> None:
        code.insn("fence_i", imm=0, rs1=0, rd=0)
        code.jump(code.base)

    return each("fences", write)


def changes() -> Program:
    """Each hart changes an instruction, and executes it."""

    def write(code: Code, h: int) -> None:
        code.li(5, code.base + 0x40)
        code.li(6, 0x00140413)  # addi s0, s0, 1: another number each time
        code.li(7, 1 << 20)
        loop = code.here
        code.insn("add", rd=6, rs1=6, rs2=7)
        code.insn("sw", rs1=5, rs2=6, imm=0)
        code.insn("fence_i", imm=0, rs1=0, rd=0)
        while code.here < code.base + 0x44:
            code.word(NOP)
        code.jump(loop)

    return each("changes", write)


def islands(distance: int = 24) -> Program:
    """Each hart jumps through half of L2, from one island of code to the next."""
    first, end = CODE, CODE + 0xF0000
    image = bytearray(NOP.to_bytes(4, "little") * ((end - first) // 4))
    entries = [first + distance * h for h in range(HARTS)]
    step = distance * HARTS
    for entry in entries:
        for here in range(entry, end - 4, step):
            code = Code(Random(0), ISA, here)
            code.jump(here + step if here + step < end - 4 else entry)
            image[here - first : here - first + 4] = code.data
    segments = boot(entries), Segment(first, bytes(image), len(image), executable=True)
    return Program(segments, START, name="islands")


def python_calls(program: Program, cycles: int) -> tuple[int, RunResult]:
    """Calls of Python functions in so many cycles: what a run costs, on whatever machine."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    with paused_collector():
        sys.setprofile(count)
        try:
            result = run_program(program, max_cycles=cycles)
        finally:
            sys.setprofile(before)
    return calls, result


PROGRAMS = (console, registers, flushes, timers, collisions, fences, changes, islands)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soc.costs", description=__doc__)
    parser.add_argument("--cycles", type=int, default=1_000_000)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(p.__name__ for p in PROGRAMS)}")
    options = parser.parse_args()
    for make in PROGRAMS:
        if options.names and make.__name__ not in options.names:
            continue
        program = make()
        started = process_time()
        result = run_program(program, max_cycles=options.cycles)
        seconds = (process_time() - started) / result.cycles * 1e6
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{program.name:10} {seconds:6.1f} s of processor time for 1 M cycles, "
            f"{megabytes:.0f} MB, {result.exit.reason}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
