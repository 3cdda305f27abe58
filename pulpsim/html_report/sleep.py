"""What cores sleep for: the DMA, slower cores at a barrier, the barrier itself, or work."""

from dataclasses import dataclass

import numpy as np

from pulpsim.html_report.recording import EVENT_CAUSE, Recording
from pulpsim.html_report.stall_groups import PART
from soc.trace.reader import Kind

WAKE_UP = 32
"""Cycles within which a core goes on that waits for a transfer which is done."""


@dataclass(frozen=True)
class Sleep:
    """Cycles that some cores were asleep at the event unit; the four add up to all of them.

    dma          until a transfer was done, and at barriers meanwhile
    imbalance    at a barrier, until the last core came
    barrier      at a barrier that all have reached
    other        for work, mutexes and so on
    hidden       share of the time in which transfers are under way that no core waits for them
    barriers     how often a barrier was passed
    awaited      of the cycles of imbalance, those for each core, by number: it came last
    """

    dma: int
    imbalance: int
    barrier: int
    other: int
    hidden: float
    barriers: int
    awaited: dict[int, int]


def sleep_of(recording: Recording, cores: list[int]) -> Sleep:
    """What some cores slept for."""
    stalls, parts = recording.of(Kind.STALL), recording.stall_parts
    wanted = (stalls["extra"] == EVENT_CAUSE) & np.isin(stalls["hart"], cores)
    at_barrier = parts[wanted] == PART["barrier"]
    start = stalls["cycle"][wanted].astype(np.int64)
    end = start + stalls["b"][wanted]
    for_dma = ~at_barrier & _ends_with_a_transfer(recording, start, end)
    waits = union(start[for_dma], end[for_dma])
    meanwhile = waits.within(start[at_barrier], end[at_barrier])
    dma = int((end - start)[for_dma].sum())
    meetings = _Meetings.of(stalls["hart"][wanted][at_barrier], start[at_barrier], end[at_barrier])
    late = np.minimum(meetings.own, (end - start)[at_barrier] - meanwhile)
    for_others = (end - start)[at_barrier] - meanwhile - late
    last = meetings.last()
    return Sleep(
        dma + int(meanwhile.sum()),
        int(for_others.sum()),
        int(late.sum()),
        int((end - start)[~at_barrier & ~for_dma].sum()),
        _hidden(recording, waits),
        meetings.count,
        {core: int(for_others[last == core].sum()) for core in cores},
    )


def _ends_with_a_transfer(recording: Recording, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Was a transfer done during each sleep, and right before its end?"""
    transfers = recording.transfers
    done = np.sort(transfers.start + transfers.length)
    latest = np.append(done, -1)[np.searchsorted(done, end, "right") - 1]
    return (latest >= start) & (latest >= end - WAKE_UP)


def _hidden(recording: Recording, waits: "Union") -> float:
    spans = recording.transfers
    busy = union(spans.start, spans.start + spans.length)
    waited = int(busy.within(waits.starts, waits.ends).sum())
    return 1 - waited / busy.cycles if busy.cycles else 0.0


@dataclass(frozen=True)
class _Meetings:
    """Sleeps at barriers that end in the same cycle.

    which    number of each sleep's meeting
    own      cycles that each sleep takes though all cores have come: those of its shortest
    """

    which: np.ndarray
    harts: np.ndarray
    own: np.ndarray
    lengths: np.ndarray
    count: int

    @classmethod
    def of(cls, harts: np.ndarray, start: np.ndarray, end: np.ndarray) -> "_Meetings":
        ends, which = np.unique(end, return_inverse=True)
        shortest = np.full(ends.size, np.iinfo(np.int64).max)
        np.minimum.at(shortest, which, end - start)
        return cls(which, harts, shortest[which], end - start, ends.size)

    def last(self) -> np.ndarray:
        """The core that came last to each sleep's meeting: who slept least, if alone; else -1."""
        came = self.lengths == self.own
        alone = np.bincount(self.which[came], minlength=self.count) == 1
        last = np.full(self.count, -1)
        last[self.which[came]] = self.harts[came]
        return np.where(alone, last, -1)[self.which]


@dataclass(frozen=True)
class Union:
    """Times that are covered by some span: starts and ends, in order, without overlaps."""

    starts: np.ndarray
    ends: np.ndarray

    @property
    def cycles(self) -> int:
        return int((self.ends - self.starts).sum())

    def within(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Covered cycles of each of some times."""
        return self._before(end) - self._before(start)

    def _before(self, at: np.ndarray) -> np.ndarray:
        total = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        begun = np.searchsorted(self.starts, at)
        return total[begun] - np.maximum(0, np.concatenate(([0], self.ends))[begun] - at)


def union(start: np.ndarray, end: np.ndarray) -> Union:
    """The times that spans cover together."""
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    fresh = np.append(True, start[1:] > reach[:-1])[: start.size]
    last = np.append(fresh[1:], True)[: start.size]
    return Union(start[fresh], reach[last])
