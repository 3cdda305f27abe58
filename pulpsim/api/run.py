"""pulpsim.run and run_many: run programs on chips, as `pulpsim run` does."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from isa.program import Program
from pulpsim.api.chip import Chip, chip_option
from pulpsim.cli.output import STANDARD_OUTPUT, write_json
from pulpsim.cli.run_config import Options, load_run
from pulpsim.commands.run.command import loaded, recording_of
from soc.chip.profile import UnfitProgramError
from soc.config.toml import ConfigError
from soc.result import RunResult
from soc.run import run_program
from soc.run_many import Run, outcomes_of
from soc.run_many import run_many as run_here
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
    """Return a program that is given as a config file, as an ELF file, or as itself."""
    if isinstance(program, Program | KernelProgram):
        return None, None, program
    file = Path(program)
    return (file, None, None) if file.suffix == ".toml" else (None, file, None)


def run_many(
    runs: Iterable[Run],
    *,
    workers: int | None = None,
    isolation: Literal["thread", "process"] = "thread",
    scheduler: str | None = None,
    keep: Callable[[RunResult], Any] | None = None,
    on_end: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """Carry out runs side by side; return the outcome of each, in the order of `runs`.

    An outcome is the run's RunResult, which says so if it met a trap, a deadlock or its cycle
    limit; or an exception, if it could not even begin or its process died.

    runs         Run(program, chip="pulp", engine="compiled", max_cycles=None)
    workers      runs at a time; as many as processors if left out
    isolation    "process": each in a process of its own; a script must guard what it starts by
                 `if __name__ == "__main__"`
    scheduler    of a Dask cluster that simulates, "tcp://HOST:PORT", in place of workers here
    keep         what of a result is the outcome: a function that pickle finds by its name, unless
                 it is for threads
    on_end       called with each run's number and outcome, as the runs end

    raises    ValueError for another isolation, or no workers; ConfigError if there is no such
              cluster, or it is lost

        chips = [ps.load_chip("pulp", {"l1.banks": banks}) for banks in (8, 16)]
        slow, fast = ps.run_many([ps.Run("prog.elf", chip) for chip in chips])
    """
    if scheduler is None:
        how: Any = {"workers": workers, "isolation": isolation, "keep": keep, "on_end": on_end}
        return run_here(runs, **how)
    from autotuner.dask_executor import Cluster

    with Cluster(scheduler) as executor:
        return outcomes_of(executor, runs, keep, on_end)
