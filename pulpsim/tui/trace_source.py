"""The live view's source that is a recording."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np

from pulpsim.tui.clock import RATES
from pulpsim.tui.listing import Listing, recorded_listing
from pulpsim.tui.recorded_sums import Recording
from pulpsim.tui.source import Bins, HartNow, RegionNow, Stopped
from soc.debug.address_expression import parse_place
from soc.prelude.counters import CAUSES
from soc.trace.reader import Trace

SECONDS = 20
"""That a recording plays for, about, unless another speed is asked for."""


class TraceSource:
    """A trace, at some cycle of it."""

    state = None
    grain = 1
    console = ""

    def __init__(self, trace: Trace):
        self.trace, self.recording = trace, Recording(trace)
        self.names, self.banks = trace.harts, trace.banks
        program = Path(str(trace.header.get("program", trace.path.name))).name
        self.title = f"{program}, recorded"
        self.breakpoints: set[int] = set()
        self.cycle = self.latest = trace.cycles
        self.stopped = -1

    @classmethod
    def open(cls, path: Path) -> "TraceSource":
        """A recording by its file. Raises TraceError if it cannot be read."""
        return cls(Trace.open(path))

    @cached_property
    def code(self) -> Listing:
        return recorded_listing(self.trace)

    @property
    def usual_rate(self) -> int:
        """Cycles a second at which to play it."""
        slow_enough = [rate for rate in RATES if 0 < rate <= max(1, self.latest // SECONDS)]
        return slow_enough[-1]

    @property
    def culprit(self) -> None:
        return None

    @property
    def is_over(self) -> bool:
        return self.cycle >= self.latest

    @property
    def end(self) -> str:
        if not self.is_over:
            return ""
        return self.trace.gap or "end of the recording"

    @property
    def instructions(self) -> int:
        harts = range(len(self.names))
        return sum(self.recording.issued_before(h, self.cycle) for h in harts)

    def run(self, seconds: float, end: int, to_barrier: bool = False) -> Stopped | None:
        target, why = min(end, self.latest), None
        if to_barrier and (cycle := self._next_barrier()) <= target:
            target, why = cycle, Stopped("a barrier is complete")
        found = self._next_breakpoint(target)
        if found:
            target, harts = found
            place = self.place(self._pc(harts[0]))
            names = ", ".join(self.names[h] for h in harts)
            why = Stopped(f"breakpoint: {names} at {place}", tuple(harts))
            self.stopped = target
        self.cycle = target
        return why

    def _next_barrier(self) -> int:
        ends = [
            s.ends[np.searchsorted(s.ends, self.cycle, "right") :] for s in self.recording.barriers
        ]
        return min((int(end[0]) for end in ends if end.size), default=self.latest + 1)

    def _next_breakpoint(self, end: int) -> tuple[int, list[int]] | None:
        """The first cycle before `end` in which harts issue at a breakpoint."""
        if not self.breakpoints:
            return None
        start = self.cycle + (self.cycle == self.stopped)
        stops, harts = list(self.breakpoints), range(len(self.names))
        hits = [self._first_at(h, stops, start, end) for h in harts]
        cycle = min(hits)
        if cycle == end:
            return None
        self.cycle = cycle
        return cycle, [h for h in harts if hits[h] == cycle]

    def _first_at(self, hart: int, addresses: list[int], start: int, end: int) -> int:
        """The first cycle from `start` on in which a hart issues at one of these; or `end`."""
        cycles, pcs = self.recording.issues[hart]
        first, last = np.searchsorted(cycles, [start, end])
        hits = np.flatnonzero(np.isin(pcs[first:last], addresses))
        return int(cycles[first + hits[0]]) if hits.size else end

    def go_to(self, cycle: int) -> None:
        self.cycle = min(cycle, self.latest)

    def step_instruction(self, hart: int, within: int) -> bool:
        cycles, _ = self.recording.issues[hart]
        index = self.recording.issued_before(hart, self.cycle)
        if index == cycles.size:
            return False
        self.cycle = int(cycles[index]) + 1
        return True

    def bins(self, edges: np.ndarray) -> Bins:
        return self.recording.bins(edges)

    def refine(self, edges: np.ndarray, is_wanted: Callable[[], bool]) -> bool:
        """Nothing is lacking."""
        return True

    def harts(self) -> list[HartNow]:
        found = []
        for h, name in enumerate(self.names):
            pc = self._pc(h)
            function = str(self.trace.function_of([pc])[0])
            found.append(HartNow(name, pc, function, self.place(pc), self._doing(h)))
        return found

    def _pc(self, hart: int) -> int:
        """Of a hart's next instruction, or its last one."""
        _, pcs = self.recording.issues[hart]
        index = self.recording.issued_before(hart, self.cycle)
        return int(pcs[min(index, pcs.size - 1)]) if pcs.size else 0

    def _doing(self, hart: int) -> str:
        now = np.array([self.cycle])
        if self.recording.barriers[hart].at(now)[0]:
            return "barrier"
        if self.recording.asleep[hart].at(now)[0]:
            return "asleep"
        for cause in ("off", "wfi"):
            spans = self.recording.stalls.get((hart, CAUSES.index(cause)))
            if spans and spans.at(now)[0]:
                return cause
        return "runs"

    def regions(self) -> list[RegionNow]:
        named: dict[int, list[tuple[int, int, int, bool]]] = {}
        for (hart, number), (begins, ends) in self.recording.regions.items():
            begun, done = np.searchsorted(begins, self.cycle), np.searchsorted(ends, self.cycle)
            if not begun:
                continue
            begins, ends = begins[:begun], np.append(ends[:done], [self.cycle] * (begun - done))
            cycles = int((ends - begins).sum())
            issues = self.recording.issues[hart][0]
            issued = int(
                np.searchsorted(issues, ends).sum() - np.searchsorted(issues, begins).sum()
            )
            named.setdefault(number, []).append((int(done), cycles, issued, bool(begun > done)))
        return [
            RegionNow(
                self.trace.regions.get(number, f"region {number}"),
                len(rows),
                sum(count for count, *_ in rows),
                max(cycles for _, cycles, *_ in rows),
                sum(issued for *_, issued, _ in rows),
                any(is_open for *_, is_open in rows),
            )
            for number, rows in sorted(named.items())
        ]

    def place(self, address: int) -> str:
        for start, size, name in reversed(self.trace.symbols):
            if start <= address < start + max(1, size):
                distance = address - start
                return f"{name}+{distance:#x}" if distance else name
        return f"{address:#010x}"

    def address_of(self, place: str) -> int:
        named = {name: start for start, _, name in self.trace.symbols}
        return parse_place(place, named.__getitem__)
