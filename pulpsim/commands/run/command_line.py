"""pulpsim run: what its command line says. Loads what it needs late."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pulpsim.cli.shared_options import Arguments, Chip, Engine, Json, Settings, reporting_bad_input


def run(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="PROGRAM", help="An ELF file, or a config file that says what to run, and how."
        ),
    ] = None,
    engine: Engine = None,
    elf: Annotated[Path | None, typer.Option(metavar="FILE", help="Run this ELF file.")] = None,
    kernel: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run this kernel; `pulpsim kernels` lists them."),
    ] = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    json: Json = None,
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", help="Stop the run after N cycles.")
    ] = None,
    console_limit: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            help="Drop what the program prints after so many bytes; 1,000,000 by default.",
        ),
    ] = None,
    console: Annotated[
        str | None,
        typer.Option(
            metavar="lines|raw",
            help="Show whole lines of each core, or characters as they are stored.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Let the first warning end the run, with exit status 3."),
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Check the program for races,memory,stack,performance, or some of them.",
        ),
    ] = None,
    issue_trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every instruction and its cycle as text, compressed if FILE ends in .gz.",
        ),
    ] = None,
    values: Annotated[
        bool,
        typer.Option(
            "--values", help="Add what each instruction wrote and accessed to the --issue-trace."
        ),
    ] = False,
    checkpoint: Annotated[
        tuple[int, Path] | None,
        typer.Option(
            "--checkpoint-at", metavar="CYCLE FILE", help="Save the run's state at a cycle."
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Continue from a --checkpoint-at file, which names its program.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Record every cycle in FILE, for `pulpsim trace` and `report`."
        ),
    ] = None,
    trace_limit: Annotated[
        int | None,
        typer.Option(
            metavar="EVENTS", help="End the recording after so many events; the run goes on."
        ),
    ] = None,
    trace_filters: Annotated[
        list[str] | None,
        typer.Option(
            "--trace-filter",
            metavar="KEY=VALUE",
            help="Record only kind=issue,stall hart=0-3,fc cycle=A-B pc=A-B function=F region=R; "
            "repeatable.",
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Show only what the program prints: no report, no progress."),
    ] = False,
    tui: Annotated[
        bool,
        typer.Option(
            "--tui", help="Open the live view in the terminal: pause, step, break, go back."
        ),
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Serve the live view at http://127.0.0.1:8000.")
    ] = False,
) -> None:
    """Run a program on a simulated chip; report where its cycles went.

    Exit status: 0 the program returned 0, 1 it returned something else or a kernel's result is
    wrong, 2 bad input, 3 a trap, a deadlock, the cycle limit or, with --strict, a warning, 4
    --check has found something, 130 after Ctrl-C, 143 after SIGTERM.
    """
    with reporting_bad_input():
        from pulpsim.cli.run_config import Options
        from pulpsim.commands.run import command

        if web:
            from pulpsim.tui.web import serve

            serve(sys.argv[1:])
            return
        traced = trace, trace_limit, trace_filters or ()
        program = kernel, arguments or ()
        where = json, max_cycles, issue_trace
        guards = console_limit, strict or None
        options = Options(engine, elf, chip, settings or (), *where, *traced, *program, *guards)
        options = replace(
            options, check=check, values=values, console=console, start=start, checkpoint=checkpoint
        )
        raise typer.Exit(command.run(config, options, quiet, tui))
