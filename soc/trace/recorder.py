"""Records a run: takes what trace points have noted, sorts it by cycle, writes it into a file.

Harts run ahead of each other: what they note is written when none can note anything earlier, see
soc.trace.open_waits for those that wait. Ctrl-C may come at any time: what it interrupts is
repeated.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isa.program import Program
from soc.aot.units import sort_events
from soc.chip.profile import lookahead
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.config.toml import ConfigError
from soc.prelude.counters import COUNT
from soc.prelude.trace_event import ALL_ADDRESSES, CORRECTION, EVENT, UNASKED, Kind
from soc.prelude.trace_points import FIRST_CAUSE
from soc.trace.filter import Sieve, trace_filter
from soc.trace.open_waits import (
    PATIENCE,
    Waits,
    ended,
    horizon,
    is_at_barrier,
    long_waits,
    pc_of,
    written_waits,
)
from soc.trace.reader import OPAQUE, first_at, taken
from soc.trace.sort import TOO_FAR, in_order
from soc.trace.writer import TraceWriter, hart_names, initiator_names, new_header

BUFFER = 1 << 17
"""Events, more or less, that are written at once: 2 MB. Fewer are written more often."""
PER_CYCLE = 4
"""Events that a hart, or a lane of the DMA, notes in one cycle at the most."""
MOST_CYCLES = (1 << 32) - 1
"""Of a trace: what an event's cycle can count."""
TAIL = 1 << 18
"""Events among which the last stall of a hart is looked for at the end of a run."""


@dataclass(frozen=True)
class Recording:
    """What is to be recorded, and where.

    limit      of events: after it the run goes on without
    filters    see soc.trace.filter
    about      fields for the header
    """

    file: Path
    limit: int | None = None
    filters: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


class _Progress(NamedTuple):
    """How far the recording is. Replaced as a whole: an interrupt leaves one or the other.

    written       events in the file
    carried       events that were sorted, but not written yet
    is_pending    the buffer is not what is carried yet
    horizon       nothing is noted any more before this cycle
    """

    written: int
    carried: np.ndarray
    is_pending: bool
    horizon: int
    waits: Waits


def buffer_limit(spec: SocSpec) -> int:
    """Events at which the buffer is written: far more than are carried then."""
    return BUFFER + _most_events(spec, lookahead(spec) + PATIENCE)


def buffer_size(spec: SocSpec) -> int:
    """Events that fit into the buffer, with those of the cycle that fills it and open waits."""
    return buffer_limit(spec) + _most_events(spec, lookahead(spec) + 2)


def _most_events(spec: SocSpec, cycles: int) -> int:
    return PER_CYCLE * len(initiator_names(spec)) * cycles


class Recorder:
    """Records the run of one chip.

    warn      gets a sentence if the recording ends before the run
    is_on     it has not ended
    is_full   there were more events than its limit
    raises    ConfigError for filters that name what there is not, and if the file cannot be written
    """

    def __init__(
        self,
        chip: Chip,
        spec: SocSpec,
        program: Program,
        recording: Recording,
        warn: Callable[[str], None],
    ):
        self.chip, self.spec, self.recording, self.warn = chip, spec, recording, warn
        harts, initiators = hart_names(spec), initiator_names(spec)
        self.wanted = trace_filter(recording.filters, initiators, program, program.regions)
        self.sieve = Sieve(self.wanted, len(harts))
        self.first, end = self.wanted.cycles or (0, 1 << 62)
        self.end = min(end, self.first + MOST_CYCLES)
        about = {
            "first_cycle": self.first,
            "filters": list(recording.filters),
            "regions": {str(number): name for number, name in program.regions.items()},
            **recording.about,
        }
        try:
            self.writer = TraceWriter(recording.file, new_header(spec, program, **about))
        except OSError as error:
            reason = f"cannot be written: {error.strerror}"
            raise ConfigError([f"trace {recording.file}: {reason}"]) from None
        self.progress = _Progress(0, np.zeros(0, EVENT), False, 0, {})
        self.is_on, self.is_full, self.why = True, False, ""
        self._start()

    def _start(self) -> None:
        """Say in the chip's state what is wanted."""
        recorder = self.chip.recorder[0]
        kinds = set(UNASKED) if self.wanted.kinds is None else set(self.wanted.kinds)
        if self.wanted.regions is not None:
            kinds.add(Kind.REGION)
        recorder["kinds"] = sum(1 << kind | 1 << kind + CORRECTION for kind in kinds)
        harts = range(64) if self.wanted.harts is None else self.wanted.harts
        recorder["harts"] = sum(1 << hart for hart in harts)
        recorder["pcs"] = recorder["addresses"] = ALL_ADDRESSES
        recorder["first"], recorder["cycles"] = self.first, max(0, self.end - self.first)
        recorder["limit"] = buffer_limit(self.spec)

    def drop(self) -> None:
        """Let the file be, for another recorder of the same recording."""
        self.writer.stream.close()

    @property
    def events(self) -> int | None:
        """How many the file has."""
        return self.writer.count

    def write(self) -> None:
        """Write away what is noted, as far as it is complete; end the recording if need be."""
        if not self.is_on:
            return
        now = int(self.chip.wheel[0]["now"])
        try:
            waits = long_waits(self.chip, self.first, now)
            self.chip.harts["open"][waits["hart"]] = 1
            self._write(self._wanted(waits), horizon(self.chip, now))
        except OSError as error:
            self._stop(f"it cannot be written: {error.strerror}")
            return
        if self.is_full:
            self._stop(f"its limit of {self.recording.limit} events is reached")
        elif now >= self.end and not self.chip.recorder[0]["count"]:
            is_whole = self.end - self.first < MOST_CYCLES
            self._stop(
                "" if is_whole else f"it has {MOST_CYCLES} cycles, the most that it can have"
            )

    def _wanted(self, events: np.ndarray) -> np.ndarray:
        """Of events that no trace point has noted, those that it would have."""
        if not events.size:
            return events
        recorder = self.chip.recorder[0]
        kinds, harts = int(recorder["kinds"]), int(recorder["harts"])
        keep = [
            kinds >> int(event["kind"]) & harts >> int(event["hart"]) & 1 != 0
            and event["cycle"] < recorder["cycles"]
            for event in events
        ]
        return events[np.array(keep, bool)]

    def _write(self, more: np.ndarray, horizon: int) -> None:
        """Write what is before a cycle, and carry the rest.

        more    events besides those that trace points have noted
        """
        before = self._resumed()
        events, ends = self._sorted(more, before.waits)
        first = max(before.horizon - self.first, 0)
        if events.size and events["cycle"][0] < first:
            events["cycle"] = np.maximum(events["cycle"], first)
        split = first_at(events, max(horizon - self.first, 0))
        ready = self.sieve.passed(events[:split])
        if self.recording.limit is not None:
            room = self.recording.limit - before.written
            self.is_full = ready.size > room
            ready = ready[:room]
        self.writer.put(before.written, ready)
        for place, event in ends.values():
            self.writer.put(place, np.array([event]))
        waits = {key: wait for key, wait in before.waits.items() if key not in ends}
        if more.size:
            waits |= written_waits(ready, before.written)
        written = before.written + ready.size
        carried = taken(events, slice(split, None))
        self.progress = _Progress(written, carried, True, horizon, waits)
        self._resumed()

    def _resumed(self) -> _Progress:
        """Put what is carried into the buffer, alone, unless that has been done."""
        if self.progress.is_pending:
            carried = self.progress.carried
            self.chip.trace.view(OPAQUE)[: carried.size] = carried.view(OPAQUE)
            self.chip.recorder[0]["count"] = carried.size
            self.progress = self.progress._replace(is_pending=False)
        return self.progress

    def _sorted(self, more: np.ndarray, waits: Waits) -> tuple[np.ndarray, Waits]:
        """All events that are not written, by cycle, and the ends of waits that are."""
        count = int(self.chip.recorder[0]["count"])
        events = self.chip.trace.view(EVENT)[: count + more.size]
        events[count:] = more
        kinds = sort_events.unlocked(self.chip, events.size)
        if kinds == TOO_FAR:
            return ended(in_order(events), waits)
        events = self.chip.trace_sorted.view(EVENT)[: events.size]
        return ended(events, waits) if kinds & CORRECTION else (events, {})

    def _stop(self, why: str) -> None:
        """End the recording with what is written; waits that go on end there, too."""
        self.chip.recorder[:] = 0
        self.is_on, self.why = False, why
        with suppress(OSError):
            _, last = self.writer.tail(1)
            end = int(last["cycle"].max(initial=0)) + 1
            for place, event in self.progress.waits.values():
                event["b"] = max(end - int(event["cycle"]), 0)
                self.writer.put(place, np.array([event]))
            if why:
                self.why = f"it ends in cycle {self.first + end}: {why}"
        if why:
            self.warn(f"trace {self.recording.file}: {self.why}")

    def close(self, rest: np.ndarray, cycles: int, why: str, **known: Any) -> None:
        """Write what is left, and the header.

        rest      cycles by hart and count that the run's end has added, see soc.final_counts
        cycles    of the run
        why       it is not complete, "" if it is
        """
        if self.is_on:
            try:
                self._write(self._wanted(self._ends(rest)), self.first + MOST_CYCLES)
                self._shorten(rest, cycles - self.first)
            except OSError as error:
                self._stop(f"it cannot be written: {error.strerror}")
            if self.is_full:
                self._stop(f"its limit of {self.recording.limit} events is reached")
        why = self.why or why
        with suppress(OSError):
            self.writer.close(cycles=cycles, complete=not why, why=why, **known)

    def _ends(self, rest: np.ndarray) -> np.ndarray:
        """What harts wait for when the run ends."""
        events = []
        for h, count in zip(*np.nonzero(rest > 0), strict=True):
            hart = self.chip.harts[h]
            start = int(hart["accounted"]) - self.first
            if not 0 <= start < MOST_CYCLES:
                continue
            pc = pc_of(self.chip, hart, count)
            kind = CORRECTION if hart["open"] else 0
            cycles = rest[h, count]
            events.append((start, kind + Kind.STALL, h, count - FIRST_CAUSE, pc, cycles))
            if count == COUNT.event:
                at_barrier = is_at_barrier(self.chip, hart)
                events.append((start, kind + Kind.SLEEP, h, at_barrier, pc, cycles))
        return np.array(events, EVENT)

    def _shorten(self, rest: np.ndarray, end: int) -> None:
        """Cut stalls beyond the end of the run, of which a filter may have left out some.

        end    cycles from the first one of the trace on
        """
        if not (rest < 0).any():
            return
        place, events = self.writer.tail(TAIL)
        is_last = np.ones(events.size, bool)
        if self.recording.filters:  # others may be of long before the end
            is_last = events["cycle"] + events["b"].astype(np.int64) > end
        for h, count in zip(*np.nonzero(rest < 0), strict=True):
            mine = is_last & (events["hart"] == h)
            stalls = mine & (events["kind"] == Kind.STALL)
            self._cut(
                place, events, stalls & (events["extra"] == count - FIRST_CAUSE), -rest[h, count]
            )
            if count == COUNT.event:
                self._cut(place, events, mine & (events["kind"] == Kind.SLEEP), -rest[h, count])

    def _cut(self, place: int, events: np.ndarray, these: np.ndarray, cycles: int) -> None:
        """Take cycles from these of the events that are written from a place on, the last first."""
        for k in np.flatnonzero(these)[::-1]:
            cut = min(int(cycles), int(events["b"][k]))
            if not cut:
                return
            events["b"][k] -= cut
            self.writer.put(place + k, events[k : k + 1])
            cycles -= cut
