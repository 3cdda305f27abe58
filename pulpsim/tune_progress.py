"""How far a search is, for a person who waits for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console

from autotuner.outcome import Outcome
from autotuner.space import Point


class Progress:
    """How far the search of a layer is: points done, best so far, time left."""

    def __init__(self, name: str, most: int, console: Console) -> None:
        self.name, self.most, self.console = name, most, console
        self.started = monotonic()
        self.done: dict[Point, Outcome] = {}
        self.tiles = 0

    def note(self, point: Point, outcome: Outcome) -> None:
        """A point is done."""
        self.done[point] = outcome
        self._update()

    def note_tile(self, point: Point, outcome: Outcome) -> None:
        """A single tile is done."""
        self.tiles += 1
        self._update()

    @property
    def line(self) -> str:
        """One line of it."""
        done = len(self.done)
        best = min((o.rank for o in self.done.values()), default=float("inf"))
        left = (monotonic() - self.started) / done * max(self.most - done, 0) if done else 0.0
        what = f"best {best:,.0f} cycles" if best < float("inf") else "none has succeeded"
        return f"{self.name}: {done + self.tiles} points, {what}, about {left:.0f} s left"

    def _update(self) -> None:
        if self.status:
            self.status.update(self.line)

    @contextmanager
    def shown(self) -> Iterator["Progress"]:
        """Show it in a terminal while the body runs."""
        self.status = None
        if not self.console.is_terminal:
            yield self
            return
        with self.console.status(f"{self.name} ...") as self.status:
            yield self
