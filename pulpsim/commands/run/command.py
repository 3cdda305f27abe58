"""pulpsim run: load, simulate, report; its exit status says how the program ended."""

import gzip
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import pulpsim
from isa.program import Program
from pulpsim.cli.output import STANDARD_OUTPUT, check_writable, write, write_json
from pulpsim.cli.run_config import Options, PreparedRun, load_run
from pulpsim.cli.terminal import GuestConsole, one_line, progress, report_console
from pulpsim.commands.run.tables import show
from soc.chip.profile import UnfitProgramError, float_registers, isa_of
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError, Mistakes
from soc.debug.checkpoint_file import save_at
from soc.debug.whereabouts import whereabouts
from soc.result import Exit, RunResult
from soc.run import run_program
from soc.simulation import Simulation
from soc.trace.issue_trace import issue_lines
from soc.trace.issue_values import with_effects
from soc.trace.recorder import Recording

if TYPE_CHECKING:
    from trainlib.launch import KernelProgram

SUCCESS, GUEST_FAILED, STOPPED, FOUND = 0, 1, 3, 4
INTERRUPTED = 130  # as shells report a program ended by Ctrl-C


def run(file: Path | None, options: Options, is_quiet: bool, is_live: bool = False) -> int:
    """Carry out a run and return the command's exit status.

    is_live    let the person watch it, if there is a terminal

    raises    ConfigError, ElfError
    """
    ready = load_run(file, options)
    sources = file, ready.program if isinstance(ready.program, Path) else None
    if ready.json and ready.json != STANDARD_OUTPUT:
        check_writable("--json", ready.json, *sources)
    if ready.issue_trace:
        check_writable("--issue-trace", ready.issue_trace, *sources)
    if ready.trace:
        check_writable("--trace", ready.trace, *sources)
    if ready.checkpoint:
        check_writable("--checkpoint-at", ready.checkpoint[1], *sources)
    program, kernel = loaded(ready.program, ready.chip, _silence if is_quiet else _say)
    if is_live and _can_be_watched(ready):
        result = _watched(program, ready)
    else:
        recording = recording_of(ready, kernel) if ready.trace else None
        result = _simulate(program, ready, is_quiet, recording)
    report = result.to_json()
    if report["exit"]["reason"] != "exit":
        report["where"] = [one.to_json() for one in whereabouts(result)]
    if kernel:
        report["program"] = kernel.report(result).to_json()
    if ready.trace:
        report["trace"] = {"file": str(ready.trace), "events": result.trace_events}
    mistakes = Mistakes()
    with mistakes.collected():
        if ready.json:
            write_json(report, ready.json)
    with mistakes.collected():
        if ready.issue_trace:
            _write_trace(result, ready.issue_trace)
    if not is_quiet:
        show(report, f"{Path(program.name).name} on {ready.chip.name}", report_console())
    mistakes.raise_any()
    ended = status(report)
    if ended != FOUND and ready.guards.is_strict and report["warnings"]:
        return STOPPED  # a warning may come as the run ends
    return ended


def _silence(text: str) -> None:
    """Discard a message."""


def _say(text: str) -> None:
    typer.echo(one_line(f"pulpsim: {text}"), err=True)


def loaded(
    program: "Path | Program | KernelProgram",
    chip: SocSpec,
    tell: Callable[[str], None] = _silence,
) -> "tuple[Program, KernelProgram | None]":
    """The program that is run, and the kernel's that it belongs to, if there is one.

    tell    called with why the result of a file that says it was built of a kernel is not checked
    """
    if isinstance(program, Path):
        file = Program.from_elf(program)
        return file, _kernel_of(file, chip, tell) if file.origin else None
    return (program, None) if isinstance(program, Program) else (program.program, program)


def _kernel_of(file: Program, chip: SocSpec, tell: Callable[[str], None]) -> "KernelProgram | None":
    """Return the kernel's program that `pulpsim build` wrote, unless it was changed since."""
    from trainlib.rebuild import OriginError, rebuilt

    try:
        return replace(rebuilt(file, chip), program=file)
    except OriginError as error:
        tell(f"{file.name}: its result is not checked: {error}")
        return None


def status(result: dict[str, Any]) -> int:
    """The exit status that stands for a result. A kernel's wrong product counts as a failure.

    What a check has found comes first, unless the person has ended the run.
    """
    end = result["exit"]
    if end["reason"] != "interrupted" and result.get("checks", {}).get("findings"):
        return FOUND
    if end["reason"] == "exit":
        is_correct = result.get("program", {}).get("correct", True)
        return SUCCESS if end["code"] == 0 and is_correct else GUEST_FAILED
    return INTERRUPTED if end["reason"] == "interrupted" else STOPPED


def recording_of(ready: PreparedRun, kernel: "KernelProgram | None") -> Recording:
    """What is to be recorded, with what the trace tells of the program."""
    assert ready.trace
    about: dict[str, Any] = {"simulator": pulpsim.__version__}
    if kernel:
        about["kernel"] = kernel.family.name
        about["arguments"] = kernel.arguments.model_dump(mode="json")
    return Recording(ready.trace, ready.trace_limit, ready.trace_filters, about)


def _simulate(
    program: Program, ready: PreparedRun, is_quiet: bool, recording: Recording | None
) -> RunResult:
    console = None if ready.json == STANDARD_OUTPUT else GuestConsole()
    try:
        result = run_program(
            program,
            ready.chip,
            engine=ready.engine,
            max_cycles=ready.max_cycles,
            on_console=console,
            progress=nullcontext if is_quiet else progress,
            issue_trace=ready.issue_trace is not None,
            values=ready.values,
            trace=recording,
            guards=ready.guards,
            checks=ready.checks,
            begin=partial(_begin, ready),
        )
    except UnfitProgramError as error:
        raise ConfigError([f"{program.name}: {error}"]) from None
    if console:
        console.close()
    return result


def _begin(ready: PreparedRun, simulation: Simulation) -> None:
    """Advance a simulation to where the run goes on, and take the checkpoint that is asked for."""
    if ready.start:
        ready.start.restore(simulation)
    if not ready.checkpoint:
        return
    cycle, file = ready.checkpoint
    if cycle < simulation.cycle:
        raise ConfigError([f"--checkpoint-at {cycle}: the run goes on from {simulation.cycle}"])
    end = save_at(simulation, cycle, file)
    if end:
        raise ConfigError([f"--checkpoint-at {cycle}: {_ended(end, simulation.cycle)}"])


def _ended(end: Exit, cycle: int) -> str:
    return end.message or f"the program has returned {end.code} in cycle {cycle}"


def _can_be_watched(ready: PreparedRun) -> bool:
    """Is there a terminal? If not, tell that the run goes on without being watched."""
    from pulpsim.tui.command import has_terminal

    if not has_terminal():
        report_console().print("pulpsim: --tui needs a terminal; this is the report alone")
        return False
    for option, file in (
        ("--issue-trace", ready.issue_trace),
        ("--trace", ready.trace),
        ("--check", ready.checks),
    ):
        if file:
            raise ConfigError([f"--tui: goes back and forth, which {option} cannot; leave one out"])
    return True


def _watched(program: Program, ready: PreparedRun) -> RunResult:
    from pulpsim.tui.command import is_served, watch

    try:
        result = watch(program, ready)
    except UnfitProgramError as error:
        raise ConfigError([f"{program.name}: {error}"]) from None
    if ready.json != STANDARD_OUTPUT and not is_served():
        console = GuestConsole()
        console(result.console)
        console.close()
    return result


def _write_trace(result: RunResult, file: Path) -> None:
    assert result.issues is not None
    isa = isa_of(result.spec, float_registers(result.spec, result.program))
    lines = issue_lines(result.issues, isa)
    if result.effects is not None:
        lines = with_effects(lines, result.effects)
    data = "".join(f"{line}\n" for line in lines).encode()
    write("--issue-trace", file, gzip.compress(data) if file.suffix == ".gz" else data)
