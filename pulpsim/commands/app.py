"""The command `pulpsim`. Nothing heavy is imported before a command needs it."""

import sys
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
    Json,
    LocalCluster,
    Scheduler,
    Settings,
    begin,
    reporting_bad_input,
)
from pulpsim.commands.deploy.command import deploy
from pulpsim.commands.run.command_line import run
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
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


app.command("run")(run)


@app.command("chips")
def _chips(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A chip by name, or a chip file.")
    ] = None,
) -> None:
    """List the chips, or all fields of one.

    A field is shown with its unit, its source, and its default where the chip's value differs.
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
    config: Annotated[
        Path, typer.Argument(metavar="CONF.toml", help="Config file whose program.kernel is built.")
    ],
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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, or the JSON of a run.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help=WHERE)
    ] = None,
    cycles: Annotated[
        str | None,
        typer.Option(
            "--cycle", metavar="FROM-TO", help="Report on these cycles of a trace; TO is excluded."
        ),
    ] = None,
    is_tried: Annotated[
        bool, typer.Option("--try", help="Simulate the changes that would help a kernel, too.")
    ] = False,
) -> None:
    """Draw a recorded run as one HTML page.

    It shows where the cycles went, and what would help. FILE is what `pulpsim run --trace FILE`
    recorded. The JSON of a run gives a page without what needs times. The largest losses are also
    listed on standard error.
    """
    with reporting_bad_input():
        from pulpsim.html_report.command import report

        typer.echo(report(file, output, cycles, is_tried))


@app.command("study")
def _study(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|CONF.toml",
            help="A study or a config file; without it, list the studies and their arguments.",
        ),
    ] = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Make a small sweep that takes seconds.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Run N simulations at a time; by default one a processor."),
    ] = None,
    scheduler: Scheduler = None,
    local_cluster: LocalCluster = None,
    database: Database = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="Folder for the files; study-NAME by default."
        ),
    ] = None,
) -> None:
    """Sweep over chips and programs; write tables and figures.

    Studies: banking, stride, traffic, dma, scaling, roofline. Every result is kept: after
    Ctrl-C the same command continues. Exit status: 0, 1 if everything fails, 2 bad input,
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
            metavar="NAME",
            help="Repeat one group, program or configuration, or those of a pattern; repeatable.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="event|compiled",
            help="Simulator engine; event repeats programs under 20,000 cycles.",
        ),
    ] = "compiled",
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Repeat N measurements at a time; by default one a processor."
        ),
    ] = None,
    scheduler: Scheduler = None,
    local_cluster: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Start a Dask cluster of N workers here."),
    ] = None,
    boot_rom: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PULPissimo 8.0.0's boot ROM: repeat the controller's programs that load its "
            "words, too.",
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Repeat measurements of PULP's RTL and show every difference.

    Groups: programs, contention, kernels, dma, icache, controller, l2. Exit status: 0 all is equal,
    1 something differs, 2 bad input.
    """
    with reporting_bad_input():
        from pulpsim.fidelity.report import Where, fidelity

        where = Where(workers, scheduler, local_cluster)
        raise typer.Exit(fidelity(only or (), engine, json, where, boot_rom))


Core = Annotated[
    str | None, typer.Option(metavar="ri5cy|cv32e40p", help="Core whose instructions are known.")
]
FloatRegisters = Annotated[
    str | None,
    typer.Option(
        "--float-registers",
        metavar="f|x",
        help="Registers that hold floats: f, or x as in PULP's cluster.",
    ),
]


@app.command("asm")
def _asm(
    source: Annotated[Path, typer.Argument(metavar="FILE.s", help="Assembly source.")],
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
    elf: Annotated[Path, typer.Argument(metavar="FILE.elf", help="ELF file to show.")],
    core: Core = None,
    float_registers: FloatRegisters = None,
) -> None:
    """Show the instructions of a program.

    Shows symbols and source lines where the file has them; bars mark bodies of hardware loops.
    """
    with reporting_bad_input():
        from pulpsim.cli.terminal import neutralised
        from pulpsim.commands.inspect.assembly import disassembly

        typer.echo(neutralised(disassembly(elf, core, float_registers)), nl=False)


@app.command("isa")
def _isa(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A mnemonic, such as p.lw.")
    ] = None,
) -> None:
    """Show an instruction's reference page, or all mnemonics."""
    with reporting_bad_input():
        from pulpsim.commands.inspect.assembly import all_mnemonics, instruction_pages

        typer.echo(instruction_pages(name) if name else all_mnemonics())


@app.command("new")
def _new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to make.")],
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
