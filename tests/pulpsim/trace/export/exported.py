"""Exports of a recording, and what they have to say."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from pulpsim.trace.export import formats
from pulpsim.trace.selection import Selection
from soc.prelude.counters import CAUSES, COUNT
from soc.trace.reader import Trace
from tests.pulpsim.trace.conftest import Recorded


def exported(trace: Trace, name: str, folder: Path, **filters: list[str]) -> Path:
    """A trace, or what of it passes the filters, in another format."""
    file = folder / f"out{formats.FORMATS[name].suffix}"
    formats.export(trace, name, Selection.of(trace, **filters), file)
    return file


def stall_cycles(recorded: Recorded) -> dict[tuple[str, str], int]:
    """What the run's counters say, by hart and cause."""
    counts = recorded.result.chip.harts["counts"][:, COUNT.load_use :]
    return {(recorded.trace.harts[h], CAUSES[c]): int(counts[h, c]) for h, c in np.argwhere(counts)}


class Slices:
    """What a Perfetto trace says: slices with their tracks' names, and counters."""

    def __init__(self, file: Path) -> None:
        trace = perfetto_trace_pb2.Trace()
        trace.ParseFromString(file.read_bytes())
        self.tracks: dict[int, str] = {}
        self.slices: list[tuple[str, str, int, int]] = []  # track, name, begin, end
        self.points: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.names: dict[int, str] = {}
        stacks: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for packet in trace.packet:
            self._learn(packet)
            if not packet.HasField("track_event"):
                continue
            event, track = packet.track_event, self.tracks[packet.track_event.track_uuid]
            if event.type == event.TYPE_COUNTER:
                self.points[track].append((packet.timestamp, event.counter_value))
            elif event.type == event.TYPE_SLICE_BEGIN:
                stacks[event.track_uuid].append((self.names[event.name_iid], packet.timestamp))
            else:
                name, begin = stacks[event.track_uuid].pop()
                self.slices.append((track, name, begin, packet.timestamp))
        assert not any(stacks.values())

    def _learn(self, packet: Any) -> None:
        self.names |= {name.iid: name.name for name in packet.interned_data.event_names}
        about = packet.track_descriptor
        own = about.thread.thread_name or about.process.process_name or about.name
        parent = self.tracks.get(about.parent_uuid)
        if about.uuid:
            self.tracks[about.uuid] = f"{parent}/{own}" if parent else own
