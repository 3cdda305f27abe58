"""Places where points are measured: threads of this process, or processes of this machine.

Whatever the place, and however many work there, what is measured is the same: a run is a simulation
of its own, and who asks gets the outcomes under the numbers of the runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from soc import worker_process
from soc.run_many import Keep, Run, carry_out_all, carry_out_here, processors, run_many

ATTEMPTS = 5
"""Workers that may die under a run. It fails then: it is likely to be what kills them."""

OnRun = Callable[[int, Any], None]


class Place(Protocol):
    """Somewhere to carry out runs."""

    def carry_out(self, runs: Sequence[Run], keep: Keep | None, on_end: OnRun) -> None:
        """Carry out runs side by side; on_end gets each one's number and outcome as it ends.

        keep    what of a result is the outcome; what goes wrong is an outcome too: an exception

        raises    what on_end raises, and KeyboardInterrupt; ConfigError if the place is lost
        """


class Threads:
    """Threads of this process: simulating takes all processors, building programs takes one."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count

    def carry_out(self, runs: Sequence[Run], keep: Keep | None, on_end: OnRun) -> None:
        """As every Place."""
        run_many(runs, workers=self.count, keep=keep, on_end=on_end)


class Processes(worker_process.Processes):
    """Processes that stay from one call to the next, each with its interpreter loaded.

    They start as they are needed. A run whose process dies is carried out by another.

        with Processes(2) as place:
            Measure(layer, chip, database, place=place)
    """

    def __init__(self, count: int | None = None) -> None:
        super().__init__(carry_out_here, ATTEMPTS)
        self.count = count or processors()

    def carry_out(self, runs: Sequence[Run], keep: Keep | None, on_end: OnRun) -> None:
        """As every Place."""
        carry_out_all(self, runs, keep, on_end, self.count)
