"""pulpsim gdb: a program under GDB."""

from pathlib import Path
from typing import Annotated

import typer

from pulpsim.cli.shared_options import (
    Arguments,
    Chip,
    Engine,
    Settings,
    reporting_bad_input,
)

PORT = 3333


def gdb(
    program: Annotated[
        Path, typer.Argument(metavar="PROGRAM", help="An ELF file, or a config file that names it.")
    ],
    port: Annotated[
        int,
        typer.Option(
            metavar="N", help="Port of the loopback interface, for one debugger; 0: a free port."
        ),
    ] = PORT,
    stdio: Annotated[
        bool,
        typer.Option("--stdio", help="Serve GDB's `target remote | pulpsim gdb --stdio PROGRAM`."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for a debugger before the program begins.")
    ] = False,
    engine: Engine = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", help="Stop the program after N cycles.")
    ] = None,
    console: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what the program prints to FILE, too."),
    ] = None,
) -> None:
    """Run a program under GDB, forwards and backwards.

    Harts are threads. Breakpoints, steps and watchpoints change no cycle. `monitor help` lists what
    else can be asked. Without --wait the program runs until a debugger connects.
    """
    with reporting_bad_input():
        from pulpsim.cli.run_config import Options
        from pulpsim.gdb.launch import launch

        options = Options(
            engine, None, chip, settings or (), max_cycles=max_cycles, arguments=arguments or ()
        )
        launch(program, options, None if stdio else port, wait, console)
