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
        Path, typer.Argument(metavar="PROGRAM", help="An ELF file, or CONF.toml that names it.")
    ],
    port: Annotated[
        int, typer.Option(metavar="N", help="Of the loopback, for one debugger; 0: a free one.")
    ] = PORT,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="For target remote | pulpsim gdb --stdio PROGRAM.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="For a debugger, before the program begins.")
    ] = False,
    engine: Engine = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", help="The program ends there at the latest.")
    ] = None,
    console: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The program's text, besides GDB's window.")
    ] = None,
) -> None:
    """Run a program under GDB: forward, and back.

    Harts are threads. Breakpoints, steps and watchpoints change no cycle. `monitor help` lists what
    else can be asked. Without --wait the program runs until a debugger comes.
    """
    with reporting_bad_input():
        from pulpsim.cli.run_config import Options
        from pulpsim.gdb.launch import launch

        options = Options(
            engine, None, chip, settings or (), max_cycles=max_cycles, arguments=arguments or ()
        )
        launch(program, options, None if stdio else port, wait, console)
