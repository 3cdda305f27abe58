"""Sums over any span of a recording, by tables made once."""

from typing import NamedTuple

import numpy as np

from pulpsim.trace.aggregates import parts
from pulpsim.tui.source import Bins
from soc.prelude.counters import CAUSES
from soc.trace.reader import Kind, Trace, taken

IS_SHARED = np.isin(np.arange(256), [Kind.CONFLICT, Kind.DMA])
"""Kinds that are shown of all initiators together."""
IS_SHOWN = IS_SHARED | np.isin(np.arange(256), [Kind.ISSUE, Kind.STALL, Kind.SLEEP, Kind.REGION])
"""Those and the kinds that are shown hart by hart."""


class Group(NamedTuple):
    """Events of a kind by cycle: a column for each field, cycles as those of the run."""

    cycles: np.ndarray
    extra: np.ndarray
    a: np.ndarray
    b: np.ndarray


NOTHING = Group(*np.zeros((4, 0), np.int64))


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
    regions    of each hart and region: cycles in which it begins, and those in which it ends
    raises     TraceError if the trace is damaged
    """

    def __init__(self, trace: Trace):
        self.trace = trace
        harts = range(len(trace.harts))
        self._groups = _grouped(trace)
        issues = [self._of(Kind.ISSUE, h) for h in harts]
        self.issues = [(group.cycles, group.a) for group in issues]
        self.stalls: dict[tuple[int, int], Spans] = {}
        for h in harts:
            stalls = self._of(Kind.STALL, h)
            for cause in np.flatnonzero(np.bincount(stalls.extra)).tolist():
                self.stalls[h, cause] = _spans(stalls, stalls.extra == cause)
        sleeps = [self._of(Kind.SLEEP, h) for h in harts]
        self.asleep = [_spans(sleep, slice(None)) for sleep in sleeps]
        self.barriers = [_spans(sleep, sleep.extra == 1) for sleep in sleeps]
        self.regions: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        for h in harts:
            marks = self._of(Kind.REGION, h)
            for number in np.unique(marks.extra).tolist():
                own, begins = marks.extra == number, marks.a == 1
                self.regions[h, number] = marks.cycles[own & begins], marks.cycles[own & ~begins]
        self._known: tuple[bytes, Bins] | None = None

    def _of(self, kind: Kind, hart: int = 0) -> "Group":
        """What a hart did of a kind; the those that IS_SHARED are not apart by hart."""
        return self._groups.get(kind | hart << 8, NOTHING)

    def issued_before(self, hart: int, cycle: int) -> int:
        """Instructions that a hart has issued before a cycle."""
        return int(np.searchsorted(self.issues[hart][0], cycle))

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
        events = self._of(kind)
        places = np.searchsorted(events.cycles, edges)
        spans = np.repeat(np.arange(len(edges) - 1), np.diff(places))
        row = (events.extra[places[0] : places[-1]] & mask).astype(np.int64)
        counted = np.bincount(row * (len(edges) - 1) + spans, minlength=rows * (len(edges) - 1))
        return counted.reshape(rows, -1)


def _spans(events: Group, these: np.ndarray | slice) -> Spans:
    return Spans(events.cycles[these], events.b[these].astype(np.int64))


def _grouped(trace: Trace) -> dict[int, Group]:
    """The events of the wanted kinds, by kind and hart: kind | hart << 8."""
    found: dict[int, list[Group]] = {}
    for part in parts(trace):
        wanted = taken(part, IS_SHOWN[part["kind"]])
        keys = wanted["kind"] | wanted["hart"].astype(np.uint16) << 8
        keys[IS_SHARED[wanted["kind"]]] &= 0xFF
        order = np.argsort(keys, kind="stable")
        wanted, keys = taken(wanted, order), keys[order]
        starts = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], keys.size], strict=True):
            if start < end:
                group = _group(wanted[start:end], trace.first_cycle)
                found.setdefault(int(keys[start]), []).append(group)
    return {key: _joined(found.pop(key)) for key in list(found)}


def _joined(groups: list[Group]) -> Group:
    return Group(*(np.concatenate(columns) for columns in zip(*groups, strict=True)))


def _group(events: np.ndarray, first_cycle: int) -> Group:
    cycles = events["cycle"].astype(np.int64) + first_cycle
    return Group(cycles, *(events[name].copy() for name in ("extra", "a", "b")))
