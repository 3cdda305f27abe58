"""A simulation that goes ahead of another one, to find out what happens when.

It notes issues and accesses by the trace points, which change no cycle. Its chip is no
result: what it finds are cycles, to which the simulation itself then runs as ever.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isa.program import Program
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.core.sync_points import COPIED
from soc.debug.barriers import barrier_activity
from soc.engine.run_ahead import RanAheadError
from soc.prelude.trace_event import ALL_ADDRESSES, EVENT, SECOND_HALF, SIZE_SHIFT, Kind
from soc.prelude.wheel import NEVER
from soc.result import Exit
from soc.simulation import Simulation
from soc.trace.recorder import BUFFER, Recorder, Recording

MOST_CYCLES = (1 << 32) - 1
"""That an event can count."""

SEEN = np.dtype(
    [("cycle", "i8"), ("kind", "u1"), ("hart", "u1"), ("extra", "u2"), ("a", "u4"), ("b", "u4")]
)
"""An event as soc.prelude.trace_event has them, with its cycle of the run."""

NOTHING = (0, 0)
WORD = 4


class Wanted(NamedTuple):
    """What a scout notes, each by the first address and the end of these.

    pcs          issues of instructions there
    addresses    accesses of harts there, and of the DMA
    """

    pcs: tuple[int, int] = (0, ALL_ADDRESSES)
    addresses: tuple[int, int] = NOTHING


EVERYTHING = Wanted(addresses=(0, ALL_ADDRESSES))


class Notes(Recorder):
    """Keeps the events of a window of cycles in memory; takes the place of a file's recorder.

    most    events that are kept, the last ones, and some more
    """

    def __init__(self, chip: Chip, *_: Any):
        self.chip = chip
        self.is_on, self.end = True, NEVER
        self.kept: list[np.ndarray] = []
        self.most = NEVER

    def drop(self) -> None:
        """Let another recorder take its place."""

    def begin(self, wanted: Wanted, most: int = NEVER) -> None:
        """Note what happens from this cycle on."""
        recorder = self.chip.recorder[0]
        recorder["kinds"], recorder["harts"] = 0, -1 % (1 << 64)
        for kind, (first, end), names in (
            (Kind.ISSUE, wanted.pcs, ("first_pc", "pcs")),
            (Kind.MEMORY, wanted.addresses, ("first_address", "addresses")),
        ):
            kinds = 1 << kind | (1 << COPIED if kind == Kind.MEMORY else 0)
            recorder["kinds"] |= np.uint64(kinds if end > first else 0)
            for name, value in zip(names, (first, end - first), strict=True):
                recorder[name] = value
        recorder["first"], recorder["cycles"] = self.chip.wheel[0]["now"], MOST_CYCLES
        recorder["limit"], recorder["count"] = BUFFER, 0
        self.kept, self.most = [], most

    def write(self) -> None:
        """Make room in the buffer."""
        recorder = self.chip.recorder[0]
        self.kept.append(self.chip.trace[: 2 * int(recorder["count"])].view(EVENT).copy())
        recorder["count"] = 0
        while len(self.kept) > 2 and sum(part.size for part in self.kept[1:]) >= self.most:
            del self.kept[0]

    def taken(self) -> np.ndarray:
        """What was noted: SEEN[n], by cycle, accesses, the DMA's, issues, and by hart."""
        first = int(self.chip.recorder[0]["first"])
        self.write()
        events = np.concatenate(self.kept).astype(SEEN)
        events["cycle"] += first
        kinds = events["kind"]
        phases = 2 * (kinds == Kind.ISSUE) + (kinds == COPIED)
        return events[np.lexsort((events["hart"], phases, events["cycle"]))]


@dataclass(frozen=True)
class Window:
    """What happens from a cycle up to before another one: a fact, whoever looks at it when.

    events          SEEN[n]
    has_barriers    something happens at barriers
    """

    start: int
    end: int
    events: np.ndarray
    has_barriers: bool

    def issues(self, hart: int) -> tuple[np.ndarray, np.ndarray]:
        """Cycles and addresses of the instructions of a hart."""
        events = self.events
        own = events[(events["kind"] == Kind.ISSUE) & (events["hart"] == hart)]
        return own["cycle"], own["a"]

    def accesses(self, hart: int) -> np.ndarray:
        """Cycles in which loads and stores of a hart are done, as a whole."""
        events = self.events[self.events["kind"] == Kind.MEMORY]
        return events["cycle"][is_whole(events) & (events["hart"] == hart)]

    def joined(self, more: "Window") -> "Window":
        """This window and the one after it, as one."""
        events = np.concatenate([self.events, more.events])
        has_barriers = self.has_barriers or more.has_barriers
        return Window(self.start, more.end, events, has_barriers)


def is_whole(events: np.ndarray) -> np.ndarray:
    """Is an access done with each of these transactions? bool[n]."""
    sizes = 1 << (events["extra"] >> SIZE_SHIFT & 3)
    is_second = events["extra"] & SECOND_HALF != 0
    result: np.ndarray = is_second | (events["a"] % WORD + sizes <= WORD)
    return result


class Scout(Simulation):
    """A simulation that tells window by window what happens; it prints nothing.

    carry    runs it to a cycle, with what a person has changed on the way
    """

    recorder_of = Notes

    def __init__(
        self,
        program: Program,
        spec: SocSpec,
        engine: str,
        progress: Callable[[str], AbstractContextManager],
    ):
        recording = Recording(Path())
        self.start, self.wanted, self.most = 0, Wanted(), NEVER
        super().__init__(program, spec, engine, lambda text: None, progress, recording)
        self.carry: Callable[[int], Exit | None] = self.run_on

    def look(self, end: int, wanted: Wanted, most: int = NEVER) -> tuple[Window, Exit | None]:
        """Go ahead to a cycle, or to the program's end.

        most    events that are wanted, of more the last ones
        """
        self.start, self.wanted, self.most = self.cycle, wanted, most
        activity = barrier_activity(self.chip)
        self._note()
        over = self.carry(end)
        assert isinstance(self.recorder, Notes)
        events = self.recorder.taken()
        return Window(self.start, end, events, activity != barrier_activity(self.chip)), over

    def _note(self) -> None:
        assert isinstance(self.recorder, Notes)
        self.recorder.begin(self.wanted, self.most)

    def _begin_anew(self, error: RanAheadError) -> None:
        super()._begin_anew(error)
        self.run_on(self.start)
        self._note()
