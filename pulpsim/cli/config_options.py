"""Config files and options: what commands that take both have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from soc.chip.spec import DEFAULT_CHIP, SocSpec, chip_layers, compose, written_chip
from soc.config.toml import ConfigError, Mistakes, Table, merged, parse_setting
from soc.config.validation import Layer
from soc.host.cache_folder import chosen_folder, why_unusable

ANY_SETTING = "path.to.field=value, such as l1.banks=32"

Workers = Annotated[int, Field(ge=1, le=256)]
"""Processes that simulate."""

ElementType = Literal["f32", "f16", "bf16"]
"""What layers compute with."""


class FileTable(BaseModel):
    """A table of a config file: what it does not know, it refuses."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _check_file_name(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("must be the path of a file")
    return text


FileName = Annotated[str, AfterValidator(_check_file_name)]


@dataclass(frozen=True)
class ChosenChip:
    """The chip that a config file and options describe.

    spec      checked
    base      its name, or its file
    fields    that are changed
    """

    spec: SocSpec
    base: str | Path
    fields: Table

    @classmethod
    def of(
        cls,
        source: str,
        folder: Path,
        table: Table,
        option: str | SocSpec | None,
        settings: Sequence[str],
        mistakes: Mistakes,
    ) -> "ChosenChip":
        """Read the `chip` of a file; --chip replaces its name or its base, not its fields.

        folder      of the file
        option      --chip; a whole chip replaces all that the file says of it
        settings    "l1.banks=32"
        mistakes    gets those of the settings

        raises      ConfigError with those of the chip
        """
        if isinstance(option, SocSpec):
            return cls(option, DEFAULT_CHIP, option.model_dump(mode="json"))
        base, fields = written_chip(source, table.get("chip", DEFAULT_CHIP))
        changes = _setting_layers(settings, mistakes)
        named = "" if option or "chip" not in table else f"{source}: "
        base, folder = (option, Path()) if option else (base, folder)
        own = Layer(source, fields, prefix="chip.")
        spec = compose([*chip_layers(base, folder, named), own, *changes])
        for change in changes:
            fields = merged(fields, change.table)
        return cls(spec, folder / base if base.endswith(".toml") else base, fields)

    def entry(self, folder: Path) -> str | Table:
        """The `chip` of a config in another folder."""
        base = self.base if isinstance(self.base, str) else relpath(self.base, folder)
        return {"base": base, **self.fields} if self.fields else base


def _setting_layers(settings: Sequence[str], mistakes: Mistakes) -> list[Layer]:
    layers = []
    for setting in settings:
        with mistakes.collected():
            table = parse_setting(setting)
            if "program" in table:
                raise ConfigError(
                    [f"--set {setting}: changes the chip; --arg NAME=VALUE is for a kernel"]
                )
            layers.append(Layer("--set", table))
    return layers


def option_of(key: str) -> str:
    """The option that says a key of a table."""
    return f"--{key.replace('_', '-')}"


def option_layers(options: Mapping[str, tuple[str, str, Any]]) -> list[Layer]:
    """What was said on the command line, over what a file says.

    options    table, key and value by option, None if it was not given:
               {"--engine": ("run", "engine", "event")}
    """
    return [
        Layer(option, {table: {key: value}})
        for option, (table, key, value) in options.items()
        if value is not None
    ]


Arguments = Sequence[str] | Mapping[str, Any]
"""All --arg NAME=VALUE as they are written, or the table that they come to."""


def argument_table(written: Arguments, example: str, mistakes: Mistakes) -> Table:
    """The table of all --arg NAME=VALUE.

    example    for messages: "inputs=640"
    """
    if isinstance(written, Mapping):
        return dict(written)
    table: Table = {}
    for argument in written:
        with mistakes.collected():
            try:
                table = merged(table, parse_setting(argument))
            except ConfigError as error:
                form = f'NAME=VALUE, such as "{example}"'
                lines = [line.replace("--set", "--arg", 1) for line in error.mistakes]
                raise ConfigError([line.replace(ANY_SETTING, form) for line in lines]) from None
    return table


def program_table(
    kernel: str | None, written: Arguments, example: str, mistakes: Mistakes
) -> Table:
    """The [program] of --kernel and all --arg; example as for argument_table."""
    arguments = argument_table(written, example, mistakes)
    program: Table = {"kernel": kernel} if kernel else {}
    if arguments:
        program["args"] = arguments
    return {"program": program} if program else {}


def cache_file(name: str) -> Path:
    """A database in the user's cache folder.

    raises    ConfigError if that cannot be used: a temporary one would lose it
    """
    way_out = "--database FILE names a file elsewhere"
    try:
        folder = chosen_folder()
    except RuntimeError:
        raise ConfigError([f"there is no home folder to keep results in; {way_out}"]) from None
    if why := why_unusable(folder):
        raise ConfigError([f"{folder}: {why}; {way_out}"])
    return folder / name
