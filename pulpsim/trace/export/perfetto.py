"""Export for ui.perfetto.dev: functions, regions, stalls, the DMA, and conflicts over time.

A cycle is shown as a nanosecond. Source: perfetto.dev, trace_packet.proto and those it includes.
"""

from typing import BinaryIO

import numpy as np

from pulpsim.trace.aggregates import banks_of
from pulpsim.trace.export.protobuf import Layout, field
from pulpsim.trace.export.spans import FUNCTIONS, REGIONS, STALLS, TRANSFERS, Slices
from pulpsim.trace.selection import Selection
from soc.trace.reader import Kind, Trace

PACKET = 1
TIMESTAMP, SEQUENCE, EVENT, INTERNED, FLAGS, DESCRIPTOR = 8, 10, 11, 12, 13, 60
ANNOTATION, TYPE, NAME_IID, TRACK, COUNTER_VALUE = 4, 9, 10, 11, 30
BEGIN, END, COUNTER = 1, 2, 4  # of TYPE
CLEARED, NEEDED = 1, 2  # of FLAGS
UUID, NAME, PROCESS, THREAD, PARENT, COUNTER_TRACK = 1, 2, 3, 4, 5, 8  # of DESCRIPTOR
PC = 1  # number of the annotation's name
WINDOWS = 4096
"""Points of a counter, at most."""

HARTS, L1, DMA = 1, 2, 3
"""Processes, as Perfetto groups tracks: their numbers and their tracks' uuids."""
FIRST_UUID, FIRST_COUNTER, FIRST_TRACK = 1 << 8, 1 << 12, 1 << 16
"""Of the harts' tracks, the counters, and all others."""

ON_SEQUENCE = field(SEQUENCE, 1) + field(FLAGS, NEEDED)


def _layout(kind: int, more: Layout) -> Layout:
    event = Layout().constant(field(TYPE, kind)).number(TRACK, "track", 4).then(more)
    packet = Layout().number(TIMESTAMP, "cycle", 7).constant(ON_SEQUENCE).nested(EVENT, event)
    return Layout().nested(PACKET, packet)


PC_VALUE = Layout().constant(field(1, PC)).number(7, "pc", 5)  # name_iid, pointer_value
BEGIN_PACKET = _layout(BEGIN, Layout().number(NAME_IID, "name", 3).nested(ANNOTATION, PC_VALUE))
END_PACKET = _layout(END, Layout())
COUNTER_PACKET = _layout(COUNTER, Layout().number(COUNTER_VALUE, "value", 5))


def perfetto(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the selected events as a Trace message."""
    export = _Export(trace, stream)
    for part in selection.parts(trace):
        export.add(part)
    export.finish()


class _Export:
    """A trace as it is written: what has been described so far, and counts for the counters."""

    def __init__(self, trace: Trace, stream: BinaryIO) -> None:
        self.trace, self.stream = trace, stream
        self.slices = Slices(trace)
        self.uuids = np.zeros(0, np.int64)  # of the tracks that have been described
        self.names = 0  # that have been
        self.described = 0  # tracks besides the harts' own
        length = max(trace.cycles - trace.first_cycle, 1)
        self.window = 1 << ((length - 1) // WINDOWS).bit_length()
        shape = length // self.window + 1, trace.banks
        self.accesses, self.conflicts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        annotation = field(3, field(1, PC) + field(2, "pc"))
        self._packet(
            field(FLAGS, CLEARED | NEEDED) + field(SEQUENCE, 1) + field(INTERNED, annotation)
        )
        for process, name in ((HARTS, "harts"), (L1, "L1"), (DMA, "DMA")):
            self._describe(process, field(PROCESS, field(1, process) + field(6, name)))
        for hart, name in enumerate(trace.harts):
            thread = field(1, HARTS) + field(2, FIRST_UUID + hart) + field(5, name)
            self._describe(FIRST_UUID + hart, field(THREAD, thread))

    def add(self, part: np.ndarray) -> None:
        """Write the slices of EVENT[n], and count accesses and conflicts."""
        self._count(part)
        self._write(self.slices.edges(part))

    def finish(self) -> None:
        """Write the ends of what is open, and the counters."""
        self._write(self.slices.close())
        names = [f"bank {bank} conflicts" for bank in range(self.trace.banks)]
        columns = [*self.conflicts.T, self.conflicts.sum(axis=1), self.accesses.sum(axis=1)]
        for number, counts in enumerate(columns):
            name = [*names, "all conflicts", "all accesses"][number]
            if counts.any():
                self._counter(FIRST_COUNTER + number, name, counts)

    def _packet(self, data: bytes) -> None:
        self.stream.write(field(PACKET, data))

    def _describe(self, uuid: int, data: bytes) -> None:
        self._packet(field(DESCRIPTOR, field(UUID, uuid) + data))

    def _count(self, part: np.ndarray) -> None:
        banks = banks_of(self.trace, part)
        places = part["cycle"].astype(np.int64) // self.window * self.trace.banks + banks
        has_lost = part["kind"] == Kind.CONFLICT
        for counts, rows in (
            (self.conflicts, has_lost),
            (self.accesses, (banks >= 0) & ~has_lost),
        ):
            found = np.bincount(places[rows & (places < counts.size)], minlength=counts.size)
            counts += found.reshape(counts.shape)

    def _write(self, edges: np.ndarray) -> None:
        self._describe_what_is_new()
        is_end = ~edges["is_begin"]
        values = {name: edges[name] for name in ("cycle", "pc")}
        values |= {"track": self.uuids[edges["track"]], "name": edges["name"] + 1}
        rows = BEGIN_PACKET.messages(values)
        ends = {name: column[is_end] for name, column in values.items()}
        rows[is_end, : END_PACKET.size] = END_PACKET.messages(ends)
        lengths = np.where(is_end, END_PACKET.size, BEGIN_PACKET.size)
        self.stream.write(rows[np.arange(BEGIN_PACKET.size) < lengths[:, None]].tobytes())

    def _describe_what_is_new(self) -> None:
        names = self.slices.names[self.names :]
        if names:
            entries = (
                field(1, self.names + k + 1) + field(2, name) for k, name in enumerate(names)
            )
            interned = b"".join(field(2, entry) for entry in entries)
            self._packet(field(FLAGS, NEEDED) + field(SEQUENCE, 1) + field(INTERNED, interned))
            self.names += len(names)
        fresh = [self._track(*track) for track in self.slices.tracks[self.uuids.size :]]
        self.uuids = np.concatenate([self.uuids, np.array(fresh, np.int64)])

    def _track(self, kind: int, owner: int) -> int:
        """Describe a track and return its uuid; functions are on the hart's own."""
        if kind == FUNCTIONS:
            return FIRST_UUID + owner
        self.described += 1
        uuid = FIRST_TRACK + self.described
        of_hart = kind in (STALLS, REGIONS)
        name = {STALLS: "stalls", REGIONS: "regions", TRANSFERS: "transfers"}.get(kind)
        parent = FIRST_UUID + owner if of_hart else DMA
        label = name or self.trace.initiators[owner]
        self._describe(uuid, field(NAME, label) + field(PARENT, parent))
        return uuid

    def _counter(self, uuid: int, name: str, counts: np.ndarray) -> None:
        """A counter's values, where they change."""
        unit = field(6, f"in {self.window} cycles")
        about = field(NAME, name) + field(PARENT, L1) + field(COUNTER_TRACK, unit)
        self._describe(uuid, about)
        changes = np.flatnonzero(np.diff(counts, prepend=-1))
        values = {
            "cycle": changes * self.window + self.trace.first_cycle,
            "track": np.full(changes.size, uuid),
            "value": counts[changes],
        }
        self.stream.write(COUNTER_PACKET.messages(values).tobytes())
