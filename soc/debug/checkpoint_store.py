"""The checkpoints of a run: which are taken, and which are kept."""

from bisect import bisect_right
from time import perf_counter

from soc.checkpoint import Checkpoint, checkpoint, is_idle, restore
from soc.simulation import Simulation

SHARE = 20
"""Of the time that a run takes, checkpoints may add one part in so many."""

SHORTEST = 0.1
"""Seconds of simulation between two checkpoints, at least."""

MOST = 64
"""Checkpoints that are kept. Of one more, every other goes, and fewer come from then on."""


class History:
    """Checkpoints by cycle."""

    def __init__(self) -> None:
        self.kept: list[Checkpoint] = []
        self.due, self.unsaved = SHORTEST, 0.0
        self.shortest, self.share = SHORTEST, SHARE

    def passed(self, simulation: Simulation, seconds: float) -> None:
        """The simulation is where it has not been before, after so much time."""
        self.unsaved += seconds
        if self.unsaved < self.due or not is_idle(simulation):
            return
        started = perf_counter()
        self.kept.append(checkpoint(simulation))
        if len(self.kept) > MOST:
            del self.kept[::2]
            self.shortest *= 2
        self.due = max(self.shortest, self.share * (perf_counter() - started))
        self.unsaved = 0.0

    def restore(self, simulation: Simulation, cycle: int) -> None:
        """Bring a simulation that has not begun up to this cycle, as near as checkpoints are."""
        index = bisect_right(self.kept, cycle, key=lambda kept: kept.cycle)
        if index:
            restore(self.kept[index - 1], simulation)
