"""The study that a config file and the command line's options ask for, as one checked value.

chip = "pulp"               # or a [chip] table, as for `pulpsim run`
[study]
name = "banking"
quick = false               # true: a sweep that takes seconds
workers = 2                 # simulations at a time; as many as processors if left out
scheduler = "tcp://..."     # of a Dask cluster that simulates, in place of workers here
local_cluster = 2           # the same, of so many workers, started for the study
database = "studies.db"     # relative to this file; in the user's cache folder if left out
output = "figures"          # a folder, relative to this file; study-NAME if left out
[study.args]                # what `pulpsim study` lists
cores = [1, 2, 4]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from firmware.builder import KernelError
from pulpsim.cli.config_options import (
    Arguments,
    ChosenChip,
    FileName,
    FileTable,
    Workers,
    argument_table,
    cache_file,
    option_layers,
)
from pulpsim.cli.executor import Asked, check_executor, executor_layers, without_executor
from pulpsim.commands.study.catalogue import STUDIES
from pulpsim.commands.study.study import Case, Study
from soc.chip.spec import DEFAULT_CHIP, SocSpec
from soc.config.toml import ConfigError, Mistakes, read_toml
from soc.config.validation import Layer, validated

COMMAND = "pulpsim study"


class StudyTable(FileTable):
    name: str
    quick: bool = False
    workers: Workers | None = None
    scheduler: str | None = None
    local_cluster: Workers | None = None
    database: FileName | None = None
    output: FileName | None = None
    args: dict[str, Any] = Field(default_factory=dict)  # checked as the study's arguments


class StudyConfig(FileTable):
    """The tables of a config file."""

    chip: Any = DEFAULT_CHIP  # checked as a chip
    study: StudyTable


@dataclass(frozen=True)
class Options:
    """The command line's options; None where one is left out."""

    arguments: Arguments = ()  # "cores=[1, 2]"
    chip: str | SocSpec | None = None
    settings: Sequence[str] = ()  # "l1.banks=32"
    quick: bool = False
    workers: int | None = None
    scheduler: str | None = None
    local_cluster: int | None = None
    database: Path | None = None
    output: Path | None = None


@dataclass(frozen=True)
class Plan:
    """A study that is ready to start."""

    study: Study
    arguments: BaseModel
    chip: SocSpec
    cases: Sequence[Case]
    executor: Asked
    database: Path
    output: Path


def load_plan(what: str, options: Options) -> Plan:
    """The study that a name or a config file, and options, describe; options win.

    raises    ConfigError with every mistake in the file, the chip, the arguments and the options
    """
    is_file = what.endswith(".toml") or "/" in what
    source, folder = (what, Path(what).parent) if is_file else (COMMAND, Path())
    table = read_toml(Path(what)) if is_file else {"study": {"name": what}}
    table = without_executor(table, "study", options)
    if "study" not in table:
        raise ConfigError([f'{source}: no study: it needs a [study] table with name = "banking"'])
    mistakes = Mistakes()
    chip, config = None, None
    cases: Sequence[Case] = ()
    with mistakes.collected():
        chosen = ChosenChip.of(source, folder, table, options.chip, options.settings, mistakes)
        chip = chosen.spec
    with mistakes.collected():
        config = validated(StudyConfig, [Layer(source, table), *_option_layers(options)])
        check_executor(source, "study", config.study, options)
    study, point = _with_arguments(source, table["study"], options, mistakes)
    if chip and study and point:
        with mistakes.collected():
            cases = _cases(study, point, chip)
    mistakes.raise_any()
    assert chip is not None
    assert config is not None
    assert study is not None
    assert point is not None
    how = config.study
    return Plan(
        study,
        point,
        chip,
        cases,
        how,
        options.database or (folder / how.database if how.database else cache_file("studies.db")),
        options.output or folder / (how.output or f"study-{study.name}"),
    )


def _with_arguments(
    source: str, written: Any, options: Options, mistakes: Mistakes
) -> tuple[Study | None, BaseModel | None]:
    """The study and its arguments, each None if it has mistakes, whatever else the table has."""
    given = Layer("--arg", argument_table(options.arguments, "cores=[1, 2]", mistakes))
    if not isinstance(written, dict) or not isinstance(written.get("name"), str):
        return None, None
    arguments = written.get("args", {})
    with mistakes.collected():
        study = study_of(written["name"], "" if source == COMMAND else f"{source}: ")
        is_quick = options.quick or written.get("quick") is True
        layers = [
            Layer("--quick", dict(study.quick) if is_quick else {}),
            Layer(source, arguments if isinstance(arguments, dict) else {}, prefix="study.args."),
            given,
        ]
        return study, validated(study.arguments, layers)
    return None, None


def study_of(name: str, source: str = "") -> Study:
    """The study of that name.

    source    where it is named, for messages: "study.toml: "
    raises    ConfigError if there is none
    """
    if name in STUDIES:
        return STUDIES[name]
    near = get_close_matches(name, STUDIES, 1)
    known = f"did you mean {near[0]}?" if near else f"the studies are {', '.join(STUDIES)}"
    raise ConfigError([f"{source}study {name!r}: no such study; {known}"])


def _cases(study: Study, point: BaseModel, chip: SocSpec) -> Sequence[Case]:
    if chip.control_page:
        raise ConfigError(
            [f"the chip {chip.name} is a test bench without PULP's peripherals; take another"]
        )
    try:
        return study.cases(point, chip)
    except KernelError as error:
        raise ConfigError([f"{study.name}: {error}"]) from None


def _option_layers(options: Options) -> list[Layer]:
    return option_layers(
        {"--quick": ("study", "quick", options.quick or None)} | executor_layers("study", options)
    )
