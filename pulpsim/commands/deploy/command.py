"""pulpsim deploy: what its command line says. Loads what it needs late."""

from pathlib import Path
from typing import Annotated

import typer

from pulpsim.commands.cli.shared_options import Chip, Json, Settings, reporting_bad_input


def deploy(
    network: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.py:NAME|FILE.onnx",
            help="A torch.nn.Module, or what returns one; a training graph.",
        ),
    ] = None,
    shape: Annotated[
        str | None, typer.Option("--input", metavar="BxCxHxW", help="Of a batch.")
    ] = None,
    loss: Annotated[str, typer.Option(metavar="cross_entropy|mse|l1")] = "cross_entropy",
    optimizer: Annotated[str, typer.Option(metavar="sgd|adam|adamw|FILE.onnx")] = "sgd",
    lr: Annotated[float | None, typer.Option(metavar="X", help="0.01 by default.")] = None,
    momentum: Annotated[float | None, typer.Option(metavar="X", help="Of sgd.")] = None,
    nesterov: Annotated[bool, typer.Option("--nesterov", help="Of sgd with a momentum.")] = False,
    weight_decay: Annotated[float | None, typer.Option(metavar="X")] = None,
    clip_norm: Annotated[
        float | None, typer.Option(metavar="X", help="The most that all gradients' norm may be.")
    ] = None,
    clip_value: Annotated[
        float | None, typer.Option(metavar="X", help="The most that a gradient may be.")
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option(metavar="N", help="Batches whose gradients are added for a step.")
    ] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Of those gradients, not the sum.")] = False,
    dtype: Annotated[
        str, typer.Option(metavar="f32|f16|bf16", help="Of layers; weights learn in f32.")
    ] = "f32",
    layer_dtype: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN=TYPE", help="Of layers so named, as head.*=f32."),
    ] = None,
    loss_scale: Annotated[
        str | None, typer.Option(metavar="X|dynamic", help="A power of two; none by default.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="x and target by example; random by default."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Losses and weights of a FILE.onnx.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Updates; 1, or those of an ONNX's data.")
    ] = None,
    chip: Chip = None,
    settings: Settings = None,
    cores: Annotated[int | None, typer.Option(metavar="N", help="All by default.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.elf", help="A program with its batches."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Weights and states after training.")
    ] = None,
    json: Json = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of weights and random batches.")] = 0,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Do not run it.")] = False,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Take the tiles that `pulpsim tune` has found.")
    ] = False,
    database: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where those are kept.")
    ] = None,
    layers: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Write its layers, for `pulpsim tune`."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page: layers, memory by lifetime."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Hold gradients and losses against PyTorch's.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Take a FILE.onnx although its backward nodes have defects."),
    ] = False,
    operators: Annotated[
        bool, typer.Option("--operators", help="List the operators that a network may have.")
    ] = False,
) -> None:
    """Train a network on the chip.

    Shows bytes of memory, cycles by layer, and losses. Exit status: 0, 1 if --verify or
    --against finds what is further off than it may be, 2 bad input.
    """
    with reporting_bad_input():
        from pulpsim.commands.deploy import session as command
        from soc.config.toml import ConfigError

        if operators:
            command.show_operators()
            return
        if network is None:
            raise ConfigError(
                ["which network? FILE.py:NAME, such as model.py:build, or a FILE.onnx"]
            )
        learning = {
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov or None,
            "weight_decay": weight_decay,
            "clip_norm": clip_norm,
            "clip_value": clip_value,
        }
        options = command.Options(
            *(network, shape, loss, optimizer, learning, accumulate, mean, data, against, steps),
            *(chip, settings or (), cores, output, save, json, seed, plan_only, verify),
            *(tuned, database, layers, report),
            {"dtype": dtype, "dtypes": layer_dtype or (), "loss_scale": loss_scale},
            repair,
        )
        raise typer.Exit(command.run(options))
