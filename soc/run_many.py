"""Run many programs at once: in threads, since compiled simulations release the interpreter lock,
or each in a process of its own, where one must not harm another.

    results = run_many(Run(program, max_cycles=1_000_000) for program in programs)
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import Any

from isa.program import Program
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError
from soc.host.compile_process import stop_compiling
from soc.result import RunResult
from soc.run import carry_out, prepare
from soc.simulation import Simulation
from soc.worker_process import Processes, processors

ISOLATIONS = ("thread", "process")

Keep = Callable[[RunResult], Any]
OnOutcome = Callable[[int, Any], None]


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
    on_end: OnOutcome | None = None,
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
    executor = Threads(workers, progress) if isolation == "thread" else Processes(workers, 1)
    with executor:
        return outcomes_of(executor, runs, keep, on_end)


def outcomes_of(
    executor: Executor,
    runs: Iterable[Run],
    keep: Keep | None = None,
    on_end: OnOutcome | None = None,
) -> list[Any]:
    """Carry out runs by an executor, as run_many does; return the outcome of each, in order.

    executor    Threads, Processes, or autotuner.dask_executor's Cluster

    raises    what on_end raises, and KeyboardInterrupt, once what has not begun is cancelled;
              ConfigError if the executor cannot carry out any
    """
    futures = [executor.submit(carry_out_here, run, keep) for run in runs]
    numbers = {future: number for number, future in enumerate(futures)}
    outcomes: list[Any] = [None] * len(futures)
    try:
        for future in as_completed(futures):
            number = numbers[future]
            outcomes[number] = _outcome(future)
            if on_end:
                on_end(number, outcomes[number])
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return outcomes


def _outcome(future: Future) -> Any:
    try:
        return future.result()
    except ConfigError:  # of the executor: a run's own is its outcome
        raise
    except Exception as error:
        return error


def carry_out_here(run: Run, keep: Keep | None) -> Any:
    """The outcome of a run in this thread; what goes wrong is an outcome too, whatever it is."""
    threads: Threads | None = getattr(_thread, "executor", None)
    try:
        simulation = run.prepare(threads.progress if threads else nullcontext)
        with threads.under_way(simulation) if threads else nullcontext():
            result = carry_out(simulation, run.max_cycles)
        return keep(result) if keep else result
    except Exception as error:
        return error


_thread = threading.local()
"""Its `executor` is the one that this thread is of, if it is of any."""


class Threads(ThreadPoolExecutor):
    """Threads of this process: simulating takes all processors, building programs takes one.

    count       runs at a time; None: as many as there are processors
    progress    as in run_program

    An error that ends the context ends the simulations under way.
    """

    def __init__(self, count: int | None = None, progress: Callable = nullcontext):
        super().__init__(count or processors(), initializer=self._enter)
        self.progress = progress
        self.simulations: set[Simulation] = set()
        self.is_stopped = False

    def _enter(self) -> None:
        _thread.executor = self

    @contextmanager
    def under_way(self, simulation: Simulation) -> Iterator[None]:
        """A simulation runs in the body; it ends soon if the executor is stopped."""
        self.simulations.add(simulation)
        if self.is_stopped:
            simulation.interrupt()
        try:
            yield
        finally:
            self.simulations.discard(simulation)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads; if futures are cancelled, runs and compilers under way end soon."""
        if cancel_futures:
            self.is_stopped = True
            stop_compiling()
            for simulation in list(self.simulations):
                simulation.interrupt()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=error is not None)
