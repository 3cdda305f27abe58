"""How far a search is, for a person who waits for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console

from autotuner.measurement import Outcome
from autotuner.space import Point
from pulpsim.cli.terminal import spinner

MINUTES = 100  # seconds from which on minutes are shown


class Pace:
    """How long the layers after will take: as long as those before, if those took any work."""

    def __init__(self, layers: int) -> None:
        self.layers, self.begun = layers, 0
        self.seconds: list[float] = []

    @property
    def number(self) -> str:
        """Which layer it is of how many."""
        return f", {self.begun} of {self.layers}" if self.layers > 1 else ""

    def left(self, of_this: float, this: float) -> float:
        """Seconds to the end of all layers.

        of_this    seconds that this layer still takes
        this       that it takes in all
        """
        known = [*self.seconds, this]
        return of_this + (self.layers - self.begun) * sum(known) / len(known)


class Progress:
    """How far the search of a layer is: points done, best so far, time left.

    most    points that will be measured, nearly
    """

    def __init__(self, name: str, most: int, console: Console, pace: Pace | None = None) -> None:
        self.name, self.most, self.console = name, most, console
        self.pace = pace or Pace(1)
        self.pace.begun += 1
        self.started = monotonic()
        self.best = Outcome(None)
        self.point: Point | None = None
        self.points, self.tiles = set[Point](), 0

    def note(self, point: Point, outcome: Outcome) -> None:
        """A point is done."""
        if outcome.rank < self.best.rank:
            self.best, self.point = outcome, point
        self.points.add(point)
        self._update()

    def note_tile(self, point: Point, outcome: Outcome) -> None:
        """A single tile is done."""
        self.tiles += 1
        self._update()

    @property
    def done(self) -> int:
        """Points and tiles that are done, each once."""
        return len(self.points) + self.tiles

    @property
    def line(self) -> str:
        """One line of it."""
        most = f" of about {self.most:,}" if self.done <= self.most else ""
        done = f"{self.name}{self.pace.number}: {self.done:,}{most} points"
        if not self.done:
            return done
        what = "none has succeeded"
        if self.best.cycles is not None:
            what = f"best {self.best.cycles:,} cycles"
        elapsed = monotonic() - self.started
        left = elapsed / self.done * max(self.most - self.done, 0)
        times = f"{_shown(left)} left"
        if self.pace.layers > 1:
            times += f", {_shown(self.pace.left(left, elapsed + left))} for all"
        return f"{done}, {what}, {times}"

    def _update(self) -> None:
        if self.status:
            self.status.update(self.line)

    @contextmanager
    def shown(self) -> Iterator["Progress"]:
        """Show it in a terminal while the body runs; say the best if that is interrupted."""
        self.status = None
        try:
            with spinner(self.console, self.line) as self.status:
                yield self
        except KeyboardInterrupt:
            if self.best.cycles is not None:
                best = f"the best so far takes {self.best.cycles:,} cycles: {self.point}"
                self.console.print(f"{self.name}: {best}", soft_wrap=True)
            raise

    def end(self, simulated: int) -> None:
        """Note how long it took, if it was work: what is known already tells nothing."""
        if simulated:
            self.pace.seconds.append(monotonic() - self.started)


def _shown(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < MINUTES else f"{seconds / 60:.0f} min"
