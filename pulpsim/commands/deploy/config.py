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

from collections.abc import Mapping, Sequence
from math import frexp
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from pulpsim.cli.config_options import ChosenChip, ElementType, FileName, FileTable
from pulpsim.commands.deploy.model import LOSSES, OWN, SHAPE, shape_of
from soc.chip.spec import DEFAULT_CHIP
from soc.config.toml import ConfigError, Mistakes, read_toml
from soc.config.validation import Layer, validated
from trainlib.deploy.optimizers import OPTIMIZERS


def _check_shape(text: str) -> str:
    try:
        shape_of(text)
    except ConfigError:
        raise ValueError(f"must be {SHAPE}") from None
    return text


def _check_optimizer(name: str) -> str:
    if name not in OPTIMIZERS and not name.endswith(".onnx"):
        raise ValueError(f"must be {', '.join(OPTIMIZERS)} or a FILE.onnx")
    return name


def _check_loss(name: str) -> str:
    if name not in (*LOSSES, OWN) and not name.rpartition(":")[0].endswith(".py"):
        raise ValueError(f"must be {', '.join(LOSSES)}, {OWN} or FILE.py:NAME")
    return name


def _check_scale(scale: str | float) -> str | float:
    if not isinstance(scale, str) and not (scale > 0 and frexp(scale)[0] == 0.5):
        raise ValueError("must be a power of two, or 'dynamic'")
    return scale


Count = Annotated[int, Field(ge=1, lt=1 << 31)]
Size = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
Scale = Annotated[Literal["dynamic"] | float, AfterValidator(_check_scale)]


class GroupTable(FileTable):
    params: str | Annotated[tuple[str, ...], Field(min_length=1)]
    lr: Size | None = None
    momentum: Share | None = None
    nesterov: bool | None = None
    weight_decay: Size | None = None


class DeployTable(FileTable):
    network: FileName
    input: Annotated[str, AfterValidator(_check_shape)] | None = None
    loss: Annotated[str, AfterValidator(_check_loss)] | None = None
    optimizer: Annotated[str, AfterValidator(_check_optimizer)] | None = None
    lr: Size | None = None
    momentum: Share | None = None
    nesterov: bool | None = None
    weight_decay: Size | None = None
    clip_norm: Limit | None = None
    clip_value: Limit | None = None
    accumulate: Count | None = None
    mean: bool | None = None
    data: FileName | None = None
    steps: Count | None = None
    cores: Count | None = None
    seed: Seed | None = None
    dtype: ElementType | None = None
    master: Literal["f32"] = "f32"
    loss_scale: Scale | None = None
    dtypes: dict[str, ElementType] = Field(default_factory=dict)
    groups: tuple[GroupTable, ...] = ()


class DeployConfig(FileTable):
    """The tables of a config file."""

    chip: Any = DEFAULT_CHIP  # checked as a chip
    deploy: DeployTable


def with_config(
    file: Path, said: Mapping[str, Any], chip: str | None = None, settings: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a config file and the command line say, by option; and the file's own table.

    said              values by option, None where the command line says nothing
    chip, settings    what it says of the chip

    raises    ConfigError with every mistake in the file
    """
    table, mistakes = read_toml(file), Mistakes()
    with mistakes.collected():
        config = validated(DeployConfig, [Layer(str(file), table)]).deploy
    with mistakes.collected():
        ChosenChip.of(str(file), file.parent, table, chip, settings, mistakes)
    mistakes.raise_any()
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
