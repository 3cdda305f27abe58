"""A simulation that goes ahead of another one, to find out which instructions issue when.

It notes every issue by the trace points, which change no cycle. Its chip is nobody's result: what
it finds are cycles, to which the simulation itself then runs as ever.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isa.program import Program
from soc.barriers import barrier_activity
from soc.chip_state import Chip
from soc.recorder import BUFFER, Recorder, Recording
from soc.result import Exit
from soc.simulation import Simulation
from soc.spec import SocSpec
from soc.state import NEVER
from soc.trace_format import EVENT, Kind

MOST_CYCLES = (1 << 32) - 1
"""That an event can count."""


class Issues(Recorder):
    """Keeps the issues of a window of cycles in memory; takes the place of a file's recorder."""

    def __init__(self, chip: Chip, *_: Any):
        self.chip = chip
        self.is_on, self.end = True, NEVER
        self.kept: list[np.ndarray] = []

    def begin(self) -> None:
        """Note what issues from this cycle on."""
        recorder = self.chip.recorder[0]
        recorder["kinds"], recorder["harts"] = 1 << Kind.ISSUE, -1 % (1 << 64)
        recorder["first"], recorder["cycles"] = self.chip.wheel[0]["now"], MOST_CYCLES
        recorder["limit"], recorder["count"] = BUFFER, 0
        self.kept = []

    def write(self) -> None:
        """Make room in the buffer."""
        recorder = self.chip.recorder[0]
        self.kept.append(self.chip.trace[: 2 * int(recorder["count"])].view(EVENT).copy())
        recorder["count"] = 0

    def taken(self) -> np.ndarray:
        """All that was noted."""
        self.write()
        return np.concatenate(self.kept)


@dataclass(frozen=True)
class Window:
    """What happens from a cycle up to before another one: a fact, whoever looks at it when.

    cycles, harts, pcs    of each issue, by cycle
    has_barriers          something happens at barriers
    """

    start: int
    end: int
    cycles: np.ndarray
    harts: np.ndarray
    pcs: np.ndarray
    has_barriers: bool

    def next_issue(self, hart: int, cycle: int) -> int | None:
        """The cycle of a hart's next issue, from this one on."""
        found = self.cycles[(self.harts == hart) & (self.cycles >= cycle)]
        return int(found[0]) if found.size else None

    def next_stop(
        self, addresses: Collection[int], cycle: int, passing: Collection[int]
    ) -> tuple[int, tuple[int, ...]] | None:
        """The next cycle in which harts issue at one of these addresses, and these harts.

        passing    harts that have stopped in this cycle already
        """
        hits = np.isin(self.pcs, list(addresses)) & (self.cycles >= cycle)
        hits &= (self.cycles > cycle) | ~np.isin(self.harts, list(passing))
        if not hits.any():
            return None
        first = int(self.cycles[hits][0])
        return first, tuple(sorted(self.harts[hits & (self.cycles == first)].tolist()))


class Scout(Simulation):
    """A simulation that tells window by window what happens; it prints nothing."""

    recorder_of = Issues

    def __init__(
        self,
        program: Program,
        spec: SocSpec,
        engine: str,
        progress: Callable[[str], AbstractContextManager],
    ):
        recording = Recording(Path())
        super().__init__(program, spec, engine, lambda text: None, progress, recording)

    def look(self, end: int) -> tuple[Window, Exit | None]:
        """Go ahead to a cycle, or to the program's end."""
        assert isinstance(self.recorder, Issues)
        start, activity = self.cycle, barrier_activity(self.chip)
        self.recorder.begin()
        over = self.run_on(end)
        events = self.recorder.taken()
        events = events[np.argsort(events["cycle"], kind="stable")]
        window = Window(
            start,
            end,
            events["cycle"].astype(np.int64) + start,
            events["hart"],
            events["a"],
            activity != barrier_activity(self.chip),
        )
        return window, over
