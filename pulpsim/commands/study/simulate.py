"""Simulate the cases of a study side by side, or remember them."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import partial

from firmware.builder import KernelError
from pulpsim.commands.study.result_store import Store, key_of
from pulpsim.commands.study.study import Case, Finding, Measured, Result
from soc.config.toml import ConfigError
from soc.result import RunResult
from soc.run_many import Run, Threads, outcomes_of

LIMIT = 100_000_000  # cycles of a case; beyond, it has failed

OnEnd = Callable[[Finding], None]


class Simulate:
    """Finds the results of cases.

    store        what is known, and gets what is found
    workers      simulations at a time; None: as many as there are processors
    executor     carries them out; None: threads of this process
    on_built     called when a case's program is built, or cannot be
    on_end       called with each finding
    progress     as in run_program

    simulated    cases that were not known, so far
    """

    def __init__(
        self,
        study: str,
        store: Store,
        *,
        workers: int | None = None,
        executor: Executor | None = None,
        on_built: Callable[[], None] = lambda: None,
        on_end: OnEnd = lambda finding: None,
        progress: Callable = nullcontext,
    ) -> None:
        self.study, self.store, self.workers, self.executor = study, store, workers, executor
        self.on_built, self.on_end, self.progress = on_built, on_end, progress
        self.simulated = 0

    def __call__(self, cases: Sequence[Case]) -> list[Finding]:
        """The finding of each case, in their order.

        raises    ConfigError if the store refuses
        """
        found: dict[int, Finding] = {}
        programs: dict[int, Measured] = {}
        for index, case in enumerate(cases):
            try:
                programs[index] = case.build()
            except (KernelError, ConfigError, ValueError) as error:
                found[index] = Finding(case, {}, str(error))
            self.on_built()
        for finding in found.values():
            self.on_end(finding)
        keys = {i: key_of(program, cases[i].chip, LIMIT) for i, program in programs.items()}
        known = self.store.find(set(keys.values()))
        for index, key in keys.items():
            if key in known:
                self._note(found, index, finding_of(cases[index], known[key]))
        missing = [index for index in programs if index not in found]
        self._simulate(cases, programs, keys, missing, found)
        return [found[index] for index in range(len(cases))]

    def _note(self, found: dict[int, Finding], index: int, finding: Finding) -> None:
        found[index] = finding
        self.on_end(finding)

    def _simulate(
        self,
        cases: Sequence[Case],
        programs: dict[int, Measured],
        keys: dict[int, str],
        missing: Sequence[int],
        found: dict[int, Finding],
    ) -> None:
        def ended(position: int, outcome: Result | Exception) -> None:
            index = missing[position]
            self.simulated += 1
            if isinstance(outcome, Exception):
                failure = f"{type(outcome).__name__}: {outcome}"
                self._note(found, index, Finding(cases[index], {}, failure))
                return
            finding = finding_of(cases[index], outcome)
            if outcome["exit"]["reason"] != "interrupted":
                self.store.keep(keys[index], self.study, finding)
            self._note(found, index, finding)

        runs = [Run(programs[i], cases[i].chip, max_cycles=LIMIT) for i in missing]
        own = nullcontext(self.executor) if self.executor else Threads(self.workers, self.progress)
        with own as executor:
            outcomes_of(executor, runs, kept, ended)


def kept(run: RunResult) -> Result:
    """What is kept of a run."""
    assert isinstance(run.program, Measured)
    return run.program.result(run)


def finding_of(case: Case, result: Result) -> Finding:
    """A finding; it says so if the run did not end as it should, or computed something else."""
    end = result["exit"]
    make = partial(Finding, case, result)
    if end["reason"] != "exit":
        return make(f"{end['reason']}: {end.get('message', '')}")
    if end["code"]:
        return make(f"exit code {end['code']}")
    if not result.get("program", {}).get("correct", True):
        return make(f"wrong result: largest error {result['program']['max_error']}")
    return make()
