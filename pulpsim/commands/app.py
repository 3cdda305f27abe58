"""The command `pulpsim`. Nothing heavy is imported before a command needs it."""

import sys
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

import pulpsim
from pulpsim.cli.shared_options import (
    WHERE,
    Arguments,
    Chip,
    Database,
    Engine,
    Json,
    LocalCluster,
    Scheduler,
    Settings,
    begin,
    reporting_bad_input,
)
from pulpsim.commands.deploy.command import deploy
from pulpsim.commands.trace.command import annotate, trace_app
from pulpsim.commands.tune.command import footprint, tune
from pulpsim.gdb.command import gdb

app = typer.Typer(
    help="A cycle-accurate simulator of the PULP system on chip.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)


Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.elf", help=WHERE)]


def main() -> None:
    """Run the command that the arguments name."""
    begin()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="pulpsim")


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"pulpsim {pulpsim.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    pass


@app.command("run")
def _run(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="PROGRAM", help="An ELF file, or CONF.toml: what to run, and how."),
    ] = None,
    engine: Engine = None,
    elf: Annotated[Path | None, typer.Option(metavar="FILE", help="The program.")] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="The program; see pulpsim kernels.")
    ] = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    json: Json = None,
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", help="Stop there at the latest.")
    ] = None,
    console_limit: Annotated[
        int | None,
        typer.Option(metavar="BYTES", help="That the program may print; a million by default."),
    ] = None,
    console: Annotated[
        str | None,
        typer.Option(metavar="lines|raw", help="A line a core, or characters as they are stored."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="The first warning ends the run, with status 3.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Watch it: races,memory,stack,performance, or some of them."
        ),
    ] = None,
    issue_trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A line for every instruction, with its cycle; FILE.gz."),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="There, what it wrote, and its access.")
    ] = False,
    checkpoint: Annotated[
        tuple[int, Path] | None,
        typer.Option("--checkpoint-at", metavar="CYCLE FILE", help="Keep the run's state there."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Go on from such a file; names its program."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Record what happens in every cycle; see pulpsim trace."),
    ] = None,
    trace_limit: Annotated[
        int | None, typer.Option(metavar="EVENTS", help="Of the trace; the run goes on after it.")
    ] = None,
    trace_filters: Annotated[
        list[str] | None,
        typer.Option(
            "--trace-filter",
            metavar="KEY=VALUE",
            help="kind=issue,stall hart=0-3,fc cycle=A-B pc=A-B function=F region=R; repeatable.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No report and no progress, only the program's text.")
    ] = False,
    tui: Annotated[
        bool, typer.Option("--tui", help="Watch it run: pause, step, break, look, go back.")
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="The same in a browser: http://127.0.0.1:8000.")
    ] = False,
) -> None:
    """Run a program on a simulated chip; say where its cycles went.

    Exit status: 0 the program returned 0, 1 it returned something else or a kernel's result is
    wrong, 2 bad input, 3 a trap, a deadlock, the cycle limit or, with --strict, a warning, 4
    --check has found something, 130 after Ctrl-C, 143 after SIGTERM.
    """
    with reporting_bad_input():
        from pulpsim.cli.run_config import Options
        from pulpsim.commands.run.command import run

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
        raise typer.Exit(run(config, options, quiet, tui))


@app.command("chips")
def _chips(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A chip by name, or a chip file.")
    ] = None,
) -> None:
    """List the chips, or all fields of one.

    Each field with its unit, its default where the chip departs from it, and its source.
    """
    with reporting_bad_input():
        from pulpsim.cli.terminal import page_console
        from pulpsim.commands.inspect.chips import chips_table, fields_table

        page_console().print(fields_table(name) if name else chips_table())


@app.command("kernels")
def _kernels(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A kernel by name.")] = None,
) -> None:
    """List the kernels that a config can name, or one's arguments."""
    with reporting_bad_input():
        from pulpsim.cli.terminal import page_console
        from pulpsim.commands.inspect.kernels import arguments_table, kernels_list

        page_console().print(arguments_table(name) if name else kernels_list(), highlight=False)


@app.command("build")
def _build(
    config: Annotated[Path, typer.Argument(metavar="CONF.toml", help="With program.kernel.")],
    output: Output = None,
    chip: Chip = None,
    settings: Settings = None,
) -> None:
    """Write the program of a config's kernel as an ELF file."""
    with reporting_bad_input():
        from pulpsim.cli.run_config import Options
        from pulpsim.commands.inspect.build import build

        build(config, output, Options(chip=chip, settings=settings or ()))


app.command("tune")(tune)
app.command("footprint")(footprint)


@app.command("report")
def _report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, or a run's --json.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help=WHERE)
    ] = None,
    cycles: Annotated[
        str | None, typer.Option("--cycle", metavar="FROM-TO", help="Of a trace, before TO.")
    ] = None,
    is_tried: Annotated[
        bool, typer.Option("--try", help="Simulate what would help a kernel, too.")
    ] = False,
) -> None:
    """Draw a recorded run as one HTML page.

    It shows where the cycles went, and what would help. FILE is what `pulpsim run --trace FILE`
    recorded; of a run's JSON, what needs no times. The largest losses are said on standard error,
    too.
    """
    with reporting_bad_input():
        from pulpsim.html_report.command import report

        typer.echo(report(file, output, cycles, is_tried))


@app.command("study")
def _study(
    what: Annotated[
        str | None,
        typer.Argument(metavar="NAME|CONF.toml", help="Without: lists them, with arguments."),
    ] = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    quick: Annotated[bool, typer.Option("--quick", help="A sweep that takes seconds.")] = False,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Simulations at a time.")] = None,
    scheduler: Scheduler = None,
    local_cluster: LocalCluster = None,
    database: Database = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="For files; study-NAME by default."),
    ] = None,
) -> None:
    """Sweep over chips and programs; draw and say what comes of it.

    Studies: banking, stride, traffic, dma, scaling, roofline. Every result is kept: the same
    command after Ctrl-C goes on where it was. Exit status: 0, 1 if everything fails, 2 bad input,
    130 after Ctrl-C.
    """
    with reporting_bad_input():
        from pulpsim.commands.study.command import study
        from pulpsim.commands.study.config import Options

        place = workers, scheduler, local_cluster
        given = chip, settings or (), quick, *place, database, output
        raise typer.Exit(study(what, Options(arguments or (), *given)))


@app.command("fidelity")
def _fidelity(
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A group, a program, a configuration, or a pattern; repeatable."
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="event|compiled", help="event: what is under 20,000 cycles.")
    ] = "compiled",
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Measurements at a time.")
    ] = None,
    scheduler: Scheduler = None,
    local_cluster: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Start a Dask cluster of N workers here."),
    ] = None,
    json: Json = None,
) -> None:
    """Repeat what was measured on PULP's RTL; show every difference.

    Groups: programs, contention, kernels, dma, icache, l2. Exit status: 0 all is equal, 1 something
    differs, 2 bad input.
    """
    with reporting_bad_input():
        from pulpsim.fidelity.report import Where, fidelity

        where = Where(workers, scheduler, local_cluster)
        raise typer.Exit(fidelity(only or (), engine, json, where))


Core = Annotated[str | None, typer.Option(metavar="ri5cy|cv32e40p", help="Whose instructions.")]
FloatRegisters = Annotated[
    str | None, typer.Option("--float-registers", metavar="f|x", help="Where floats live.")
]


@app.command("asm")
def _asm(
    source: Annotated[Path, typer.Argument(metavar="FILE.s")],
    output: Output = None,
    core: Core = None,
    float_registers: FloatRegisters = None,
) -> None:
    """Assemble a source file into an ELF file."""
    with reporting_bad_input():
        from pulpsim.commands.inspect.assembly import assemble

        assemble(source, output, core, float_registers)


@app.command("dis")
def _dis(
    elf: Annotated[Path, typer.Argument(metavar="FILE.elf")],
    core: Core = None,
    float_registers: FloatRegisters = None,
) -> None:
    """Show the instructions of a program.

    With symbols and source lines where the file has them, and bars at the bodies of hardware loops.
    """
    with reporting_bad_input():
        from pulpsim.cli.terminal import neutralised
        from pulpsim.commands.inspect.assembly import disassembly

        typer.echo(neutralised(disassembly(elf, core, float_registers)), nl=False)


@app.command("isa")
def _isa(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A mnemonic.")] = None,
) -> None:
    """Show an instruction's reference page, or all mnemonics."""
    with reporting_bad_input():
        from pulpsim.commands.inspect.assembly import all_mnemonics, instruction_pages

        typer.echo(instruction_pages(name) if name else all_mnemonics())


@app.command("new")
def _new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="That is to be made.")],
) -> None:
    """Make a project: C for all cores, config, Makefile, script."""
    with reporting_bad_input():
        from pulpsim.commands.new.command import new

        typer.echo(new(folder), nl=False)


@app.command("sdk")
def _sdk() -> None:
    """Print the folder of the C SDK: header, start-up, linker script."""
    from pulpsim.commands.new.command import SDK

    typer.echo(SDK)


app.command("deploy")(deploy)
app.command("gdb")(gdb)
app.add_typer(trace_app, name="trace")
app.command("annotate")(annotate)
