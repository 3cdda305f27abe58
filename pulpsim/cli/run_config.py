"""The run that a config file and the command line's options ask for, as one checked value.

    chip = "pulp"               # a chip by name, or the path of a chip file
    [program]
    elf = "hello.elf"           # or kernel = "matmul_f32" with a [program.args] table,
                                # and maybe inputs = "values.npz" instead of random ones
    [run]
    engine = "compiled"         # or "event"
    max_cycles = 100_000_000    # no limit if left out
    console_limit = 1_000_000   # bytes that the program may print; the rest is dropped
    console = "lines"           # a line a core; "raw": characters as they are stored
    strict = false              # true: the first warning ends the run
    check = ["races", "memory"] # what the program is checked for; also "stack", "performance"
    [report]
    json = "run.json"           # "-" is standard output
    [trace]
    file = "run.trace"          # what happens in every cycle, for pulpsim trace
    limit = 10_000_000          # events; no limit if left out
    filters = ["kind=issue,stall", "hart=0-3", "cycle=1000-5000", "function=main", "region=0"]

Instead of the chip's name there may be a [chip] table: a chip file written in place, with a `base`
to start from ("pulp" if left out). Paths are relative to the file that they stand in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from isa.program import Program
from pulpsim.cli.config_options import (
    ChosenChip,
    FileName,
    FileTable,
    option_layers,
    program_table,
)
from pulpsim.cli.output import STANDARD_OUTPUT
from soc.chip.spec import DEFAULT_CHIP, SocSpec
from soc.config.toml import ConfigError, Mistakes, Table, merged, read_toml
from soc.config.validation import Layer, validated
from soc.debug.checkpoint_file import CheckpointFile
from soc.guards import CONSOLE_LIMIT, DEFAULT_GUARDS, Guards
from soc.run import ONE_BUFFER
from soc.trace.filter import filter_mistakes

if TYPE_CHECKING:
    from isa.program import Program
    from trainlib.launch import KernelProgram

Engine = Literal["compiled", "event"]
MAGIC = b"\x7fELF"
MOST_CONSOLE = 100_000_000  # bytes, which take ten times as much memory


class ProgramTable(FileTable):
    elf: FileName | None = None
    kernel: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    inputs: FileName | None = None

    @model_validator(mode="after")
    def _one_program(self) -> "ProgramTable":
        if self.elf is not None and self.kernel is not None:
            raise ValueError("elf and kernel exclude each other; leave one out")
        for name in ("args", "inputs"):
            if getattr(self, name) and self.kernel is None:
                raise ValueError(f"{name} belong to a kernel; name it with program.kernel")
        return self


class RunTable(FileTable):
    engine: Engine = "compiled"
    max_cycles: int | None = Field(default=None, ge=1, lt=1 << 62)
    console_limit: int = Field(default=CONSOLE_LIMIT, ge=0, le=MOST_CONSOLE)
    console: Literal["lines", "raw"] = "lines"
    strict: bool = False
    check: tuple[Literal["races", "memory", "stack", "performance"], ...] = ()


class ReportTable(FileTable):
    json_file: FileName | None = Field(default=None, alias="json")


def _check_filters(filters: tuple[str, ...]) -> tuple[str, ...]:
    mistakes = [mistake for text in filters for mistake in filter_mistakes(text)]
    if mistakes:
        raise ValueError("; ".join(mistakes))
    return filters


class TraceTable(FileTable):
    file: FileName | None = None
    limit: int | None = Field(default=None, ge=1)
    filters: Annotated[tuple[str, ...], AfterValidator(_check_filters)] = ()

    @model_validator(mode="after")
    def _has_a_file(self) -> "TraceTable":
        if self.file is None and (self.limit is not None or self.filters):
            raise ValueError("limit and filters belong to a trace; say where with file or --trace")
        return self


class RunConfig(FileTable):
    """The tables of a config file."""

    chip: Any = DEFAULT_CHIP  # checked as a chip
    program: ProgramTable = ProgramTable()
    run: RunTable = RunTable()
    report: ReportTable = ReportTable()
    trace: TraceTable = TraceTable()


@dataclass(frozen=True)
class Options:
    """The command line's options; None where one is left out."""

    engine: str | None = None
    elf: Path | None = None
    chip: str | SocSpec | None = None
    settings: Sequence[str] = ()  # "l1.banks=32"
    json: Path | None = None
    max_cycles: int | None = None
    issue_trace: Path | None = None
    trace: Path | None = None
    trace_limit: int | None = None
    trace_filters: Sequence[str] = ()  # "kind=issue"
    kernel: str | None = None
    arguments: Sequence[str] = ()  # "n=64"
    console_limit: int | None = None
    strict: bool | None = None
    check: str | None = None  # "races,memory"
    console: str | None = None  # "lines" or "raw"
    program: "Program | KernelProgram | None" = None  # in place of a file
    values: bool = False
    start: Path | None = None
    checkpoint: tuple[int, Path] | None = None


@dataclass(frozen=True)
class PreparedRun:
    """A run that is ready to start.

    program        an ELF file, a program, or a kernel's program with its data; or a checkpoint's
    json           where the report goes as JSON; STANDARD_OUTPUT, or None for nowhere
    issue_trace    where a line for every instruction goes, or None
    trace          where events go, how many at most, and which
    guards         what the program may print, and whether a warning ends the run
    checks         what it is checked for
    values         the lines of instructions say what these did
    start          from which checkpoint it goes on, or None
    checkpoint     a cycle in which one is taken, and its file
    """

    program: "Path | Program | KernelProgram"
    chip: SocSpec
    engine: Engine
    max_cycles: int | None
    json: Path | None
    issue_trace: Path | None = None
    trace: Path | None = None
    trace_limit: int | None = None
    trace_filters: tuple[str, ...] = ()
    guards: Guards = DEFAULT_GUARDS
    checks: tuple[str, ...] = ()
    values: bool = False
    start: CheckpointFile | None = None
    checkpoint: tuple[int, Path] | None = None


def load_run(file: Path | None, options: Options) -> PreparedRun:
    """The run that a config file, or an ELF file, and options describe; options win.

    raises    ConfigError with every mistake in the file, the chip and the options
    """
    if file and _is_elf(file):
        if options.elf:
            raise ConfigError([f"{file} and --elf {options.elf}: two programs; leave one out"])
        file, options = None, replace(options, elf=file)
    table = read_toml(file) if file else {}
    source, folder = (str(file), file.parent) if file else ("pulpsim run", Path())
    mistakes = Mistakes()
    start = CheckpointFile(options.start) if options.start else None
    table = merged(table, _own_program(options, mistakes))
    chip = None
    with mistakes.collected():
        chosen = ChosenChip.of(source, folder, table, options.chip, options.settings, mistakes)
        names_chip = "chip" in table or options.chip or options.settings
        chip = start.chip() if start and not names_chip else chosen.spec
    with mistakes.collected():
        config = _config(source, table, options)
        elf = options.elf or _path(folder, config.program.elf)
        program: Path | Program | KernelProgram | None = options.program or elf
        if start and not (program or config.program.kernel):
            program = start.program()
        program = program or _kernel_program(source, folder, config.program, chip or DEFAULT_CHIP)
    mistakes.raise_any()
    assert chip is not None
    _check_together(options)
    json = options.json or _path(folder, config.report.json_file)
    trace = options.trace or _path(folder, config.trace.file)
    if options.issue_trace and trace:
        raise ConfigError(["--issue-trace and a trace exclude each other; a trace has all issues"])
    if config.run.check and (options.issue_trace or trace):
        raise ConfigError([f"--check and a trace exclude each other: {ONE_BUFFER}; make two runs"])
    return PreparedRun(
        program,
        chip,
        config.run.engine,
        config.run.max_cycles,
        json,
        options.issue_trace,
        trace,
        config.trace.limit,
        config.trace.filters,
        Guards(config.run.console_limit, config.run.strict, config.run.console == "raw"),
        config.run.check,
        options.values,
        start,
        options.checkpoint,
    )


def _check_together(options: Options) -> None:
    """Refuse options that need others, or exclude them."""
    if options.values and not options.issue_trace:
        raise ConfigError(["--values: belongs to --issue-trace FILE"])
    if options.checkpoint and options.checkpoint[0] < 0:
        raise ConfigError([f"--checkpoint-at {options.checkpoint[0]}: a run begins at cycle 0"])


def _is_elf(file: Path) -> bool:
    """Is a file a program, and no config?"""
    try:
        with file.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def _own_program(options: Options, mistakes: Mistakes) -> Table:
    """Return the [program] of --kernel and --arg, which exclude --elf."""
    table = program_table(options.kernel, options.arguments, "n=64", mistakes)
    given = {"--kernel": options.kernel, "--arg": options.arguments}
    others = " and ".join(option for option, value in given.items() if value)
    if options.elf and others:
        with mistakes.collected():
            raise ConfigError([f"--elf and {others} exclude each other; leave one out"])
        return {}
    return table


def _config(source: str, table: Table, options: Options) -> RunConfig:
    """Check the tables. Their mistakes do not hide those of a kernel's arguments."""
    layers = [Layer(source, table), *_option_layers(options)]
    try:
        return validated(RunConfig, layers)
    except ConfigError as error:
        raise ConfigError([*error.mistakes, *_argument_mistakes(source, table)]) from None


def _argument_mistakes(source: str, table: Table) -> list[str]:
    """Return the mistakes of a kernel's arguments, if a table names a kernel and nothing else."""
    from trainlib.launch import checked

    program = table.get("program")
    if not isinstance(program, dict) or "elf" in program:
        return []
    kernel, arguments = program.get("kernel"), program.get("args", {})
    if isinstance(kernel, str) and isinstance(arguments, dict):
        try:
            checked(kernel, arguments, source)
        except ConfigError as error:
            return error.mistakes
    return []


def _option_layers(options: Options) -> list[Layer]:
    return option_layers(
        {
            "--engine": ("run", "engine", options.engine),
            "--max-cycles": ("run", "max_cycles", options.max_cycles),
            "--console-limit": ("run", "console_limit", options.console_limit),
            "--console": ("run", "console", options.console),
            "--strict": ("run", "strict", options.strict),
            "--check": ("run", "check", options.check and options.check.split(",")),
            "--trace": ("trace", "file", options.trace and str(options.trace)),
            "--trace-limit": ("trace", "limit", options.trace_limit),
            "--trace-filter": ("trace", "filters", list(options.trace_filters) or None),
        }
    )


def _kernel_program(
    source: str, folder: Path, table: ProgramTable, chip: SocSpec | str
) -> "KernelProgram":
    """Build the kernel of a [program]. A chip with mistakes does not hide those of arguments."""
    if table.kernel is None:
        raise ConfigError(
            [
                f"{source}: no program: give --elf FILE, --kernel NAME, or a config with "
                f"program.elf or .kernel"
            ]
        )
    from firmware.builder import KernelError
    from trainlib.launch import program
    from trainlib.npz import read_npz

    inputs = None
    try:
        if table.inputs:
            inputs = read_npz(folder / table.inputs)
        return program(table.kernel, table.args, chip, inputs, source=source)
    except ConfigError:
        raise
    except (KernelError, ValueError) as error:
        of = f"program.inputs = {table.inputs}" if inputs and isinstance(error, ValueError) else ""
        raise ConfigError(
            [f"{source}: {of or 'program'}: {line}" for line in str(error).splitlines()]
        ) from None


def _path(folder: Path, written: str | None) -> Path | None:
    """Return a path of a config file, relative to its folder; "-" stays what it is."""
    if written is None:
        return None
    return STANDARD_OUTPUT if written == str(STANDARD_OUTPUT) else folder / written
