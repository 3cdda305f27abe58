"""Counters of a run over its time: samples in even distances, which grow with the run."""

from bisect import bisect_right, insort
from collections.abc import Iterable

import numpy as np

from pulpsim.tui.source import Bins
from soc.chip.state import Chip
from soc.event_unit import offsets as at
from soc.final_counts import WAITING_CAUSES, closed_counts
from soc.prelude import hart_state as status
from soc.prelude.counters import CAUSES, COUNT, COUNTS

FINEST = 64
"""Cycles between the first samples."""

MOST = 2048
"""Samples that are kept; of more, every other goes."""

MOST_FINE = 4096
"""Samples between these, around where the person looks."""


UNDER_WAY = WAITING_CAUSES.copy()
"""As in a report, but a hart that waits for L2 or a device does so even if it has not before."""
UNDER_WAY[[status.REQUEST, status.ACCESS, status.WAIT]] = COUNT.load_external


def sample_of(chip: Chip, cycle: int) -> np.ndarray:
    """All counters at a cycle, one after the other: counts of harts, conflicts, DMA, waiting."""
    return np.concatenate(
        [
            closed_counts(chip, cycle, UNDER_WAY).ravel(),
            chip.banks["conflicts"],
            chip.dma[0]["channel"]["moved"][::-1],
            [cores_at_barrier(chip)],
        ]
    )


def cores_at_barrier(chip: Chip) -> int:
    """Cores whose load waits for a barrier; on a bench, for that of its control page."""
    unit = chip.event_unit[0]
    waiting = int(unit["waiting"])
    here = [core for core, place in enumerate(unit["offset"].tolist()) if place >= at.BARRIER]
    return sum(waiting >> core & 1 for core in here) + int(chip.control[0]["waiting"]).bit_count()


class Samples:
    """Samples by cycle."""

    def __init__(self, chip: Chip):
        self.harts, self.banks = chip.harts.size, chip.banks.size
        self.grain = FINEST
        self.even: dict[int, np.ndarray] = {}
        self.fine: dict[int, np.ndarray] = {}
        self.cycles: list[int] = []

    def __contains__(self, cycle: int) -> bool:
        return cycle in self.even or cycle in self.fine

    def add(self, cycle: int, sample: np.ndarray) -> None:
        """Keep a sample; what is known already stays as it is."""
        if cycle in self:
            return
        (self.fine if cycle % self.grain else self.even)[cycle] = sample
        insort(self.cycles, cycle)
        if len(self.even) > MOST:
            self.grain *= 2
            self.even = {c: s for c, s in self.even.items() if c % self.grain == 0}
            self.cycles = sorted({*self.even, *self.fine})
        if len(self.fine) > MOST_FINE:
            self.fine = {cycle: sample} if cycle % self.grain else {}
            self.cycles = sorted({*self.even, *self.fine})

    def missing(self, edges: Iterable[int]) -> list[int]:
        """The cycles among these that have no sample."""
        return [edge for edge in edges if edge not in self]

    def bins(self, edges: np.ndarray) -> Bins:
        """The differences between edges; an edge without sample counts as the last one before.

        Cycles that turn out to be of another cause are taken from that which they counted for.
        """
        found = [self.cycles[max(0, bisect_right(self.cycles, e) - 1)] for e in edges.tolist()]
        rows = np.stack([self.even[c] if c in self.even else self.fine[c] for c in found])
        passed = np.diff(rows, axis=0).T
        size = self.harts * len(COUNTS)
        counts = passed[:size].reshape(self.harts, len(COUNTS), -1)
        return Bins(
            np.array(found),
            counts[:, COUNT.instructions],
            counts[:, [COUNTS.index(cause) for cause in CAUSES]],
            passed[size : size + self.banks],
            passed[size + self.banks : -1],
            rows[1:, -1],
        )
