"""Lines of a Konata log, put into the order of cycles and written, many at once."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pulpsim.trace.code import Code
from pulpsim.trace.export import text
from soc.prelude.counters import CAUSES
from soc.trace.reader import Trace

FETCHED, STALLS, EXECUTES, WAITS, RETIRED = 0, 1, 123, 124, 125
"""Slots: the order of an instruction's lines. Those of a stall begin at an odd slot, end after."""
MOST_STALLS = (EXECUTES - STALLS) // 2 - 1
"""Beyond which stalls of an instruction share a slot."""
SLOT_BITS, NUMBER_BITS = 7, 24
AT_ONCE = 1 << 15
"""Items that are turned into text together."""


class Items(NamedTuple):
    """Items to write: int64[n] each.

    cycles     since the trace's first one
    numbers    of instructions
    slots      what is said of them
    about      where an instruction is FETCHED: 2 hart + (is it in the decode stage?); or a cause
    pcs        of instructions that are FETCHED
    """

    cycles: np.ndarray
    numbers: np.ndarray
    slots: np.ndarray
    about: np.ndarray
    pcs: np.ndarray

    def chosen(self, which: np.ndarray | slice) -> "Items":
        """Those at these places, or where a mask holds."""
        return Items(*(column[which] for column in self))


def items(
    cycles: np.ndarray,
    numbers: np.ndarray,
    slots: np.ndarray | int,
    about: np.ndarray | int = 0,
    pcs: np.ndarray | int = 0,
) -> Items:
    """Items, with columns of one number if need be."""
    rest = (np.broadcast_to(column, cycles.shape) for column in (slots, about, pcs))
    return Items(cycles, numbers, *rest)


class Lines:
    """Writes items by cycle, instruction and slot."""

    def __init__(self, trace: Trace) -> None:
        self.code = Code(trace)
        self.first = trace.first_cycle
        self.causes = text.labels(CAUSES)
        self.waiting = Items(*np.zeros((5, 0), np.int64))
        self.cycle: int | None = None
        self.retired = 0

    def written(self, more: list[Items], end: int | None) -> Iterator[bytes]:
        """The lines of the cycles before `end`; None: of all."""
        every = Items(*(np.concatenate(column) for column in zip(self.waiting, *more, strict=True)))
        ready = every
        if end is not None:
            is_ready = every.cycles < end
            ready, self.waiting = every.chosen(is_ready), every.chosen(~is_ready)
        ready = ready.chosen(np.argsort(_keys(ready), kind="stable"))
        for first in range(0, ready.cycles.size, AT_ONCE):
            yield self._text(ready.chosen(slice(first, first + AT_ONCE)))

    def _text(self, ready: Items) -> bytes:
        lines = text.Pieces(ready.cycles.size)
        number = text.decimal(ready.numbers)
        self._steps(ready.cycles, lines)
        slots = ready.slots
        fetched = np.flatnonzero(slots == FETCHED)
        lines.put(fetched, self._fetched(ready.chosen(fetched), number[fetched]))
        stalls = np.flatnonzero((slots >= STALLS) & (slots < EXECUTES))
        letter = text.labels(["S", "E"])[(slots[stalls] - STALLS) & 1]
        cause = self.causes[ready.about[stalls]]
        lines.put(stalls, text.joined(letter, "\t", number[stalls], "\t1\t", cause, "\n"))
        for slot, stage in ((EXECUTES, "X"), (WAITS, "M")):
            where = np.flatnonzero(slots == slot)
            lines.put(where, text.joined("S\t", number[where], f"\t0\t{stage}\n"))
        ended = np.flatnonzero(slots == RETIRED)
        order = text.decimal(self.retired + np.arange(ended.size))
        lines.put(ended, text.joined("R\t", number[ended], "\t", order, "\t0\n"))
        self.retired += ended.size
        return lines.written()

    def _steps(self, cycles: np.ndarray, lines: "text.Pieces") -> None:
        """In front of the first line of each cycle, how much later it is."""
        if self.cycle is None:
            start = text.joined("C=\t", text.decimal(cycles[:1] + self.first), "\n")
            lines.put(np.zeros(1, int), start)
            self.cycle = int(cycles[0])
        steps = np.diff(cycles, prepend=self.cycle)
        later = np.flatnonzero(steps)
        lines.put(later, text.joined("C\t", text.decimal(steps[later]), "\n"))
        self.cycle = int(cycles[-1])

    def _fetched(self, some: Items, number: np.ndarray) -> np.ndarray:
        hart = text.decimal(some.about >> 1)
        pcs, rows = np.unique(some.pcs, return_inverse=True)
        what = text.labels([f"{pc:08x}: {self.code.text(pc)}" for pc in pcs.tolist()])[rows]
        where = text.labels([self._where(pc) for pc in pcs.tolist()])[rows]
        decodes = text.joined("S\t", number, "\t0\tD\n")
        return text.joined(
            *("I\t", number, "\t", number, "\t", hart, "\n"),
            *("L\t", number, "\t0\t", what, "\n"),
            *("L\t", number, "\t1\t", where, "\n"),
            np.where(some.about[:, None] & 1, decodes, np.uint8(0)),
        )

    def _where(self, pc: int) -> str:
        return f"{self.code.place(pc)} {self.code.line_name(pc)}".rstrip()


def _keys(some: Items) -> np.ndarray:
    """What items are ordered by, in one number each."""
    if not some.cycles.size:
        return some.cycles
    oldest = int(some.numbers.max()) - (1 << NUMBER_BITS) + 1
    number = np.maximum(some.numbers - oldest, 0)
    key: np.ndarray = (some.cycles - some.cycles.min()) << NUMBER_BITS | number
    return key << SLOT_BITS | some.slots
