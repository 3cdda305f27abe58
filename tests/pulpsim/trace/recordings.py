"""A small recording made by hand: two functions, two cores that meet in a bank, a DMA lane."""

from pathlib import Path
from typing import Any

import numpy as np

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import LineRange, LineTable, Program, Symbol
from soc.chip.spec import load_chip
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, Kind, Trace
from soc.trace.writer import TraceWriter, new_header

BASE = 0x1C008000
SOURCE = """
main:
    addi x5, x0, 3
    jal ra, double
    lw x6, 0(x8)
    j main
double:
    slli x5, x5, 1
    ret
"""
MAIN, CALL, LOAD, AGAIN, DOUBLE, RET = range(BASE, BASE + 24, 4)
L1 = 0x10000000
JUMP, CONTENTION, EVENT_UNIT, OFF = (
    CAUSES.index(name) for name in ("jump", "l1_contention", "event", "off")
)
DMA0 = 12  # as an initiator
REGION = 5
END = 14


def program() -> Program:
    """The program of the recording, with source lines but for `double`."""
    code = assemble(SOURCE, profile("ri5cy", "x", False), text_base=BASE)
    symbols = Symbol("main", BASE, 16, "function"), Symbol("double", DOUBLE, 8, "function")
    lines = LineTable([LineRange(MAIN, LOAD, "main.c", 3), LineRange(LOAD, DOUBLE, "main.c", 4)])
    return Program(code.segments, BASE, symbols, code.sections, lines=lines, name="small.elf")


def events() -> np.ndarray:
    """What core 0 and core 1 do, and the DMA: EVENT[n]."""
    words = np.frombuffer(program().bytes_at(BASE, 24), "<u4").tolist()

    def issue(cycle: int, hart: int, pc: int) -> tuple:
        return cycle, Kind.ISSUE, hart, 0, pc, words[(pc - BASE) // 4]

    rows = [
        (0, Kind.STALL, 0, OFF, 0, 2),
        (0, Kind.STALL, 1, OFF, 0, 8),
        issue(2, 0, MAIN),
        issue(3, 0, CALL),
        (4, Kind.STALL, 0, JUMP, CALL, 1),
        issue(5, 0, DOUBLE),
        issue(6, 0, RET),
        (7, Kind.STALL, 0, JUMP, RET, 1),
        issue(8, 0, LOAD),
        issue(8, 1, LOAD),
        (8, Kind.REGION, 1, REGION, 1, LOAD),
        (9, Kind.STALL, 0, CONTENTION, LOAD, 1),
        (9, Kind.CONFLICT, 0, 3 | 1 << 8, LOAD, L1 + 12),
        (9, Kind.MEMORY, 1, 0x20, L1 + 12, LOAD),
        issue(9, 1, AGAIN),
        (9, Kind.TRANSFER, 0, 0, 1, 64),
        (10, Kind.MEMORY, 0, 0x20, L1 + 12, LOAD),
        issue(10, 0, AGAIN),
        (10, Kind.STALL, 1, EVENT_UNIT, AGAIN, 3),
        (10, Kind.SLEEP, 1, 1, AGAIN, 3),
        (10, Kind.DMA, DMA0, 1, L1 + 64, 0),
        (11, Kind.STALL, 0, JUMP, AGAIN, 1),
        (11, Kind.DMA, DMA0, 0, L1 + 68, 0),
        (12, Kind.REGION, 1, REGION, 0, AGAIN),
        issue(12, 0, MAIN),
        (13, Kind.TRANSFER, 0, 1, 1, 64),
        issue(13, 0, CALL),
        issue(13, 1, MAIN),
    ]
    return np.array(rows, EVENT)


def write(file: Path, rows: np.ndarray, **about: Any) -> Trace:
    """A trace of these events, opened."""
    header = new_header(load_chip("pulp"), program(), regions={str(REGION): "work"})
    writer = TraceWriter(file, header | about)
    writer.append(rows)
    writer.close(**{"complete": True, "cycles": END} | about)
    return Trace.open(file)


def recording(folder: Path) -> Trace:
    """The recording."""
    return write(folder / "small.trace", events())
