"""A session from a config or an ELF file, and the server for it."""

from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import typer

from isa.program import Program
from pulpsim.cli.output import check_writable
from pulpsim.cli.run_config import Options, load_run
from pulpsim.cli.terminal import GuestConsole, progress
from pulpsim.gdb.server import Server
from soc.chip.profile import UnfitProgramError
from soc.config.toml import ConfigError
from soc.debug.session import Session


def launch(
    file: Path, options: Options, port: int | None, waits: bool, console: Path | None
) -> None:
    """Serve GDB until it ends the session.

    port       of the loopback; None: standard input and output
    waits      for the first debugger before the program begins
    console    where the program's text goes, too

    raises     ConfigError, ElfError
    """
    ready = load_run(file, options)
    if console:
        check_writable("--console", console, file)
    if isinstance(ready.program, Path):
        program = Program.from_elf(ready.program)
    elif isinstance(ready.program, Program):
        program = ready.program
    else:
        program = ready.program.program
    with ExitStack() as stack:
        copy = stack.enter_context(console.open("w", encoding="utf-8")) if console else None
        shown = None if port is None else GuestConsole()
        servers: list[Server] = []
        try:
            session = Session(
                program,
                ready.chip,
                engine=ready.engine,
                max_cycles=ready.max_cycles,
                on_console=lambda text: servers[0].print(text),
                progress=progress,
                guards=ready.guards,
            )
        except UnfitProgramError as error:
            raise ConfigError([f"{program.name}: {error}"]) from None
        session.get_ready()
        server = Server(session, program.to_elf(), lambda text: _show(text, shown, copy))
        servers.append(server)
        if port is None:
            server.serve_pipe()
        else:
            server.serve_port(port, waits, lambda text: typer.echo(f"pulpsim: {text}", err=True))
        if shown:
            shown.close()


def _show(text: str, shown: GuestConsole | None, copy: TextIO | None) -> None:
    if shown:
        shown(text)
    if copy:
        copy.write(text)
        copy.flush()
