"""Outcomes of measurements."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """A point's cycles, or why it has none.

    cycles      of the whole layer, from tensors in L2 to tensors in L2; None: it has failed
    l1_bytes    that its buffers take; None: it was not even built
    reason      why it has failed, "" if it has not
    phases      cycles of each phase by its name, where it has succeeded and there are any
    """

    cycles: int | None
    l1_bytes: int | None = None
    reason: str = ""
    phases: tuple[tuple[str, int], ...] = ()

    @property
    def rank(self) -> float:
        """Cycles, more than any if it has failed."""
        return float("inf") if self.cycles is None else self.cycles
