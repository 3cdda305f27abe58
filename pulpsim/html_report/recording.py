"""A trace's events by kind, as the sums that pictures are made of. Cycles count from its first."""

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pulpsim.html_report.bins import Bins
from pulpsim.html_report.stall_groups import PART, PART_OF, PARTS
from pulpsim.trace.aggregates import bank_sums, blocking, instruction_sums, parts, stall_sums
from pulpsim.trace.code import Code
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, Kind, Trace, taken

EVENT_CAUSE = CAUSES.index("event")


class Recording:
    """The events of a trace.

    bins    of the run's cycles

    raises    TraceError if an event names what the chip does not have
    """

    def __init__(self, trace: Trace):
        self.trace = trace
        self.cycles = max(1, trace.cycles - trace.first_cycle)
        self.bins = Bins.of(trace.first_cycle, self.cycles)
        found: dict[Kind, list[np.ndarray]] = {kind: [np.zeros(0, EVENT)] for kind in Kind}
        for part in parts(trace):
            for kind in Kind:
                found[kind].append(taken(part, part["kind"] == kind))
        self._of_kind = {kind: np.concatenate(pieces) for kind, pieces in found.items()}

    def binned(self, most: int) -> "Recording":
        """The same events in other bins, of which there are at most so many."""
        other = copy(self)
        for name in ("activity", "heat", "beats"):  # which are by bin
            vars(other).pop(name, None)
        other.bins = Bins.of(self.trace.first_cycle, self.cycles, most)
        return other

    @property
    def is_whole(self) -> bool:
        """Does the trace tell everything that happened in its cycles?"""
        return not self.trace.gap and not self.trace.header.get("filters")

    def of(self, kind: Kind) -> np.ndarray:
        """The events of a kind, EVENT[n] by cycle."""
        return self._of_kind[kind]

    @cached_property
    def stall_parts(self) -> np.ndarray:
        """The part of a hart's cycles that each stall belongs to; sleep at barriers apart."""
        stalls, sleeps = self.of(Kind.STALL), self.of(Kind.SLEEP)
        of_causes = np.array(PART_OF)[stalls["extra"]]
        at_barrier = sleeps[sleeps["extra"] == 1]
        of_barriers = np.isin(_moments(stalls), _moments(at_barrier))
        of_causes[of_barriers & (stalls["extra"] == EVENT_CAUSE)] = PART["barrier"]
        return of_causes

    @cached_property
    def activity(self) -> np.ndarray:
        """Cycles by hart, part and bin, int64[harts, PARTS, bins]."""
        harts, issues, stalls = len(self.trace.harts), self.of(Kind.ISSUE), self.of(Kind.STALL)
        rows = stalls["hart"].astype(np.int64) * len(PARTS) + self.stall_parts
        cycles = self.bins.spans(stalls["cycle"], stalls["b"], rows, harts * len(PARTS))
        cycles = cycles.reshape(harts, len(PARTS), self.bins.count)
        cycles[:, PART["work"]] += self.bins.points(issues["cycle"], issues["hart"], harts)
        return cycles

    @cached_property
    def stalls(self) -> np.ndarray:
        """Stall cycles by hart and cause, int64[harts, CAUSES]."""
        return stall_sums(self.trace, [self.of(Kind.STALL)])

    @cached_property
    def heat(self) -> np.ndarray:
        """Lost arbitrations by bank and bin, int64[banks, bins]."""
        lost = self.of(Kind.CONFLICT)
        return self.bins.points(lost["cycle"], lost["extra"] & 0xFF, self.trace.banks)

    @cached_property
    def matrix(self) -> np.ndarray:
        """Lost arbitrations by who lost and who won, int64[initiators, initiators]."""
        return blocking(self.trace, [self.of(Kind.CONFLICT)])

    @cached_property
    def banks(self) -> np.ndarray:
        """Accesses and lost arbitrations of each bank of L1, those of the DMA too, BANK[banks]."""
        kinds = Kind.MEMORY, Kind.DMA, Kind.CONFLICT
        return bank_sums(self.trace, [self.of(kind) for kind in kinds])

    @cached_property
    def sites(self) -> np.ndarray:
        """What each instruction took, on all harts: SUM[n] by pc."""
        kinds = Kind.ISSUE, Kind.STALL, Kind.MEMORY, Kind.CONFLICT
        return instruction_sums(self.trace, [self.of(kind) for kind in kinds])

    @cached_property
    def code(self) -> Code:
        """What is at the addresses of instructions."""
        return Code(self.trace)

    @cached_property
    def beats(self) -> np.ndarray:
        """Beats of the DMA out of L1, and into it, by bin, int64[2, bins]."""
        dma = self.of(Kind.DMA)
        return self.bins.points(dma["cycle"], dma["extra"] & 1, 2)

    @cached_property
    def transfers(self) -> "Spans":
        """Transfers of the DMA, each from its first command until all of its commands are done."""
        events = self.of(Kind.TRANSFER)
        starts = events["extra"] == 0
        events = events[~(starts & _follows_a_start(events["a"], starts))]
        return _pairs(events, events["a"], events["extra"] == 0, self.cycles)

    @cached_property
    def regions(self) -> "Spans":
        """Regions, each from its begin to its end; `number` is the region."""
        events = self.of(Kind.REGION)
        key = events["hart"].astype(np.int64) << 16 | events["extra"]
        spans = _pairs(events, key, events["a"] == 1)
        spans.number[:] &= 0xFFFF
        return spans


@dataclass(frozen=True)
class Spans:
    """Times in which something went on, int64[n] each.

    hart      who did it, or asked for it
    number    what it is
    """

    hart: np.ndarray
    number: np.ndarray
    start: np.ndarray
    length: np.ndarray

    @property
    def size(self) -> int:
        return self.start.size

    def chosen(self, which: np.ndarray) -> "Spans":
        """Those of a mask, or in an order."""
        return Spans(self.hart[which], self.number[which], self.start[which], self.length[which])


def _follows_a_start(keys: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Does the event before it with an equal key start something?"""
    order = np.argsort(keys, kind="stable")
    key, starting = keys[order], starts[order]
    found = np.zeros(keys.size, bool)
    found[order[1:]] = (key[1:] == key[:-1]) & starting[:-1]
    return found


def _pairs(
    events: np.ndarray, keys: np.ndarray, begins: np.ndarray, close_at: int | None = None
) -> Spans:
    """Spans of events with equal keys: from one that begins to the next, if that ends.

    close_at    where one that never ends stops; None: it does not count
    """
    order = np.argsort(keys, kind="stable")
    key, opens = keys[order].astype(np.int64), begins[order]
    cycle = events["cycle"][order].astype(np.int64)
    last = np.append(key[1:] != key[:-1], True)[: key.size]
    closes = np.append(~opens[1:], False)[: key.size] & ~last
    ends = np.append(cycle[1:], 0)[: key.size]
    is_open = opens & closes
    if close_at is not None:
        ends = np.where(opens & last, close_at, ends)
        is_open |= opens & last
    is_open &= ends > cycle
    hart = events["hart"][order].astype(np.int64)
    return Spans(hart[is_open], key[is_open], cycle[is_open], (ends - cycle)[is_open])


def _moments(events: np.ndarray) -> np.ndarray:
    """A number for each event's hart and cycle."""
    return events["hart"].astype(np.int64) << 32 | events["cycle"]
