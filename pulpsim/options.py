"""Config files and options: what commands that take both have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from soc.spec import DEFAULT_CHIP, chip_layers
from soc.toml_file import ConfigError, Layer, Mistakes, Table, parse_setting


def _check_file_name(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("must be the path of a file")
    return text


FileName = Annotated[str, AfterValidator(_check_file_name)]


def written_chip(source: str, folder: Path, chip: Any, option: str | None) -> list[Layer]:
    """The layers of a `chip` entry; an option replaces its name or its base, not its fields."""
    fields: Table = dict(chip) if isinstance(chip, dict) else {}
    base = fields.pop("base", DEFAULT_CHIP) if isinstance(chip, dict) else chip
    if not isinstance(base, str):
        raise ConfigError([f"{source}: chip: must be the name or the path of a chip"])
    layers = chip_layers(option, Path()) if option else chip_layers(base, folder)
    return [*layers, Layer(source, fields, prefix="chip.")]


def setting_layers(settings: Sequence[str], mistakes: Mistakes) -> list[Layer]:
    layers = []
    for setting in settings:
        with mistakes.collected():
            layers.append(Layer("--set", parse_setting(setting)))
    return layers
