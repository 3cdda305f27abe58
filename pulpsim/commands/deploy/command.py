"""pulpsim deploy: what its command line says. Loads what it needs late."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pulpsim.cli.shared_options import Chip, Json, Settings, reporting_bad_input

LEARNING = ("lr", "momentum", "nesterov", "weight_decay", "clip_norm", "clip_value")


def deploy(
    network: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.py:NAME|FILE.onnx|CONF.toml",
            help="A torch.nn.Module, or a function that returns one; an ONNX training graph; "
            "or a config file.",
        ),
    ] = None,
    shape: Annotated[
        str | None, typer.Option("--input", metavar="BxCxHxW", help="Shape of a batch.")
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="cross_entropy|mse|l1|own|FILE.py:NAME",
            help="Loss function, cross_entropy by default; own: what forward(x, target) returns.",
        ),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="sgd|adam|adamw|FILE.onnx",
            help="Optimizer, sgd by default; or an ONNX graph of one.",
        ),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(metavar="X", help="Learning rate; 0.01 by default.")
    ] = None,
    momentum: Annotated[float | None, typer.Option(metavar="X", help="Momentum of sgd.")] = None,
    nesterov: Annotated[
        bool, typer.Option("--nesterov", help="Use Nesterov's momentum in sgd.")
    ] = False,
    weight_decay: Annotated[float | None, typer.Option(metavar="X", help="Weight decay.")] = None,
    clip_norm: Annotated[
        float | None, typer.Option(metavar="X", help="Largest norm of all gradients together.")
    ] = None,
    clip_value: Annotated[
        float | None, typer.Option(metavar="X", help="Largest magnitude of a gradient's element.")
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option(metavar="N", help="Add the gradients of N batches for each step.")
    ] = None,
    mean: Annotated[
        bool, typer.Option("--mean", help="Step by the mean of accumulated gradients, not the sum.")
    ] = False,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="f32|f16|bf16", help="Element type of layers; weights are updated in f32."
        ),
    ] = None,
    layer_dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=TYPE",
            help="Element type of layers by name, such as head.*=f32; repeatable.",
        ),
    ] = None,
    loss_scale: Annotated[
        str | None,
        typer.Option(
            metavar="X|dynamic", help="Factor of the loss, a power of two; none by default."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz", help="Examples as arrays x and target; random by default."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Losses and weights that a FILE.onnx must reach."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of updates; 1, or as many as the data of a FILE.onnx has."
        ),
    ] = None,
    chip: Chip = None,
    settings: Settings = None,
    cores: Annotated[
        int | None, typer.Option(metavar="N", help="Number of cores that compute; all by default.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.elf",
            help="Write the program, its batches included, as an ELF file.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Write weights and optimizer states after training."),
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Go on with what --save has written."),
    ] = None,
    json: Json = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of weights and random batches; 0 by default."),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Plan memory and layers; do not run the program.")
    ] = False,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Use the tiles that `pulpsim tune` has found.")
    ] = False,
    database: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Database that `pulpsim tune` has written.")
    ] = None,
    layers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Write the network's layers as a config for `pulpsim tune`."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Write a page that shows layers, and memory by lifetime."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare gradients and losses with PyTorch's.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Train in f32, f16, bf16 and as the options say; show one table."
        ),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Accept a FILE.onnx whose backward nodes are wrong; gradients are derived anew.",
        ),
    ] = False,
    operators: Annotated[
        bool, typer.Option("--operators", help="List the operators that a network may have.")
    ] = False,
) -> None:
    """Train a network on the chip.

    Shows bytes of memory, cycles by layer, and losses. Exit status: 0, 1 if --verify or
    --against finds an error above its bound, 2 bad input.
    """
    with reporting_bad_input():
        from pulpsim.commands.deploy import session as command
        from pulpsim.commands.deploy.config import with_config
        from soc.config.toml import ConfigError

        if operators:
            command.show_operators()
            return
        if network is None:
            raise ConfigError(
                ["which network? FILE.py:NAME, such as model.py:build, a FILE.onnx, or a CONF.toml"]
            )
        said: dict[str, Any] = {
            "input": shape,
            "loss": loss,
            "optimizer": optimizer,
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov or None,
            "weight_decay": weight_decay,
            "clip_norm": clip_norm,
            "clip_value": clip_value,
            "accumulate": accumulate,
            "mean": mean or None,
            "dtype": dtype,
            "dtypes": layer_dtype or None,
            "loss_scale": loss_scale,
            "data": data,
            "steps": steps,
            "cores": cores,
            "seed": seed,
        }
        source = Path(network) if network.endswith(".toml") else None
        given, table = {**said, "network": network}, dict[str, Any]()
        if source:
            given, table = with_config(source, said, chip, settings or ())
        learning = {name: given[name] for name in LEARNING}
        learning["groups"] = given.get("groups") or None
        types = {"dtype": given["dtype"] or "f32", "dtypes": given["dtypes"] or ()}
        options = command.Options(
            network=given["network"],
            input=given["input"],
            loss=given["loss"] or "cross_entropy",
            optimizer=given["optimizer"] or "sgd",
            learning=learning,
            accumulate=given["accumulate"],
            mean=bool(given["mean"]),
            data=given["data"],
            against=against,
            steps=given["steps"],
            chip=chip,
            settings=settings or (),
            cores=given["cores"],
            output=output,
            save=save,
            load=load,
            json=json,
            seed=given["seed"] or 0,
            plans_only=plan_only,
            verifies=verify,
            is_tuned=tuned,
            database=database,
            layers=layers,
            report=report,
            precision={**types, "loss_scale": given["loss_scale"]},
            repairs=repair,
            compares=compare,
            source=source,
            table=table,
        )
        raise typer.Exit(command.run(options))
