"""A recording as text: a line for each event, by cycle, with what the instruction is and where.

8 core0    1c008008 lw x6, 0(x8)                           main+0x8, main.c:4
9 core0    1c008008   1 cycle l1_contention                main+0x8
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from pulpsim.cli.terminal import WIDTH, one_line
from pulpsim.trace.aggregates import banks_of
from pulpsim.trace.code import Code
from soc.prelude.counters import CAUSES
from soc.trace.reader import OUTSIDE_L1, SECOND_HALF, SIZE_SHIFT, STORE, Kind, Trace, pcs_of

CYCLE, WHO, WHAT = 10, 9, 39
"""Columns of the first fields, and of the instruction or what happened to it."""
WHERE = WIDTH - CYCLE - WHO - 8 - WHAT - 3
AT_ONCE = 512
"""Events that are turned into text together, so that the first lines come at once."""


def lines(trace: Trace, parts: Iterable[np.ndarray]) -> Iterator[str]:
    """The lines of the events, WIDTH columns at most, without line ends."""
    log = _Log(trace)
    for part in parts:
        for first in range(0, part.size, AT_ONCE):
            yield from log.lines(part[first : first + AT_ONCE])


class _Log:
    """Turns events into lines; a source line is shown where it changes on a hart."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.code = Code(trace)
        self.harts = [one_line(name) for name in trace.harts]
        self.initiators = [one_line(name) for name in trace.initiators]
        self.regions = {number: one_line(name) for number, name in trace.regions.items()}
        self.source: dict[int, str] = {}
        self.tell: dict[int, Callable[[int, int, int, int], str]] = {
            Kind.ISSUE: lambda extra, a, b, bank: one_line(self.code.text(a)),
            Kind.STALL: lambda extra, a, b, bank: f"  {_cycles(b)} {CAUSES[extra]}",
            Kind.MEMORY: _memory,
            Kind.CONFLICT: self._conflict,
            Kind.DMA: lambda extra, a, b, bank: f"  {_way(extra)} {a:#010x}, bank {bank}",
            Kind.TRANSFER: _transfer,
            Kind.SLEEP: lambda extra, a, b, bank: f"  sleeps {_cycles(b)}{' at a barrier' * extra}",
            Kind.REGION: self._region,
        }

    def lines(self, part: np.ndarray) -> Iterator[str]:
        """The line of each event."""
        banks = banks_of(self.trace, part).tolist()
        pcs = pcs_of(part).tolist()
        first = self.trace.first_cycle
        for event, bank, pc in zip(part.tolist(), banks, pcs, strict=True):
            cycle, kind, owner, extra, a, b = event
            names = self.initiators if kind in (Kind.CONFLICT, Kind.DMA) else self.harts
            who = names[owner] if owner < len(names) else str(owner)
            what = _cut(self.tell[kind](extra, a, b, bank), WHAT)
            address = f"{pc:08x}" if pc else ""
            where = self._where(kind, owner, pc)
            line = f"{first + cycle:>{CYCLE}} {who:<{WHO}.{WHO}}{address:8} {what:<{WHAT}} {where}"
            yield line.rstrip()

    def _where(self, kind: int, owner: int, pc: int) -> str:
        if not pc:
            return ""
        place = one_line(self.code.place(pc))
        source = one_line(self.code.line_name(pc)).rpartition("/")[2]
        if kind != Kind.ISSUE or not source or self.source.get(owner) == source:
            return _cut_place(place, WHERE)
        self.source[owner] = source
        source = _cut(source, WHERE // 2 + 2)
        return f"{_cut_place(place, WHERE - len(source) - 2)}, {source}"

    def _conflict(self, extra: int, a: int, b: int, bank: int) -> str:
        winner = self.initiators[extra >> 8]
        return f"  loses bank {bank} to {winner}, {b:#010x}"

    def _region(self, extra: int, a: int, b: int, bank: int) -> str:
        name = self.regions.get(extra, f"region {extra}")
        return f"  region {name} {'begins' if a else 'ends'}"


def _memory(extra: int, a: int, b: int, bank: int) -> str:
    what = "store" if extra & STORE else "load"
    where = "outside L1" if extra & OUTSIDE_L1 else f"bank {bank}"
    half = ", 2nd half" if extra & SECOND_HALF else ""
    return f"  {what} {1 << (extra >> SIZE_SHIFT & 3)} B {a:#010x}, {where}{half}"


def _transfer(extra: int, a: int, b: int, bank: int) -> str:
    return f"  transfer {a} {'is done' if extra & 1 else 'starts'}" + (f", {b} bytes" if b else "")


def _way(extra: int) -> str:
    return "writes L1" if extra & STORE else "reads L1"


def _cycles(number: int) -> str:
    return "1 cycle" if number == 1 else f"{number:,} cycles"


def _cut_place(place: str, width: int) -> str:
    """A place of at most so many columns; its distance from the function stays."""
    name, plus, distance = place.rpartition("+")
    if len(place) <= width or not plus:
        return _cut(place, width)
    return _cut(name, max(width - len(distance) - 1, 1)) + plus + distance


def _cut(text: str, width: int) -> str:
    """At most so many columns; an ellipsis stands for the rest."""
    return text if len(text) <= width else text[: width - 1] + "…"
