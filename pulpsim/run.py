"""pulpsim run: load, simulate, report; its exit status says how the program ended."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from isa.program import Program
from pulpsim.config import STANDARD_OUTPUT, Options, Run, load_run
from pulpsim.console import GuestConsole, progress, report_console
from pulpsim.output import check_writable, write
from pulpsim.report import show
from soc.chip import UnfitProgramError
from soc.run import run_program
from soc.toml_file import ConfigError

SUCCESS, GUEST_FAILED, STOPPED = 0, 1, 3
INTERRUPTED = 130  # as shells report a program ended by Ctrl-C


def run(file: Path | None, options: Options, is_quiet: bool) -> int:
    """Carry out a run and return the command's exit status.

    raises    ConfigError, ElfError
    """
    ready = load_run(file, options)
    if ready.json and ready.json != STANDARD_OUTPUT:
        check_writable("--json", ready.json)
    result = _simulate(ready, is_quiet)
    if ready.json:
        _write_json(result, ready.json)
    if not is_quiet:
        show(result, f"{ready.elf.name} on {ready.chip.name}", report_console())
    return status(result)


def status(result: dict[str, Any]) -> int:
    """The exit status that stands for a result."""
    end = result["exit"]
    if end["reason"] == "exit":
        return GUEST_FAILED if end["code"] else SUCCESS
    return INTERRUPTED if end["reason"] == "interrupted" else STOPPED


def _simulate(ready: Run, is_quiet: bool) -> dict[str, Any]:
    program = Program.from_elf(ready.elf)
    console = None if ready.json == STANDARD_OUTPUT else GuestConsole()
    try:
        result = run_program(
            program,
            ready.chip,
            engine=ready.engine,
            max_cycles=ready.max_cycles,
            on_console=console,
            progress=nullcontext if is_quiet else progress,
        )
    except UnfitProgramError as error:
        raise ConfigError([f"{ready.elf}: {error}"]) from None
    if console:
        console.close()
    return result.to_json()


def _write_json(result: dict[str, Any], file: Path) -> None:
    text = json.dumps(result, indent=1) + "\n"
    if file == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write("--json", file, text.encode())
