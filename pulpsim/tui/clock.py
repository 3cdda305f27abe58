"""Time on the screen: how fast it passes, and how much of it is a column."""

from time import perf_counter

RATES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 0)
"""Cycles a second to run at; 0: as fast as possible."""


def even_width(cycles: int, columns: int) -> int:
    """Cycles a column, so that all fit: 1, 2, 3, 4, 6, 8, 12, ..."""
    needed = max(1, -(-cycles // columns))
    power = 1 << (needed - 1).bit_length()
    return power * 3 // 4 if power >= 4 and power * 3 // 4 >= needed else power


class Speed:
    """Cycles and instructions a second, over the last second or so."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew, after a pause."""
        self.marks = [(perf_counter(), 0, 0)]
        self.last = perf_counter()

    def since_last(self, now: float) -> float:
        """Seconds since this was asked before."""
        seconds, self.last = now - self.last, now
        return seconds

    def note(self, cycles: int, instructions: int) -> None:
        """So much was simulated just now."""
        _, c, i = self.marks[-1]
        self.marks.append((perf_counter(), c + cycles, i + instructions))
        while len(self.marks) > 2 and self.marks[-1][0] - self.marks[0][0] > 1.0:
            self.marks.pop(0)

    def rates(self) -> tuple[float, float]:
        """Cycles and instructions a second."""
        (then, c, i), (now, cycles, instructions) = self.marks[0], self.marks[-1]
        seconds = max(1e-6, now - then)
        return (cycles - c) / seconds, (instructions - i) / seconds
