"""Run a program on a chip."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from time import perf_counter, thread_time

from isa.program import Program
from soc.guards import DEFAULT_GUARDS, Guards
from soc.issue_trace import issues_of
from soc.recorder import Recording
from soc.result import RunResult
from soc.simulation import Simulation
from soc.spec import SocSpec, load_chip
from soc.temporary import TemporaryFolder
from soc.trace import Trace

ENGINES = ("compiled", "event")


def run_program(
    program: Program | str | PathLike,
    chip: SocSpec | str = "pulp",
    *,
    engine: str = "compiled",
    max_cycles: int | None = None,
    on_console: Callable[[str], None] | None = None,
    progress: Callable = nullcontext,
    issue_trace: bool = False,
    trace: Recording | None = None,
    guards: Guards = DEFAULT_GUARDS,
) -> RunResult:
    """Run a program to its end and return what it leaves.

    program       or the path of an ELF file
    chip          or its name
    max_cycles    stop there at the latest
    on_console    gets the program's text as it comes
    progress      context manager around long steps: progress("compiling ...")
    issue_trace   keep every instruction in the result's `issues`
    trace         record what happens in a file, see soc.trace; not together with issue_trace
    guards        what it may print, and whether a warning ends the run

    raises    ElfError, ConfigError, UnfitProgramError, ValueError for an argument; what goes wrong
              while the program runs is not raised, it is the result's `exit`
    """
    if max_cycles is not None and max_cycles < 0:
        raise ValueError(f"max_cycles {max_cycles}; it is a number of cycles from 0 on")
    if not issue_trace:
        simulation = prepare(program, chip, engine, on_console, progress, trace, guards)
        return carry_out(simulation, max_cycles)
    if trace:
        raise ValueError("issue_trace and trace exclude each other; a trace has all issues")
    with TemporaryFolder("pulpsim-issues-") as folder:
        trace = Recording(folder / "issues.trace", filters=("kind=issue",))
        simulation = prepare(program, chip, engine, on_console, progress, trace, guards)
        result = carry_out(simulation, max_cycles)
        return replace(result, issues=issues_of(Trace.open(trace.file)), trace_events=None)


def prepare(
    program: Program | str | PathLike,
    chip: SocSpec | str,
    engine: str,
    on_console: Callable[[str], None] | None = None,
    progress: Callable = nullcontext,
    trace: Recording | None = None,
    guards: Guards = DEFAULT_GUARDS,
) -> Simulation:
    """A simulation that has not begun; arguments and exceptions as in run_program."""
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r}; the engines are {', '.join(ENGINES)}")
    if not isinstance(program, Program):
        program = Program.from_elf(program)
    spec = load_chip(chip) if isinstance(chip, str) else chip
    console = on_console or (lambda text: None)
    return Simulation(program, spec, engine, console, progress, trace, guards)


def carry_out(simulation: Simulation, max_cycles: int | None) -> RunResult:
    """Let a simulation run to its end, or this cycle."""
    started, worked = perf_counter(), thread_time()
    end = simulation.run(max_cycles)
    seconds, processor_seconds = perf_counter() - started, thread_time() - worked
    return replace(simulation.result(end, seconds), processor_seconds=processor_seconds)
