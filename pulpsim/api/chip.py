"""The chip of a call: by name, by file, as a table of fields, or whole."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from soc.chip.spec import DEFAULT_CHIP, SocSpec, load_chip

Chip = str | PathLike[str] | Mapping[str, Any] | SocSpec


def chip_option(chip: Chip | None) -> str | SocSpec | None:
    """A chip as the options of a command have it.

    raises    ConfigError for a table's mistakes
    """
    if chip is None or isinstance(chip, str | SocSpec):
        return chip
    if isinstance(chip, Mapping):
        fields = dict(chip)
        return load_chip(fields.pop("base", DEFAULT_CHIP), fields)
    return fspath(chip)
