"""What each instruction of an issue trace did: registers written, address and data of its access.

    4 0 1c000080 00a12423 mem 0x1c008008 0x0000000c

The fields after the instruction are those of Spike's commit log: `x10 0x0000000c` is a register and
its new value, `mem` the address of a load, and of a store also its data.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from soc.prelude.trace_event import AT_GRANT, SECOND_HALF, SIZE_SHIFT, STORE, STORED, Kind
from soc.trace.reader import Trace

KINDS = "kind=issue,memory,value"
"""The filter of a recording that has all this."""

FLOATS = 32
"""Entries of the register file before those of floats that have registers of their own."""

GRANTED, ISSUED, WRITTEN = range(3)
"""What comes first in a cycle: accesses of instructions that were issued before."""


def with_effects(lines: Iterable[str], effects: Mapping[int, list[str]]) -> Iterator[str]:
    """The lines of an issue trace, each with what its instruction did."""
    for number, line in enumerate(lines):
        yield " ".join([line, *effects.get(number, ())])


def effects_of(trace: Trace) -> dict[int, list[str]]:
    """By the number of an instruction: what it did, in words."""
    events = trace.select((Kind.ISSUE, Kind.MEMORY, Kind.VALUE))
    order = np.lexsort((_rank(events), events["cycle"]))
    found: dict[int, list[str]] = {}
    last: dict[int, int] = {}
    stores: dict[int, str] = {}
    count = 0
    columns = (events[name][order].tolist() for name in ("kind", "hart", "extra", "a"))
    for kind, hart, extra, a in zip(*columns, strict=True):
        if kind == Kind.ISSUE:
            last[hart] = count
            count += 1
        elif hart in last and not (kind == Kind.MEMORY and extra & SECOND_HALF):
            _note(found.setdefault(last[hart], []), stores, kind, hart, extra, a)
    return found


def _note(
    words: list[str], stores: dict[int, str], kind: int, hart: int, extra: int, a: int
) -> None:
    """Add what an event says of a hart's last instruction.

    stores    of each hart the address and the width of the store that is under way
    """
    if kind == Kind.MEMORY:
        digits = 2 << (extra >> SIZE_SHIFT & 3)
        stores[hart] = f"mem 0x{a:08x}" + (f" 0x%0{digits}x" if extra & STORE else "")
        if not extra & STORE:
            words.append(stores.pop(hart))
    elif extra & STORED:
        form = stores.pop(hart, "")
        digits = int(form[-2:-1] or 8)
        words.append(form % (a & (1 << 4 * digits) - 1) if form else f"0x{a:08x}")
    else:
        words.insert(0, f"{register_name(extra & ~AT_GRANT)} 0x{a:08x}")


def register_name(entry: int) -> str:
    """ "x10", "f3": an entry of the register file."""
    return f"f{entry - FLOATS}" if entry >= FLOATS else f"x{entry}"


def _rank(events: np.ndarray) -> np.ndarray:
    """The order of what happens in a cycle."""
    rank = np.full(events.size, GRANTED)
    rank[events["kind"] == Kind.ISSUE] = ISSUED
    rank[(events["kind"] == Kind.VALUE) & (events["extra"] & AT_GRANT == 0)] = WRITTEN
    memory_first = events["kind"] != Kind.MEMORY
    return 2 * rank + memory_first
