"""Run a program on a chip."""

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from time import perf_counter, thread_time

import numpy as np

from isa.program import Program
from soc.check.report import CHECKS
from soc.checked import CheckedSimulation
from soc.chip.spec import SocSpec, load_chip
from soc.guards import DEFAULT_GUARDS, Guards
from soc.host.temporary import TemporaryFolder
from soc.jit.code_cache import SHARED, CodeCache
from soc.result import RunResult
from soc.simulation import Simulation
from soc.trace import issue_values
from soc.trace.issue_trace import issues_of
from soc.trace.reader import Trace
from soc.trace.recorder import Recording

ENGINES = ("compiled", "event")

ONE_BUFFER = "both take what harts note from one buffer"


def run_program(
    program: Program | str | PathLike,
    chip: SocSpec | str = "pulp",
    *,
    engine: str = "compiled",
    max_cycles: int | None = None,
    on_console: Callable[[str], None] | None = None,
    progress: Callable = nullcontext,
    issue_trace: bool = False,
    values: bool = False,
    trace: Recording | None = None,
    guards: Guards = DEFAULT_GUARDS,
    code_cache: CodeCache = SHARED,
    checks: Collection[str] = (),
    begin: Callable[[Simulation], None] = lambda simulation: None,
) -> RunResult:
    """Run a program to its end and return what it leaves.

    program       or the path of an ELF file
    chip          or its name
    max_cycles    stop there at the latest
    on_console    gets the program's text as it comes
    progress      context manager around long steps: progress("compiling ...")
    issue_trace   keep every instruction in the result's `issues`
    values        and what each of them did, in `effects`
    trace         record what happens in a file, see soc.trace.reader; not together with issue_trace
    guards        what it may print, and whether a warning ends the run
    code_cache    of the machine code of hot code; runs that are given none share one
    checks        of soc.check.report.CHECKS; not together with a trace
    begin         is called before the first cycle: to go on from a checkpoint, or to take one

    raises    ElfError, ConfigError, UnfitProgramError, ValueError for an argument; what goes wrong
              while the program runs is not raised, it is the result's `exit`
    """
    if max_cycles is not None and max_cycles < 0:
        raise ValueError(f"max_cycles {max_cycles}; it is a number of cycles from 0 on")
    if checks:
        if issue_trace or trace:
            raise ValueError(f"checks and a trace exclude each other: {ONE_BUFFER}; make two runs")
        how = on_console, progress, guards, code_cache
        simulation = prepare_checked(program, chip, engine, checks, *how)
        begin(simulation)
        return carry_out(simulation, max_cycles)
    if not issue_trace:
        simulation = prepare(program, chip, engine, on_console, progress, trace, guards, code_cache)
        begin(simulation)
        return carry_out(simulation, max_cycles)
    if trace:
        raise ValueError("issue_trace and trace exclude each other; a trace has all issues")
    with TemporaryFolder("pulpsim-issues-") as folder:
        kinds = issue_values.KINDS if values else "kind=issue"
        trace = Recording(folder / "issues.trace", filters=(kinds,))
        simulation = prepare(program, chip, engine, on_console, progress, trace, guards, code_cache)
        begin(simulation)
        result = carry_out(simulation, max_cycles)
        events = Trace.open(trace.file)
        issues = issues_of(events)
        # A checkpoint's state is older than its cycle: what issued on the way is not of this run.
        before = int(np.searchsorted(issues["cycle"], simulation.first))
        effects = None
        if values:
            of_all = issue_values.effects_of(events).items()
            effects = {number - before: text for number, text in of_all if number >= before}
        return replace(result, issues=issues[before:], effects=effects, trace_events=None)


def prepare(
    program: Program | str | PathLike,
    chip: SocSpec | str,
    engine: str,
    on_console: Callable[[str], None] | None = None,
    progress: Callable = nullcontext,
    trace: Recording | None = None,
    guards: Guards = DEFAULT_GUARDS,
    code_cache: CodeCache = SHARED,
) -> Simulation:
    """A simulation that has not begun; arguments and exceptions as in run_program."""
    loaded = _loaded(program, chip, engine)
    console = on_console or _no_console
    return Simulation(*loaded, console, progress, trace, guards, code_cache)


def prepare_checked(
    program: Program | str | PathLike,
    chip: SocSpec | str,
    engine: str,
    checks: Collection[str],
    on_console: Callable[[str], None] | None = None,
    progress: Callable = nullcontext,
    guards: Guards = DEFAULT_GUARDS,
    code_cache: CodeCache = SHARED,
) -> Simulation:
    """A simulation that is checked and has not begun; arguments and exceptions: run_program."""
    for name in checks:
        if name not in CHECKS:
            raise ValueError(f"check {name!r}; the checks are {', '.join(CHECKS)}")
    console = on_console or _no_console
    loaded = _loaded(program, chip, engine)
    return CheckedSimulation(*loaded, console, progress, frozenset(checks), guards, code_cache)


def _loaded(
    program: Program | str | PathLike, chip: SocSpec | str, engine: str
) -> tuple[Program, SocSpec, str]:
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r}; the engines are {', '.join(ENGINES)}")
    if not isinstance(program, Program):
        program = Program.from_elf(program)
    return program, load_chip(chip) if isinstance(chip, str) else chip, engine


def _no_console(text: str) -> None:
    pass


def carry_out(simulation: Simulation, max_cycles: int | None) -> RunResult:
    """Let a simulation run to its end, or this cycle."""
    started, worked = perf_counter(), thread_time()
    end = simulation.run(max_cycles)
    simulation.console.finish()
    seconds, processor_seconds = perf_counter() - started, thread_time() - worked
    return replace(simulation.result(end, seconds), processor_seconds=processor_seconds)
