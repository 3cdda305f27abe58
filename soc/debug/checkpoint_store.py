"""The checkpoints of a run: which are taken, and which are kept."""

from time import perf_counter

from soc.debug.checkpoint import Checkpoint, checkpoint, is_idle, restore
from soc.simulation import Simulation

SHARE = 20
"""Of the time that a run takes, checkpoints may add one part in so many."""

SHORTEST = 0.1
"""Seconds of simulation between two checkpoints, at least."""

MOST = 64
"""Checkpoints that are kept. Of one more, every other goes, and fewer come from then on."""


MOST_NEAR = 8
"""Checkpoints that are kept before cycles to which the session has gone back."""


class History:
    """Checkpoints by cycle."""

    def __init__(self) -> None:
        self.kept: list[Checkpoint] = []
        self.near: list[Checkpoint] = []
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

    def keep_near(self, simulation: Simulation) -> None:
        """Keep a checkpoint where the session is about to go back from, too."""
        if is_idle(simulation):
            self.near = [*self.near[1 - MOST_NEAR :], checkpoint(simulation)]

    def cycles(self, end: int) -> list[int]:
        """Of the checkpoints before a cycle."""
        return sorted(kept.cycle for kept in (*self.kept, *self.near) if kept.cycle < end)

    def forget_after(self, cycle: int) -> None:
        """The run has changed in this cycle."""
        self.kept = [kept for kept in self.kept if kept.cycle <= cycle]
        self.near = [kept for kept in self.near if kept.cycle <= cycle]

    def restore(self, simulation: Simulation, cycle: int) -> None:
        """Bring a simulation that has not begun up to this cycle, as near as checkpoints are."""
        earlier = [kept for kept in (*self.kept, *self.near) if kept.cycle <= cycle]
        if earlier:
            restore(max(earlier, key=lambda kept: kept.cycle), simulation)
