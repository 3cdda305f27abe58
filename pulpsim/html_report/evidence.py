"""Evidence of losses: the cores that could have worked, and what held them up."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pulpsim.html_report.figures import CONTROLLER, Figures
from pulpsim.html_report.sleep import Sleep, sleep_of

HARDLY = 0.02
"""A core with a smaller share of the busiest core's instructions has hardly any work."""


@dataclass(frozen=True)
class Evidence:
    """Evidence that losses are derived from.

    cores    that could have worked: the cluster's, or the fabric controller alone
    idle     of these, the ones with hardly any work
    """

    figures: Figures

    @property
    def sites(self) -> np.ndarray | None:
        """What each instruction took, SUM[n]; None without a trace."""
        return self.figures.recording.sites if self.figures.recording else None

    @property
    def chip(self) -> dict[str, Any]:
        """The chip's fields, as far as they are known."""
        recording = self.figures.recording
        chip = recording.trace.header.get("chip") if recording else None
        return chip if isinstance(chip, dict) else {}

    @cached_property
    def cores(self) -> list[int]:
        harts = self.figures.harts
        cluster = [i for i, hart in enumerate(harts) if hart.name != CONTROLLER]
        if any(harts[i].instructions for i in cluster):
            return cluster
        return list(self.figures.workers)

    @cached_property
    def idle(self) -> list[int]:
        harts = self.figures.harts
        most = max((harts[i].instructions for i in self.cores), default=0)
        return [i for i in self.cores if harts[i].instructions < HARDLY * most]

    @property
    def busy(self) -> list[int]:
        return [i for i in self.cores if i not in self.idle]

    @cached_property
    def stalls(self) -> Counter[str]:
        """Cycles of the cores that work, by cause."""
        total: Counter[str] = Counter()
        for core in self.busy:
            total.update(self.figures.harts[core].stalls)
        return total

    @property
    def cycles(self) -> int:
        """Cycles of all cores together, to which work and losses add up."""
        return sum(self.figures.harts[core].cycles for core in self.cores)

    @cached_property
    def sleep(self) -> Sleep | None:
        """What the cores slept for; None without a trace of everything."""
        recording = self.figures.recording
        return sleep_of(recording, self.busy) if recording and self.figures.is_summed else None

    def names(self, cores: list[int]) -> str:
        """Cores in words: "core0, core3"; runs in short: "core1 to core7"."""
        names = [self.figures.harts[core].name for core in cores]
        if len(cores) > 2 and cores == list(range(cores[0], cores[-1] + 1)):
            return f"{names[0]} to {names[-1]}"
        return ", ".join(names)
