"""A primitive, its arguments and its chip as a config file says them: see `pulpsim run`.

outputs, report = launch(*read_config("best.toml"))
"""

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from soc.chip.spec import DEFAULT_CHIP, SocSpec, load_chip, written_chip
from soc.config.toml import read_toml
from soc.config.validation import Layer, validated
from trainlib.npz import read_npz


class ProgramTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kernel: str
    args: dict[str, Any] = Field(default_factory=dict)
    inputs: str | None = None


class Config(BaseModel):
    """The tables that say what is computed, and where; how to run it is others'."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    chip: Any = DEFAULT_CHIP  # checked as a chip
    program: ProgramTable


class Launch(NamedTuple):
    """The first arguments of `launch` and of `program`."""

    kernel: str
    arguments: dict[str, Any]
    chip: SocSpec
    inputs: dict[str, np.ndarray] | None


def read_config(file: str | PathLike) -> Launch:
    """Read a config; paths in it are relative to its folder.

    raises    ConfigError if it cannot be read or says no primitive, and for the chip's mistakes;
              ValueError for inputs that cannot be read
    """
    path = Path(file)
    config = validated(Config, [Layer(str(path), read_toml(path))])
    folder = path.parent
    base, fields = written_chip(str(path), config.chip)
    table = config.program
    inputs = read_npz(folder / table.inputs) if table.inputs else None
    return Launch(table.kernel, table.args, load_chip(base, fields, folder=folder), inputs)
