"""Run many programs at once: in threads, since compiled simulations release the interpreter lock,
or each in a process of its own, where one must not harm another.

    results = run_many(Run(program, max_cycles=1_000_000) for program in programs)
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import Any

from isa.program import Program
from soc.chip.spec import SocSpec
from soc.host.compile_process import stop_compiling
from soc.result import RunResult
from soc.run import carry_out, prepare
from soc.simulation import Simulation
from soc.worker_process import Processes

ISOLATIONS = ("thread", "process")

Keep = Callable[[RunResult], Any]


@dataclass(frozen=True)
class Run:
    """One of many runs; what is not said here is as in run_program.

    program    or the path of an ELF file, or a function that builds the program where it runs
    """

    program: Program | str | PathLike | Callable[[], Program]
    chip: SocSpec | str = "pulp"
    engine: str = "compiled"
    max_cycles: int | None = None

    def prepare(self, progress: Callable = nullcontext) -> Simulation:
        """The simulation that has not begun."""
        program = self.program() if callable(self.program) else self.program
        return prepare(program, self.chip, self.engine, progress=progress)


def run_many(
    runs: Iterable[Run],
    *,
    workers: int | None = None,
    isolation: str = "thread",
    keep: Keep | None = None,
    on_end: Callable[[int, Any], None] | None = None,
    progress: Callable = nullcontext,
) -> list[Any]:
    """Carry out runs side by side; return the outcome of each, in the order of `runs`.

    An outcome is the run's RunResult, which says so if it met a trap, a deadlock or its cycle
    limit. A run that cannot even begin, or whose process dies, has an exception for an outcome.
    The others do not notice.

    workers      runs at a time; None: as many as there are processors for this process
    isolation    "thread", or "process": runs, `keep` and outcomes are pickled then, and a script
                 must guard what it starts by `if __name__ == "__main__"`
    keep         what of a result is the outcome, computed where it ran: `lambda r: r.cycles`.
                 None: the whole result, which holds a chip's memory, some 100 kB and more
    on_end       called in this thread with each run's index and outcome, as the runs end
    progress     as in run_program; not shown by processes

    raises    ValueError for another isolation, or no workers; what on_end raises, and
              KeyboardInterrupt, once the runs under way have stopped
    """
    if isolation not in ISOLATIONS:
        raise ValueError(f"isolation {isolation!r}; there are {', '.join(ISOLATIONS)}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}; at least one is needed")
    place = Threads(progress) if isolation == "thread" else Processes(carry_out_here)
    outcomes: dict[int, Any] = {}

    def ended(number: int, outcome: Any) -> None:
        outcomes[number] = outcome
        if on_end:
            on_end(number, outcome)

    with place:
        carry_out_all(place, runs, keep, ended, workers or processors())
    return [outcomes[number] for number in range(len(outcomes))]


def carry_out_all(
    place: "Threads | Processes",
    runs: Iterable[Run],
    keep: Keep | None,
    on_end: Callable[[int, Any], None],
    workers: int,
) -> None:
    """Carry out runs side by side at a place; on_end gets each one's number and outcome."""
    with ThreadPoolExecutor(workers) as threads:
        futures = [threads.submit(place.outcome, run, keep) for run in runs]
        try:
            tell_ends(futures, lambda number, future: on_end(number, future.result()))
        except BaseException:
            place.stop()
            raise


def tell_ends(futures: Sequence[Future], on_end: Callable[[int, Future], None]) -> None:
    """Call on_end with the number of each future of an executor, and with itself, as it ends.

    raises    what on_end raises, once what has not begun is cancelled
    """
    numbers = {future: number for number, future in enumerate(futures)}
    try:
        for future in as_completed(futures):
            on_end(numbers[future], future)
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def carry_out_here(run: Run, keep: Keep | None) -> Any:
    """The outcome of a run in this process."""
    return Threads().outcome(run, keep)


class Threads:
    """Runs in this process: each call of `outcome` may come from a thread of its own."""

    def __init__(self, progress: Callable = nullcontext):
        self.progress = progress
        self.running: set[Simulation] = set()
        self.is_stopped = False

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def outcome(self, run: Run, keep: Keep | None) -> Any:
        """Carry out a run; what goes wrong is its outcome too, whatever it is."""
        try:
            simulation = run.prepare(self.progress)
            self.running.add(simulation)
            if self.is_stopped:
                simulation.interrupt()
            try:
                result = carry_out(simulation, run.max_cycles)
            finally:
                self.running.discard(simulation)
            return keep(result) if keep else result
        except Exception as error:
            return error

    def stop(self) -> None:
        """Let the runs under way end soon, and those that wait for the compiler."""
        self.is_stopped = True
        stop_compiling()
        for simulation in list(self.running):
            simulation.interrupt()
