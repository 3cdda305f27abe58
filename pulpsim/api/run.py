"""pulpsim.run: run a program on a chip, as `pulpsim run` does, and return what it leaves."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

from isa.program import Program
from pulpsim.api.chip import Chip, chip_option
from pulpsim.commands.cli.output import STANDARD_OUTPUT, write_json
from pulpsim.commands.cli.run_config import Options, load_run
from pulpsim.commands.run.command import loaded, recording_of
from soc.chip.profile import UnfitProgramError
from soc.config.toml import ConfigError
from soc.result import RunResult
from soc.run import run_program
from trainlib.launch import KernelProgram


def run(
    program: str | PathLike[str] | Program | KernelProgram,
    chip: Chip | None = None,
    *,
    engine: Literal["compiled", "event"] | None = None,
    max_cycles: int | None = None,
    trace: str | PathLike[str] | None = None,
    trace_limit: int | None = None,
    trace_filters: Sequence[str] = (),
    console_limit: int | None = None,
    console: Literal["lines", "raw"] | None = None,
    strict: bool | None = None,
    on_console: Callable[[str], None] | None = None,
) -> RunResult:
    """Run a program to its end and return what it leaves.

    program          an ELF file; a config file, FILE.toml; or a program that was built
    chip             a name, a chip file, a table of fields such as {"l1": {"banks": 32}}, or what
                     `load_chip` returns; the config's, else "pulp"
    engine           "compiled", or "event", which defines what is right
    max_cycles       stop there at the latest
    trace            file to record every cycle in, for `Trace.open`
    trace_limit      events that are recorded; each takes 16 bytes
    trace_filters    what is recorded: "kind=issue,stall", "hart=0-3", "cycle=1000-5000"
    console_limit    bytes that the program may print; the rest is dropped
    console          "lines", whole ones of each core; "raw", characters as they are stored
    strict           let the first warning end the run
    on_console       gets the program's text as it comes; the result has all of it

    A config's other tables hold as for `pulpsim run`: its report and trace are written. What goes
    wrong while the program runs is not raised, it is the result's `exit`.

    raises    ConfigError with every mistake in config, chip and options; ElfError

        result = ps.run("examples/matmul.toml")
        result.cycles, result.exit.code, result.to_frame()
    """
    file, elf, built = _named(program)
    options = Options(
        engine=engine,
        elf=elf,
        program=built,
        max_cycles=max_cycles,
        trace=Path(trace) if trace else None,
        trace_limit=trace_limit,
        trace_filters=trace_filters,
        console_limit=console_limit,
        console=console,
        strict=strict,
        chip=chip_option(chip),
    )
    ready = load_run(file, options)
    code, kernel = loaded(ready.program, ready.chip)
    try:
        result = run_program(
            code,
            ready.chip,
            engine=ready.engine,
            max_cycles=ready.max_cycles,
            on_console=on_console,
            trace=recording_of(ready, kernel) if ready.trace else None,
            guards=ready.guards,
        )
    except UnfitProgramError as error:
        raise ConfigError([f"{code.name}: {error}"]) from None
    if ready.json and ready.json != STANDARD_OUTPUT:
        write_json(result.to_json(), ready.json)
    return result


def _named(
    program: str | PathLike[str] | Program | KernelProgram,
) -> tuple[Path | None, Path | None, Program | KernelProgram | None]:
    """A program as a config file, an ELF file, or itself."""
    if isinstance(program, Program | KernelProgram):
        return None, None, program
    file = Path(program)
    return (file, None, None) if file.suffix == ".toml" else (None, file, None)
