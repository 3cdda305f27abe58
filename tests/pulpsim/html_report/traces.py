"""Traces made by hand: events as rows, whatever chip they claim to be of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pulpsim.html_report.figures import Figures, of_trace
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, Kind, Trace

RESULT = Path(__file__).parents[1] / "data" / "result.json"
"""Of a run without a trace."""
CODE = 0x1C008000
ISSUE, STALL, MEMORY, CONFLICT, DMA, TRANSFER, SLEEP, REGION, _ = Kind
CAUSE = {name: index for index, name in enumerate(CAUSES)}


def trace(rows: Sequence[tuple] | np.ndarray, harts: int = 2, **header: Any) -> Trace:
    """A trace of rows (cycle, kind, hart, extra, a, b): `harts` cores, DMA lanes dma0 and dma1."""
    events = np.array(rows, EVENT)
    events = events[np.argsort(events["cycle"], kind="stable")]
    names = [f"core{number}" for number in range(harts)]
    about = {
        "version": 1,
        "isa": "ri5cy-x",
        "harts": names,
        "initiators": [*names, "dma0", "dma1"],
        "banks": 4,
        "first_cycle": 0,
        "cycles": None,
        "complete": True,
        "code": [[CODE, "13000000" * 64]],
        "symbols": [[CODE, 256, "main"]],
        "regions": {},
        "lines": [],
        "program": "hand.elf",
        "chip": {"name": "pulp"},
    }
    return Trace(Path("hand.trace"), about | header, events)


def figures(rows: Sequence[tuple] | np.ndarray, harts: int = 2, **header: Any) -> Figures:
    """The figures of such a trace."""
    return of_trace(trace(rows, harts, **header))


def issues(hart: int, first: int, count: int, pc: int = CODE) -> list[tuple]:
    """One instruction in each of some cycles."""
    return [(cycle, ISSUE, hart, 0, pc, 0x13) for cycle in range(first, first + count)]


def stall(hart: int, cycle: int, cause: str, cycles: int, pc: int = CODE) -> tuple:
    """Cycles in which a hart issues nothing."""
    return cycle, STALL, hart, CAUSE[cause], pc, cycles


def sleep(hart: int, cycle: int, cycles: int, at_barrier: bool) -> list[tuple]:
    """Cycles that a hart is asleep at the event unit."""
    return [
        stall(hart, cycle, "event", cycles),
        (cycle, SLEEP, hart, int(at_barrier), CODE, cycles),
    ]


def conflict(cycle: int, loser: int, winner: int, bank: int) -> tuple:
    """A lost arbitration, for the first word of a bank."""
    return cycle, CONFLICT, loser, bank | winner << 8, CODE, 0x10000000 + 4 * bank


def everything() -> list[tuple]:
    """A little of everything."""
    return [
        *issues(0, 0, 10),
        stall(0, 10, "fetch", 5, CODE + 4),
        (2, TRANSFER, 0, 0, 1, 64),
        (4, DMA, 2, 1, 0x10000004, 0),
        (20, TRANSFER, 0, 1, 1, 0),
        (1, REGION, 0, 3, 1, CODE),
        (9, REGION, 0, 3, 0, CODE),
        *sleep(0, 15, 10, at_barrier=True),
        *issues(1, 0, 7),
        stall(1, 7, "l1_contention", 1),
        conflict(7, 1, winner=0, bank=1),
        *issues(1, 8, 12),
        *sleep(1, 20, 5, at_barrier=True),
    ]
