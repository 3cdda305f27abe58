"""Hits that stop a run: instructions about to issue, accesses to watched bytes.

Hits of a run have an order: by cycle, in a cycle accesses before those of the DMA and these before
issues, of these by hart. So there is a next one and one before, whoever asks from where.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from soc.core.sync_points import COPIED, COPIED_BYTES
from soc.debug.lookahead import NOTHING, Wanted, Window
from soc.prelude.trace_event import ALL_ADDRESSES, SECOND_HALF, SIZE_SHIFT, STORE, Kind

WORD = 4

BLOCK = 1 << 12
"""Events that are looked at together."""


class Phase(IntEnum):
    """What happens first in a cycle: grants of accesses, the DMA's, then issues of instructions."""

    ACCESS = 0
    COPY = 1
    ISSUE = 2
    OVER = 3


class Position(NamedTuple):
    """A place in the order of what happens.

    hart       who does it, or has asked the DMA to
    address    of the word that the DMA accesses: it may access several in a cycle
    """

    cycle: int
    phase: Phase = Phase.ACCESS
    hart: int = -1
    address: int = -1


@dataclass(frozen=True)
class Watchpoint:
    """Bytes of memory.

    kind    accesses that stop a run: "write", "read" or "access"
    """

    address: int
    size: int
    kind: str = "write"


class Hit(NamedTuple):
    """A reason to stop.

    address       of the instruction, or the first watched byte that is accessed
    watchpoint    None of an instruction
    is_store      of an access
    """

    position: Position
    address: int
    watchpoint: Watchpoint | None = None
    is_store: bool = False


class Stops(NamedTuple):
    """Where a run is to stop."""

    breakpoints: Collection[int]
    watchpoints: Collection[Watchpoint] = ()

    @property
    def wanted(self) -> Wanted:
        """The narrowest ranges that have all of these.

        An access may begin before what it touches.
        """
        pcs = addresses = NOTHING
        if self.breakpoints:
            pcs = min(self.breakpoints), max(self.breakpoints) + 1
        if self.watchpoints:
            first = min(watch.address for watch in self.watchpoints)
            end = max(watch.address + watch.size for watch in self.watchpoints)
            addresses = max(0, first - 2 * WORD), min(end, ALL_ADDRESSES)
        return Wanted(pcs, addresses)

    def hits(self, events: np.ndarray) -> list[Hit]:
        """Those among SEEN[n], in their order."""
        found = [*self._issues(events), *self._accesses(events), *self._copies(events)]
        return sorted(found, key=lambda hit: hit.position)

    def first(
        self, window: Window, after: Position, harts: Collection[int] | None = None
    ) -> Hit | None:
        """The first hit of a window after a position, of some harts or all."""
        events = window.events
        for start in range(int(np.searchsorted(events["cycle"], after.cycle)), events.size, BLOCK):
            for hit in self.hits(events[start : start + BLOCK]):
                if hit.position > after and (harts is None or hit.position.hart in harts):
                    return hit
        return None

    def last(self, window: Window, before: Position) -> Hit | None:
        """The last hit of a window before a position."""
        events = window.events
        end = int(np.searchsorted(events["cycle"], before.cycle, "right"))
        for stop in range(end, 0, -BLOCK):
            for hit in reversed(self.hits(events[max(0, stop - BLOCK) : stop])):
                if hit.position < before:
                    return hit
        return None

    def _issues(self, events: np.ndarray) -> Iterator[Hit]:
        events = events[events["kind"] == Kind.ISSUE]
        events = events[np.isin(events["a"], list(self.breakpoints))]
        columns = (events[name].tolist() for name in ("cycle", "hart", "a"))
        for cycle, hart, pc in zip(*columns, strict=True):
            yield Hit(Position(cycle, Phase.ISSUE, hart), pc)

    def _accesses(self, events: np.ndarray) -> Iterator[Hit]:
        if not self.watchpoints:
            return
        events = events[events["kind"] == Kind.MEMORY]
        columns = (events[name].tolist() for name in ("cycle", "hart", "a", "extra"))
        first_halves: dict[int, int] = {}
        for cycle, hart, address, extra in zip(*columns, strict=True):
            size = 1 << (extra >> SIZE_SHIFT & 3)
            rest = WORD - address % WORD
            if extra & SECOND_HALF:
                size -= first_halves.pop(hart, 1)
            elif size > rest:
                first_halves[hart] = size = rest
            is_store = bool(extra & STORE)
            hit = self._watched(address, size, is_store)
            if hit:
                yield Hit(Position(cycle, Phase.ACCESS, hart), *hit, is_store)

    def _copies(self, events: np.ndarray) -> Iterator[Hit]:
        """Words that the DMA accesses; of one that it writes in part, those bytes."""
        if not self.watchpoints:
            return
        events = events[events["kind"] == COPIED]
        columns = (events[name].tolist() for name in ("cycle", "hart", "a", "extra"))
        for cycle, hart, address, extra in zip(*columns, strict=True):
            is_store = bool(extra & STORE)
            for byte in range(WORD):
                is_there = extra >> COPIED_BYTES + byte & 1
                hit = self._watched(address + byte, 1, is_store) if is_there else None
                if hit:
                    yield Hit(Position(cycle, Phase.COPY, hart, address), *hit, is_store)
                    break

    def _watched(self, address: int, size: int, is_store: bool) -> tuple[int, Watchpoint] | None:
        """The first watched byte of an access, and by which watchpoint."""
        for watch in self.watchpoints:
            first = max(address, watch.address)
            if first < min(address + size, watch.address + watch.size):
                if watch.kind == "access" or (watch.kind == "write") == is_store:
                    return first, watch
        return None
