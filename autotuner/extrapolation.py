"""Cycles of a large layer from a part of its tiles: the steps of a long loop are all alike.

A program without some of its periods is simulated, see autotuner.sampled_program. Those that are
left out take as long as the others at their place do once its first ones are over:

    cycles(all) = cycles(some) + (all - some) * mean of the later periods

Periods differ by some percent, as cores meet at other banks, and some programs get faster or
slower for long. So the bound of the error is the range between the means of the first, second and
last third of the periods, and UNSEEN, for each that is left out. There is no estimate where that is
more than WORST of all cycles, where nothing repeats itself often enough, or too little would be
spared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotuner.measure import Kind, Measure, is_lasting
from autotuner.measurement import Outcome
from autotuner.periodicity import NoSteadyStateError
from autotuner.point import Point
from autotuner.sampled_program import Sample, Shortener, TimedRun, sample_of
from firmware.builder import KernelError

WORST = 0.01  # bound of the error, of all cycles
UNSEEN = 0.003
"""Of a period, that the mean of those left out may be beyond the thirds. Of 248 points, drawn from
all families, tiles and blockings, that had an estimate, none was further off than its bound: by
0.66 % at most, by 0.03 % in the median."""

FIRST = 0.25  # of the periods, in which caches fill and cores drift apart
THIRDS = 3
MADE_BY = tuple(
    f"autotuner/{name}.py"
    for name in ("footprint", "periodicity", "sampled_program", "extrapolation")
)
KIND = Kind(" (steady state)", MADE_BY)
NONE = Outcome(None, None, "no steady state")
LARGE = 30_000_000
"""Multiply-adds of a layer whose points are worth an estimate: others are simulated as fast."""


@dataclass(frozen=True)
class Estimate:
    """Cycles of all steps, the bound of their error as a part of them, and bytes of L1."""

    cycles: int
    error: float
    l1_bytes: int


def estimate(part: Sample) -> Estimate | None:
    """All cycles, from those of a part; None if they do not follow."""
    if part.cycles is None:
        return None
    periods = np.array(part.durations, float)  # [place, period]
    left_out = part.times - periods.shape[1]
    settled = periods[:, int(FIRST * periods.shape[1]) :]
    thirds = np.array([third.mean(axis=1) for third in np.array_split(settled, THIRDS, axis=1)])
    means = settled.mean(axis=1)
    cycles = part.cycles + left_out * means.sum()
    unsure = np.ptp(thirds, axis=0) + UNSEEN * means
    error = float(left_out * unsure.sum() / cycles)
    return Estimate(round(cycles), error, part.l1_bytes) if error <= WORST else None


class Steady:
    """Measures points by estimates where there are any, and in full elsewhere.

    full    measures, keeps and reports
    """

    def __init__(self, full: Measure) -> None:
        self.full = full

    def __call__(self, points: Sequence[Point]) -> list[Outcome]:
        """The outcome of each point.

        raises    ConfigError if the database refuses, or the executor is lost
        """
        keys = {point: self.full.key(point, KIND) for point in points if has_steps(point)}
        known = self.full.database.find(keys.values())
        found = {point: known[key] for point, key in keys.items() if key in known}
        for point, outcome in found.items():
            self._note(point, outcome)
        found |= self._estimates([point for point in keys if point not in found])
        rest = [point for point in points if found.get(point, NONE) == NONE]
        found |= zip(rest, self.full(rest) if rest else [], strict=True)
        return [found[point] for point in points]

    def _estimates(self, points: Sequence[Point]) -> dict[Point, Outcome]:
        """Estimate points by the executor, and keep each as its run ends."""
        full, found = self.full, dict[Point, Outcome]()

        def on_end(number: int, part: Any) -> None:
            point, outcome = points[number], outcome_of(part)
            if isinstance(part, Sample | NoSteadyStateError) or is_lasting(part):
                full.keep(point, outcome, KIND)
            self._note(point, outcome)
            found[point] = outcome

        most = full.limits.max_cycles
        runs = [
            TimedRun(Shortener(full.layer, point, full.chip), full.chip, max_cycles=most)
            for point in points
        ]
        if runs:
            full.carry_out(runs, sample_of, on_end)
        return found

    def _note(self, point: Point, outcome: Outcome) -> None:
        if outcome != NONE:
            self.full.on_end(point, outcome)


def has_steps(point: Point) -> bool:
    """Is it one computation by tiles? Phases are measured in full."""
    return point.tile is not None and not point.is_phased


def outcome_of(part: Sample | Outcome | Exception) -> Outcome:
    """The outcome of a point; NONE if its part does not tell."""
    if isinstance(part, KernelError):
        return Outcome(None, None, str(part))
    found = estimate(part) if isinstance(part, Sample) else None
    return Outcome(found.cycles, found.l1_bytes) if found else NONE
