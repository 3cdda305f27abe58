"""What repeats itself among the steps of a tiled program, and which of it can be left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainlib.schedule import Step

KEPT = (4, 7, 10)
"""Periods that are simulated, beside what is before and behind them."""

MOST = 0.8  # of all steps, that the simulations together have


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
    def left_out(self) -> int:
        """Steps that the longest simulation has not."""
        return len(self.firsts) * (self.times - KEPT[-1]) * self.period

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
    if repeat is None or sum(len(repeat.kept(len(steps), n)) for n in KEPT) > MOST * len(steps):
        raise NoSteadyStateError
    return repeat


def longest_repeat(steps: Sequence[Step]) -> Repeat | None:
    """The repeat that leaves out most steps; None if all are too short."""
    numbers: dict[Any, int] = {}
    marks = [numbers.setdefault(_signature(step), len(numbers)) for step in steps]
    found: list[Repeat] = []
    for period in range(1, len(marks) // (KEPT[-1] + 1) + 1):
        runs = [run for run in _runs(marks, period) if run[1] > KEPT[-1]]
        for times in {times for _, times in runs}:
            firsts = tuple(first for first, longest in runs if longest >= times)
            found.append(Repeat(firsts, period, times))
    return max(found, key=lambda repeat: repeat.left_out, default=None)


def _signature(step: Step) -> tuple[Any, ...]:
    """All of a step that takes time; not where its data lies."""
    copies = tuple((t.name, t.to_l1, t.copy.size, t.copy.line) for t in step.transfers)
    return step.shape, copies


def _runs(marks: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """Where marks repeat, and for how many periods."""
    first = 0
    for at in range(period, len(marks) + 1):
        if at == len(marks) or marks[at] != marks[at - period]:
            if at - first >= 2 * period:
                yield first, (at - first) // period
            first = at - period + 1
