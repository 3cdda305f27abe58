"""The layers to tune, by a config file and the command line's options, as one checked value.

chip = "pulp"               # or a [chip] table, as for `pulpsim run`
[program]                   # one layer, as `pulpsim run` takes it; or several:
kernel = "linear_fw_f32"    # [[layers]] with name, kernel, args, maybe count: how often it
args = {inputs = 640, ...}  # occurs, and maybe steps = ["fw", "wg"] for the {} of a kernel
[tune]
policy = "guided"           # or "exhaustive", "paper"
sizes = 6                   # of each dimension, at most
types = ["f32", "bf16"]     # element types that are tried; that of each kernel if left out
cores = [8, 4]              # numbers that are tried; all of the chip's and half if left out
workers = 2                 # simulations at a time; as many as processors if left out
max_cycles = 100_000_000    # of a point
database = "tuned.db"       # relative to this file; in the user's cache folder if left out
scheduler = "tcp://..."     # of a Dask cluster that measures, in place of workers here
local_cluster = 2           # the same, of so many workers, started for the search
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from autotuner.measure import LIMIT
from autotuner.space import SIZES, Space
from firmware.builder import KernelError
from firmware.runtime import new_kernel
from pulpsim.cli.config_options import (
    Arguments,
    ChosenChip,
    ElementType,
    FileName,
    FileTable,
    Workers,
    cache_file,
    option_layers,
    option_of,
    program_table,
)
from pulpsim.cli.executor import check_executor, executor_layers, without_executor
from pulpsim.commands.inspect.networks import config_file
from soc.chip.spec import DEFAULT_CHIP, SocSpec
from soc.config.toml import ConfigError, Mistakes, merged, read_toml
from soc.config.validation import Layer, validated
from trainlib.registry import KERNELS

Policy = Literal["guided", "exhaustive", "paper"]
COMMAND = "command line"


class ProgramTable(FileTable):
    kernel: str = ""
    args: dict[str, Any] = Field(default_factory=dict)
    count: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _args_have_a_kernel(self) -> "ProgramTable":
        if self.args and not self.kernel:
            raise ValueError("args belong to a kernel; name it with program.kernel")
        return self


class LayerTable(ProgramTable):
    name: str
    kernel: str
    steps: tuple[str, ...] = ()


class TuneTable(FileTable):
    policy: Policy = "guided"
    sizes: int = Field(default=SIZES, ge=1, le=64)
    types: tuple[ElementType, ...] = ()
    cores: tuple[int, ...] = ()
    workers: Workers | None = None
    scheduler: str | None = None
    local_cluster: Workers | None = None
    max_cycles: int = Field(default=LIMIT, ge=1, lt=1 << 62)
    database: FileName | None = None


class TuneConfig(FileTable):
    """The tables of a config file."""

    chip: Any = DEFAULT_CHIP  # checked as a chip
    program: ProgramTable = ProgramTable()
    layers: tuple[Any, ...] = ()  # each checked as a LayerTable
    tune: TuneTable = TuneTable()
    run: dict[str, Any] = Field(default_factory=dict)  # for `pulpsim run`
    report: dict[str, Any] = Field(default_factory=dict)
    trace: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """The command line's options; None where one is left out."""

    kernel: str | None = None
    arguments: Arguments = ()  # "inputs=640"
    chip: str | SocSpec | None = None
    settings: Sequence[str] = ()  # "l1.banks=32"
    policy: str | None = None
    sizes: int | None = None
    types: Sequence[str] | None = None
    workers: int | None = None
    database: Path | None = None
    scheduler: str | None = None
    local_cluster: int | None = None


@dataclass(frozen=True)
class Tuning:
    """A search that is ready to start.

    spaces    of all layers, by name
    counts    how often each layer occurs
    typed     names of the spaces of each layer, by element type
    """

    chip: ChosenChip
    spaces: dict[str, Space]
    counts: dict[str, int]
    how: TuneTable
    database: Path
    typed: dict[str, dict[str, str]]


def load_tuning(file: Path | None, options: Options) -> Tuning:
    """The search that a config file and options describe; options win.

    raises    ConfigError with every mistake in the file, the chip, the layers and the options
    """
    file = config_file(file) if file else None
    source, folder = (str(file), file.parent) if file else (COMMAND, Path())
    mistakes = Mistakes()
    own = program_table(options.kernel, options.arguments, "inputs=640", mistakes)
    table = merged(without_executor(read_toml(file) if file else {}, "tune", options), own)
    chip, config, entries = None, None, dict[str, ProgramTable]()
    typed = dict[str, dict[str, str]]()
    with mistakes.collected():
        given = options.chip, options.settings
        chip = _fitting(ChosenChip.of(source, folder, table, *given, mistakes))
    with mistakes.collected():
        config = validated(TuneConfig, [Layer(source, table), *_option_layers(options)])
        check_executor(source, "tune", config.tune, options)
        entries = _entries(source, config)
        if chip:
            _check_cores(source, config.tune, chip.spec)
        entries, typed = _by_type(entries, config.tune.types)
    spaces = dict[str, Space]()
    for name, entry in entries.items() if chip and config else ():
        with mistakes.collected():
            spaces[name] = _space(source, name, entry, chip.spec, config.tune)
    mistakes.raise_any()
    assert chip is not None
    assert config is not None
    written = folder / config.tune.database if config.tune.database else None
    database = options.database or written or cache_file("tuned.db")
    counts = {name: entry.count for name, entry in entries.items()}
    return Tuning(chip, spaces, counts, config.tune, database, typed)


def load_layers(
    file: Path, chip: str | None, settings: Sequence[str], element: str | None = None
) -> tuple[SocSpec, dict[str, ProgramTable]]:
    """The chip and the layers of a config file, each step by itself.

    element    type in which all layers are that have it; None: that of each kernel

    raises    ConfigError with every mistake in the file and the chip
    """
    file = config_file(file)
    source, table = str(file), read_toml(file)
    mistakes, entries = Mistakes(), dict[str, ProgramTable]()
    chosen = None
    with mistakes.collected():
        chosen = _fitting(ChosenChip.of(source, file.parent, table, chip, settings, mistakes))
    with mistakes.collected():
        entries = _entries(source, validated(TuneConfig, [Layer(source, table)]))
        if element:
            if element not in get_args(ElementType):
                raise ConfigError(
                    [f"--type {element}: there are {', '.join(get_args(ElementType))}"]
                )
            of, typed = _by_type(entries, [element])
            entries = {name: of[title] for name, own in typed.items() for title in own.values()}
    mistakes.raise_any()
    assert chosen is not None
    return chosen.spec, entries


def _fitting(chip: ChosenChip) -> ChosenChip:
    """Return the chip, if programs fit it."""
    try:
        new_kernel(chip.spec, f"chip {chip.spec.name}")
    except KernelError as error:
        raise ConfigError([str(error)]) from None
    return chip


def _option_layers(options: Options) -> list[Layer]:
    own = "policy", "sizes", "types"
    return option_layers(
        {option_of(key): ("tune", key, getattr(options, key)) for key in own}
        | executor_layers("tune", options)
    )


def _check_cores(source: str, how: TuneTable, chip: SocSpec) -> None:
    wrong = [cores for cores in how.cores if not 1 <= cores <= chip.cores]
    if wrong:
        raise ConfigError(
            [f"{source}: tune.cores: {wrong[0]}; the chip {chip.name} has 1 to {chip.cores}"]
        )


def _entries(source: str, config: TuneConfig) -> dict[str, ProgramTable]:
    """Return layers by name, each step by itself."""
    program = config.program
    if (not program.kernel) == (not config.layers):
        raise ConfigError(
            [f"{source}: give one layer as program.kernel or --kernel, or several as [[layers]]"]
        )
    if program.kernel:
        return {program.kernel: program}
    mistakes, found = Mistakes(), dict[str, ProgramTable]()
    for number, written in enumerate(config.layers):
        table = written if isinstance(written, dict) else {}
        with mistakes.collected():
            layer = validated(LayerTable, [Layer(source, table, prefix=f"layers[{number}].")])
            for name, step in _steps(layer):
                if name in found:
                    raise ConfigError([f"{source}: layers: there are two of the name {name}"])
                found[name] = step
    mistakes.raise_any()
    return found


def _by_type(
    entries: dict[str, ProgramTable], types: Sequence[str]
) -> tuple[dict[str, ProgramTable], dict[str, dict[str, str]]]:
    """Layers in each type that their kernel has, and their names by layer and type.

    Without types, each in its own: layers keep their names.
    """
    found, typed = dict[str, ProgramTable](), dict[str, dict[str, str]]()
    for name, entry in entries.items():
        stem, _, own = entry.kernel.rpartition("_")
        wanted = types if types and own in get_args(ElementType) else [own]
        there = [of for of in wanted if f"{stem}_{of}" in KERNELS]
        for of in there or [own]:
            kernel = f"{stem}_{of}"
            title = name if not types else kernel if name == entry.kernel else f"{name}.{of}"
            found[title] = entry.model_copy(update={"kernel": kernel if there else entry.kernel})
            typed.setdefault(name, {})[of] = title
    return found, typed


def _steps(layer: LayerTable) -> Iterator[tuple[str, ProgramTable]]:
    """Return the steps of a layer by name."""
    for step in layer.steps or ("",):
        kernel = layer.kernel.replace("{}", step)
        table = ProgramTable(kernel=kernel, args=layer.args, count=layer.count)
        yield f"{layer.name}.{step}" if step else layer.name, table


def _space(source: str, name: str, entry: ProgramTable, chip: SocSpec, how: TuneTable) -> Space:
    try:
        return Space.of(entry.kernel, entry.args, chip, how.sizes, how.cores)
    except (KernelError, ConfigError) as error:
        lines = error.mistakes if isinstance(error, ConfigError) else [str(error)]
        raise ConfigError([f"{source}: {named(name, line)}" for line in lines]) from None


def named(layer: str, mistake: str) -> str:
    """A layer's mistake with its name, if it does not begin with it."""
    return mistake if mistake.startswith(f"{layer}: ") else f"{layer}: {mistake}"
