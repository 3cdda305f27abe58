"""What to tune: a config file and the command line's options, as one checked value.

chip = "pulp"
[program]                   # one layer, as `pulpsim run` takes it; or several:
kernel = "linear_fw_f32"    # [[layers]] with name, kernel, args, maybe count: how often it
args = {inputs = 640, ...}  # occurs, and maybe steps = ["fw", "wg"] for the {} of a kernel
[tune]
policy = "guided"           # or "exhaustive", "paper"
sizes = 6                   # of each dimension, at most
cores = [8, 4]              # numbers that are tried; all of the chip's and half if left out
workers = 2                 # simulations at a time; as many as processors if left out
max_cycles = 100_000_000    # of a point
database = "tuned.db"       # relative to this file; in the user's cache folder if left out
scheduler = "tcp://..."     # of a Dask cluster that measures, in place of workers here
local_cluster = 2           # the same, of so many workers, started for the search
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from autotuner.measure import LIMIT
from autotuner.space import SIZES, Space
from firmware.builder import KernelError
from pulpsim.networks import config_file
from soc.spec import DEFAULT_CHIP, SocSpec, load_chip
from soc.toml_file import (
    ConfigError,
    Layer,
    Mistakes,
    Table,
    merged,
    parse_setting,
    read_toml,
    validated,
)
from soc.unit_cache import cache_folder

PLACES = "workers", "scheduler", "local_cluster"  # where points are measured
Policy = Literal["guided", "exhaustive", "paper"]
COMMAND = "pulpsim tune"


class ProgramTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kernel: str
    args: dict[str, Any] = {}
    count: int = Field(default=1, ge=1)


class LayerTable(ProgramTable):
    name: str
    steps: tuple[str, ...] = ()


class TuneTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Policy = "guided"
    sizes: int = Field(default=SIZES, ge=1, le=64)
    cores: tuple[int, ...] = ()
    workers: int | None = Field(default=None, ge=1, le=256)
    scheduler: str | None = None
    local_cluster: int | None = Field(default=None, ge=1, le=256)
    max_cycles: int = Field(default=LIMIT, ge=1, lt=1 << 62)
    database: str | None = Field(default=None, min_length=1)


class TuneConfig(BaseModel):
    """The tables of a config file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chip: str = DEFAULT_CHIP
    program: ProgramTable | None = None
    layers: tuple[Any, ...] = ()  # each checked as a LayerTable
    tune: TuneTable = TuneTable()
    run: dict[str, Any] = {}  # for `pulpsim run`
    report: dict[str, Any] = {}


@dataclass(frozen=True)
class Options:
    """What the command line says; None where it says nothing."""

    kernel: str | None = None
    arguments: Sequence[str] = ()  # "inputs=640"
    chip: str | None = None
    policy: str | None = None
    sizes: int | None = None
    workers: int | None = None
    database: Path | None = None
    scheduler: str | None = None
    local_cluster: int | None = None


@dataclass(frozen=True)
class Tuning:
    """A search that is ready to start.

    chip_name    as it was written
    spaces       of all layers, by name
    counts       how often each layer occurs
    """

    chip_name: str
    chip: SocSpec
    spaces: dict[str, Space]
    counts: dict[str, int]
    how: TuneTable
    database: Path


def load_tuning(file: Path | None, options: Options) -> Tuning:
    """The search that a config file and options describe; options win.

    raises    ConfigError with every mistake in the file, the chip and the layers
    """
    file = config_file(file) if file else None
    source = str(file) if file else COMMAND
    folder = file.parent if file else Path()
    table = merged(_without_place(file, options), _program(options))
    config = validated(TuneConfig, [Layer(source, table), *_layers(options)])
    _check_places(source, config.tune)
    chip = load_chip(_chip(options.chip, config.chip, folder))
    entries = _entries(source, config)
    mistakes, spaces = Mistakes(), dict[str, Space]()
    for name, entry in entries.items():
        with mistakes.collected():
            spaces[name] = _space(source, name, entry, chip, config.tune)
    mistakes.raise_any()
    written = folder / config.tune.database if config.tune.database else None
    database = options.database or written or _own_database()
    counts = {name: entry.count for name, entry in entries.items()}
    return Tuning(options.chip or config.chip, chip, spaces, counts, config.tune, database)


def load_layers(file: Path, chip: str | None) -> tuple[SocSpec, dict[str, ProgramTable]]:
    """The chip and the layers of a config file, each step by itself.

    raises    ConfigError with every mistake in the file and the chip
    """
    file = config_file(file)
    config = validated(TuneConfig, [Layer(str(file), read_toml(file))])
    return load_chip(_chip(chip, config.chip, file.parent)), _entries(str(file), config)


def _chip(option: str | None, written: str, folder: Path) -> str | Path:
    chip = option or written
    is_file = chip.endswith(".toml") or "/" in chip
    return (folder if option is None else Path()) / chip if is_file else chip


def _program(options: Options) -> Table:
    """The [program] of the command line."""
    table: Table = {}
    for argument in options.arguments:
        try:
            table = merged(table, parse_setting(argument))
        except ConfigError as error:
            lines = [line.replace("--set", "--arg") for line in error.mistakes]
            raise ConfigError(lines) from None
    program: Table = {"kernel": options.kernel} if options.kernel else {}
    if table:
        program["args"] = table
    return {"program": program} if program else {}


def _layers(options: Options) -> list[Layer]:
    values = {key: getattr(options, key) for key in ("policy", "sizes", *PLACES)}
    return [
        Layer(f"--{key.replace('_', '-')}", {"tune": {key: value}})
        for key, value in values.items()
        if value is not None
    ]


def _without_place(file: Path | None, options: Options) -> Table:
    """What the file says; of places to measure only if the options name none."""
    table = read_toml(file) if file else {}
    how = table.get("tune")
    if isinstance(how, dict) and any(getattr(options, place) is not None for place in PLACES):
        table["tune"] = {key: value for key, value in how.items() if key not in PLACES}
    return table


def _check_places(source: str, how: TuneTable) -> None:
    given = [place for place in PLACES if getattr(how, place) is not None]
    if len(given) > 1:
        raise ConfigError([f"{source}: tune: {' and '.join(given)}; give one of them"])


def _entries(source: str, config: TuneConfig) -> dict[str, ProgramTable]:
    """Layers by name, each step by itself."""
    if (config.program is None) == (not config.layers):
        raise ConfigError(
            [f"{source}: give one layer as program.kernel or --kernel, or several as [[layers]]"]
        )
    if config.program:
        return {config.program.kernel: config.program}
    found: dict[str, ProgramTable] = {}
    for number, written in enumerate(config.layers, 1):
        table = written if isinstance(written, dict) else {}
        entry = Layer(source, table, prefix=f"layers.{number}.")
        layer = validated(LayerTable, [entry])
        for step in layer.steps or ("",):
            name = f"{layer.name}.{step}" if step else layer.name
            if name in found:
                raise ConfigError([f"{source}: layers: there are two of the name {name}"])
            found[name] = ProgramTable(
                kernel=layer.kernel.replace("{}", step), args=layer.args, count=layer.count
            )
    return found


def _space(source: str, name: str, entry: ProgramTable, chip: SocSpec, how: TuneTable) -> Space:
    for cores in how.cores:
        if not 1 <= cores <= chip.cores:
            raise ConfigError(
                [f"{source}: tune.cores: {cores}; the chip {chip.name} has 1 to {chip.cores}"]
            )
    try:
        return Space.of(entry.kernel, entry.args, chip, how.sizes, how.cores)
    except (KernelError, ConfigError) as error:
        lines = error.mistakes if isinstance(error, ConfigError) else [str(error)]
        raise ConfigError([f"{source}: {name}: {line}" for line in lines]) from None


def _own_database() -> Path:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError([f"{folder}: cannot be made: {error.strerror}"]) from None
    return folder / "tuned.db"
