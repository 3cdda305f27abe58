"""The config file of `pulpsim deploy CONF.toml`; options on the command line win.

chip = "pulp"                   # or a [chip] table, as for `pulpsim run`
[deploy]
network = "model.py:build"      # or a FILE.onnx; files are relative to this one
input = "4x3x32x32"             # of a batch
loss = "cross_entropy"          # or "mse", "l1", "own", "loss.py:function"
optimizer = "sgd"               # or "adam", "adamw"; lr, momentum, nesterov, weight_decay,
lr = 0.01                       # clip_norm, clip_value
steps = 3                       # accumulate, mean, data, cores, seed: as the options of that name
dtype = "bf16"                  # what layers compute with: "f32", "f16" or "bf16"
master = "f32"                  # what weights and the optimiser's state are: nothing else yet
loss_scale = "dynamic"          # or a power of two; none if left out
dtypes = {"head.*" = "f32"}     # of layers whose names fit, the last that fits

[[deploy.groups]]               # parameters that learn otherwise, by patterns of their names
params = ["*.bias", "norm*"]
weight_decay = 0.0
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pulpsim.cli.config_options import ElementType, FileName, FileTable
from soc.chip.spec import DEFAULT_CHIP
from soc.config.toml import read_toml
from soc.config.validation import Layer, validated


class GroupTable(FileTable):
    params: str | Annotated[tuple[str, ...], Field(min_length=1)]
    lr: float | None = None
    momentum: float | None = None
    nesterov: bool | None = None
    weight_decay: float | None = None


class DeployTable(FileTable):
    network: FileName
    input: str | None = None
    loss: str | None = None
    optimizer: str | None = None
    lr: float | None = None
    momentum: float | None = None
    nesterov: bool | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    clip_value: float | None = None
    accumulate: int | None = None
    mean: bool | None = None
    data: FileName | None = None
    steps: int | None = None
    cores: int | None = None
    seed: int | None = None
    dtype: ElementType | None = None
    master: Literal["f32"] = "f32"
    loss_scale: Literal["dynamic"] | float | None = None
    dtypes: dict[str, ElementType] = Field(default_factory=dict)
    groups: tuple[GroupTable, ...] = ()


class DeployConfig(FileTable):
    """The tables of a config file."""

    chip: Any = DEFAULT_CHIP  # checked as a chip
    deploy: DeployTable


def with_config(file: Path, said: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a config file and the command line say, by option; and the file's own table.

    said    values by option, None where the command line says nothing

    raises    ConfigError with every mistake in the file
    """
    table = read_toml(file)
    config = validated(DeployConfig, [Layer(str(file), table)]).deploy
    written = config.model_dump(exclude={"master"})
    written["network"] = str(file.parent / config.network)
    written["data"] = file.parent / config.data if config.data else None
    if config.loss and config.loss.rpartition(":")[0].endswith(".py"):
        written["loss"] = str(file.parent / config.loss)
    if config.optimizer and config.optimizer.endswith(".onnx"):
        written["optimizer"] = str(file.parent / config.optimizer)
    written["dtypes"] = [f"{pattern}={name}" for pattern, name in config.dtypes.items()]
    written["groups"] = [group.model_dump(exclude_none=True) for group in config.groups]
    scale = config.loss_scale
    written["loss_scale"] = None if scale is None else str(scale)
    return {**written, **{name: value for name, value in said.items() if value is not None}}, table
