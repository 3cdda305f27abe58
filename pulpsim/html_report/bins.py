"""A run's cycles in bins of equal width: how much of what falls into each, exactly."""

from dataclasses import dataclass

import numpy as np

MOST = 600
"""Bins that a picture can show."""


@dataclass(frozen=True)
class Bins:
    """Cycles first .. first + cycles - 1 in bins of `width`; the last one may be shorter."""

    first: int
    cycles: int
    width: int

    @classmethod
    def of(cls, first: int, cycles: int, most: int = MOST) -> "Bins":
        """The narrowest bins of which there are at most `most`."""
        return cls(first, cycles, max(1, -(-cycles // most)))

    @property
    def count(self) -> int:
        return max(1, -(-self.cycles // self.width))

    @property
    def widths(self) -> np.ndarray:
        """Cycles in each bin, int64[count]."""
        edges = np.minimum(np.arange(self.count + 1) * self.width, self.cycles)
        return np.diff(edges)

    def points(self, cycles: np.ndarray, groups: np.ndarray | int = 0, of: int = 1) -> np.ndarray:
        """Events in each bin, int64[of, count].

        cycles    of the events, from the first on
        groups    number of each event's row, below `of`
        """
        places = np.minimum(cycles // self.width, self.count - 1)
        rows = np.asarray(groups, np.int64) * self.count + places
        return np.bincount(rows, minlength=of * self.count).reshape(of, self.count)

    def spans(
        self, starts: np.ndarray, lengths: np.ndarray, groups: np.ndarray | int = 0, of: int = 1
    ) -> np.ndarray:
        """Cycles of spans in each bin, int64[of, count]; where two overlap, both count.

        What lies after the last bin does not count.
        """
        starts = np.asarray(starts, np.int64)
        ends = np.minimum(starts + np.asarray(lengths, np.int64), self.cycles)
        starts = np.minimum(starts, self.cycles)
        rows = np.broadcast_to(np.asarray(groups, np.int64), starts.shape)
        return self._before_edges(starts, rows, of) - self._before_edges(ends, rows, of)

    def _before_edges(self, points: np.ndarray, rows: np.ndarray, of: int) -> np.ndarray:
        """For each bin, the cycles of it that lie after a point, added up over all points.

        A point inside the bin has the rest of it, a point before it all of it.
        """
        inside = np.minimum(points // self.width, self.count - 1)
        cell = rows * self.count + inside
        size = of * self.count
        number = np.bincount(cell, minlength=size).reshape(of, self.count)
        passed = points - inside * self.width
        # Sums stay below 2^53: exact as the floats that bincount returns.
        skipped = np.bincount(cell, passed, minlength=size).astype(np.int64)
        earlier = np.cumsum(number, axis=1) - number
        widths = self.widths
        return earlier * widths + number * widths - skipped.reshape(of, self.count)
