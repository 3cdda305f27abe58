"""Repeats among the steps of a tiled program, and which of them can be left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

from trainlib.tiling.schedule import Step

LEAST, SHARE = 12, 0.25
"""Periods that are simulated at each place: so many at least, and this share of them."""

MOST = 0.6  # of all steps, that the simulation has


class NoSteadyStateError(Exception):
    """Nothing repeats itself often enough, or too little would be spared."""


@dataclass(frozen=True)
class Repeat:
    """Steps that repeat themselves, at several places alike.

    firsts    where the first period of each place begins
    period    steps
    times     periods of each place, those that may be left out among them
    """

    firsts: tuple[int, ...]
    period: int
    times: int

    @property
    def enough(self) -> int:
        """Periods of each place from which follows how long the others take."""
        return max(LEAST, ceil(SHARE * self.times))

    @property
    def left_out(self) -> int:
        """Steps that are not simulated then."""
        return len(self.firsts) * (self.times - self.enough) * self.period

    def durations(self, starts: Sequence[int], times: int) -> tuple[tuple[int, ...], ...]:
        """How long each period takes, place by place, with so many of them at each.

        starts    when each step begins that is left, and when the last ends
        """
        left_out = (self.times - times) * self.period
        firsts = [first - place * left_out for place, first in enumerate(self.firsts)]
        ends = [starts[at : at + times * self.period + 1 : self.period] for at in firsts]
        return tuple(tuple(end - begin for begin, end in pairwise(some)) for some in ends)

    def kept(self, steps: int, times: int) -> list[int]:
        """Numbers of the steps that are left with so many periods at each place."""
        kept, at = list[int](), 0
        for first in self.firsts:
            kept += range(at, first + times * self.period)
            at = first + self.times * self.period
        return [*kept, *range(at, steps)]


def worthwhile_repeat(steps: Sequence[Step]) -> Repeat:
    """The longest repeat, where leaving periods out spares something.

    raises    NoSteadyStateError
    """
    repeat = longest_repeat(steps)
    if repeat is None or len(steps) - repeat.left_out > MOST * len(steps):
        raise NoSteadyStateError
    return repeat


def longest_repeat(steps: Sequence[Step]) -> Repeat | None:
    """The repeat that leaves out most steps; None if all are too short."""
    numbers: dict[Any, int] = {}
    marks = [numbers.setdefault(_signature(step), len(numbers)) for step in steps]
    found: list[Repeat] = []
    for period in range(1, len(marks) // (LEAST + 1) + 1):
        runs = [run for run in _runs(marks, period) if run[1] > LEAST]
        for times in {times for _, times in runs}:
            firsts = tuple(first for first, longest in runs if longest >= times)
            found.append(Repeat(firsts, period, times))
    return max(found, key=lambda repeat: repeat.left_out, default=None)


def _signature(step: Step) -> tuple[Any, ...]:
    """Return everything of a step that affects its time: not the addresses of its data."""
    copies = tuple((t.name, t.to_l1, t.copy.size, t.copy.line) for t in step.transfers)
    return step.shape, step.each, copies


def _runs(marks: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """Find where marks repeat with a period, and for how many periods."""
    first = 0
    for at in range(period, len(marks) + 1):
        if at == len(marks) or marks[at] != marks[at - period]:
            if at - first >= 2 * period:
                yield first, (at - first) // period
            first = at - period + 1
