"""Places where points are measured: threads of this process, or processes of this machine.

Whatever the place, and however many work there, what is measured is the same: a run is a simulation
of its own, and who asks gets the outcomes under the numbers of the runs.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from soc.run_many import Keep, Run, carry_out_here, processors, run_many
from soc.run_process import Process

ATTEMPTS = 5
"""Workers that may die under a run. It fails then: it is likely to be what kills them."""

OnRun = Callable[[int, Any], None]


class Place(Protocol):
    """Somewhere to carry out runs."""

    def carry_out(self, runs: Sequence[Run], keep: Keep, on_end: OnRun) -> None:
        """Carry out runs side by side; on_end gets each one's number and outcome as it ends.

        keep    what of a result is the outcome; what goes wrong is an outcome too: an exception

        raises    what on_end raises, and KeyboardInterrupt; ConfigError if the place is lost
        """


class Threads:
    """Threads of this process: simulating takes all processors, building programs takes one."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count

    def carry_out(self, runs: Sequence[Run], keep: Keep, on_end: OnRun) -> None:
        """As every Place."""
        run_many(runs, workers=self.count, keep=keep, on_end=on_end)


class Processes:
    """Processes that stay from one call to the next, each with its interpreter loaded.

    They start as they are needed. A run whose process dies is carried out by another.

        with Processes(2) as place:
            Measure(layer, chip, database, place=place)
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or processors()
        self.idle: list[Process] = []

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.idle:
            process.close()
        self.idle.clear()

    def carry_out(self, runs: Sequence[Run], keep: Keep, on_end: OnRun) -> None:
        """As every Place."""
        waiting, deaths = deque(range(len(runs))), Counter[int]()
        busy: dict[Connection, tuple[Process, int]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.count:
                    process, number = self._process(), waiting.popleft()
                    busy[process.connection] = process, number
                    process.begin(runs[number], keep)
                ready = wait(list(busy))
                for connection in [c for c in busy if c in ready]:
                    process, number = busy.pop(connection)
                    outcome, is_alive = self._end(process)
                    deaths[number] += not is_alive
                    if is_alive or deaths[number] == ATTEMPTS:
                        on_end(number, outcome)
                    else:
                        waiting.appendleft(number)
        finally:
            for process, _ in busy.values():
                process.kill()

    def _process(self) -> Process:
        return self.idle.pop() if self.idle else Process(carry_out_here)

    def _end(self, process: Process) -> tuple[Any, bool]:
        """The outcome of its run; False with it if that is its death."""
        try:
            outcome = process.end()
        except Exception as error:
            if not process.process.is_alive():
                return error, False
            outcome = error
        self.idle.append(process)
        return outcome, True
