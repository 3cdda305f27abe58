"""Under a debugger: how fast a program runs, and how soon a debugger has gone back."""

import socket
from collections.abc import Iterator
from statistics import median
from time import thread_time

from benchmarks.figure import Figure
from benchmarks.workload import elf
from pulpsim.gdb.channel import Channel
from pulpsim.gdb.stub import Stub
from soc.debug.lookahead import EVERYTHING
from soc.debug.session import Session
from soc.prelude.trace_event import STORE, Kind
from soc.run import carry_out, prepare

PROGRAM = "speed2_mm_naive"
CYCLES = 10_000_000
SLOWER = 1.1
LONGEST_WAIT = 2.0  # s


def debugger(rounds: int) -> Iterator[Figure]:
    """A C program under GDB's server, without breakpoints and back over 10 M cycles."""
    _alone(), _served()
    pairs = [(_served(), _alone()) for _ in range(rounds)]
    yield Figure.of_pairs("run under GDB", "s", pairs, most=SLOWER)
    for name, packets in _points().items():
        waits = [_back(packets) for _ in range(rounds)]
        yield Figure(f"back to {name}", median(waits), "s", most=LONGEST_WAIT)


def _alone() -> float:
    """Processor seconds of so many cycles."""
    simulation = prepare(elf(PROGRAM), "pulp", "compiled")
    return carry_out(simulation, CYCLES).processor_seconds


def _served() -> float:
    """The same under the server, which looks whether the debugger interrupts."""
    here, there = socket.socketpair()
    with here, there:
        channel = Channel(here.fileno(), here.fileno())
        session = Session(elf(PROGRAM), max_cycles=CYCLES)
        stub = Stub(session, b"", is_told=channel.is_told)
        started = thread_time()
        stub.answer(b"vCont;c")
        seconds = thread_time() - started
    assert session.cycle == CYCLES
    return seconds


def _points() -> dict[str, bytes]:
    """What is met far back, once: by name the packets that insert it."""
    session = Session(elf(PROGRAM))
    start = session.program.entry
    return {
        "an instruction, 10 M cycles ago": b"Z0,%x,4" % start,
        "a variable's write, 10 M cycles ago": b"Z2,%x,4" % _written_once(session),
    }


def _written_once(session: Session) -> int:
    """A word of memory that the program writes as it begins, and never again."""
    window, _ = session.scout_at(0).look(2000, EVERYTHING)
    events = window.events[window.events["kind"] == Kind.MEMORY]
    stores = events[(events["extra"] & STORE != 0) & (events["a"] >= session.spec.l2.base)]
    return int(stores["a"][0])


def _back(packet: bytes) -> float:
    """Processor seconds of a reverse-continue."""
    stub = Stub(Session(elf(PROGRAM), max_cycles=CYCLES), b"")
    stub.answer(b"vCont;c")
    assert stub.answer(packet) == b"OK"
    started = thread_time()
    answer = stub.answer(b"bc")
    seconds = thread_time() - started
    assert b"replaylog" not in (answer or b"replaylog")
    assert stub.session.cycle < CYCLES // 100
    return seconds
