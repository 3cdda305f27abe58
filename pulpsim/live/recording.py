"""What a recording tells of any cycle: sums over spans of time, in tables made once."""

import numpy as np

from pulpsim.live.source import Bins
from soc.state import CAUSES
from soc.trace import Kind, Trace


class Spans:
    """Spans of cycles that do not overlap, such as a hart's stalls by one cause."""

    def __init__(self, starts: np.ndarray, lengths: np.ndarray):
        self.starts, self.ends = starts, starts + lengths
        self._start_sums = np.concatenate([[0], np.cumsum(self.starts)])
        self._end_sums = np.concatenate([[0], np.cumsum(self.ends)])

    def before(self, cycles: np.ndarray) -> np.ndarray:
        """The cycles of all spans that lie before each of these cycles."""
        begun = np.searchsorted(self.starts, cycles)
        done = np.searchsorted(self.ends, cycles)
        passed = begun * cycles - self._start_sums[begun]
        after: np.ndarray = passed - (done * cycles - self._end_sums[done])
        return after

    def at(self, cycles: np.ndarray) -> np.ndarray:
        """The spans that the cycle before each of these lies in: 0 or 1."""
        inside: np.ndarray = np.searchsorted(self.starts, cycles) - np.searchsorted(
            self.ends, cycles
        )
        return inside


class Recording:
    """The events of a trace by kind and hart; cycles are those of the run.

    issues     of each hart: cycles and pcs
    stalls     of each hart and cause
    barriers   sleep of each hart at barriers
    asleep     of each hart at the event unit, whatever for
    """

    def __init__(self, trace: Trace):
        self.trace = trace
        harts = range(len(trace.harts))
        every = np.asarray(trace.events)
        order, starts = _grouped(every["kind"], 256)
        self._events = {k: every[order[starts[k] : starts[k + 1]]] for k in Kind}
        self._cycles = {kind: self._cycles_of(events) for kind, events in self._events.items()}
        issues, cycles = self.events(Kind.ISSUE)
        order, starts = _grouped(issues["hart"], 256)
        rows = [order[starts[h] : starts[h + 1]] for h in harts]
        self.issues = [(cycles[row], issues["a"][row]) for row in rows]
        stalls, _ = self.events(Kind.STALL)
        order, starts = _grouped(
            stalls["hart"].astype(np.int64) << 8 | stalls["extra"] & 0xFF, 1 << 16
        )
        self.stalls = {
            (h, cause): self._spans(Kind.STALL, order[starts[key] : starts[key + 1]])
            for h in harts
            for cause in range(len(CAUSES))
            if starts[(key := h << 8 | cause) + 1] > starts[key]
        }
        sleeps, _ = self.events(Kind.SLEEP)
        own = [sleeps["hart"] == h for h in harts]
        self.asleep = [self._spans(Kind.SLEEP, where) for where in own]
        self.barriers = [self._spans(Kind.SLEEP, where & (sleeps["extra"] == 1)) for where in own]
        self._known: tuple[bytes, Bins] | None = None

    def _cycles_of(self, events: np.ndarray) -> np.ndarray:
        return events["cycle"].astype(np.int64) + self.trace.first_cycle

    def _spans(self, kind: Kind, where: np.ndarray) -> Spans:
        return Spans(self._cycles[kind][where], self._events[kind]["b"][where].astype(np.int64))

    def issued_before(self, hart: int, cycle: int) -> int:
        """Instructions that a hart has issued before a cycle."""
        return int(np.searchsorted(self.issues[hart][0], cycle))

    def events(self, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
        """The events of a kind, and the cycle of each."""
        return self._events[kind], self._cycles[kind]

    def bins(self, edges: np.ndarray) -> Bins:
        """What happened between these cycles."""
        if self._known is None or self._known[0] != edges.tobytes():
            self._known = edges.tobytes(), self._bins(edges)
        return self._known[1]

    def _bins(self, edges: np.ndarray) -> Bins:
        harts, spans = len(self.trace.harts), len(edges) - 1
        stalls = np.zeros((harts, len(CAUSES), spans), np.int64)
        for (hart, cause), found in self.stalls.items():
            stalls[hart, cause] = np.diff(found.before(edges))
        issued = [np.diff(np.searchsorted(cycles, edges)) for cycles, _ in self.issues]
        waiting = [spans_.at(edges[1:]) for spans_ in self.barriers]
        conflicts = self._counted(Kind.CONFLICT, edges, self.trace.banks, 0xFF)
        to_l2, to_l1 = self._counted(Kind.DMA, edges, 2, 1)
        return Bins(
            edges,
            np.stack(issued),
            stalls,
            conflicts,
            np.stack([to_l1, to_l2]),
            np.sum(waiting, axis=0),
        )

    def _counted(self, kind: Kind, edges: np.ndarray, rows: int, mask: int) -> np.ndarray:
        """[rows, n]: events of a kind by the low bits of their `extra`."""
        events, cycles = self.events(kind)
        places = np.searchsorted(cycles, edges)
        spans = np.repeat(np.arange(len(edges) - 1), np.diff(places))
        row = (events["extra"][places[0] : places[-1]] & mask).astype(np.int64)
        counted = np.bincount(row * (len(edges) - 1) + spans, minlength=rows * (len(edges) - 1))
        return counted.reshape(rows, -1)


def _grouped(keys: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of each key, one key behind the other, and where those of key k begin."""
    order = np.argsort(keys, kind="stable")
    sizes = np.bincount(keys, minlength=count)
    return order, np.concatenate([[0], np.cumsum(sizes)])
