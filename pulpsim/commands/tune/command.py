"""pulpsim tune and pulpsim footprint: what their command lines say. Loads what they need late."""

from pathlib import Path
from typing import Annotated

import typer

from pulpsim.cli.shared_options import (
    Arguments,
    Chip,
    Database,
    Json,
    LocalCluster,
    Scheduler,
    Settings,
    reporting_bad_input,
)


def tune(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONF.toml|NETWORK",
            help="With program.kernel or [[layers]]; or a network by name.",
        ),
    ] = None,
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="What to tune.")] = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    policy: Annotated[
        str | None, typer.Option(metavar="guided|exhaustive|paper", help="What is measured.")
    ] = None,
    sizes: Annotated[
        int | None, typer.Option(metavar="N", help="Sizes of each dimension, at most.")
    ] = None,
    types: Annotated[
        str | None,
        typer.Option(metavar="f32,f16,bf16", help="Element types that are tried, and compared."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; as many as processors by default.")
    ] = None,
    scheduler: Scheduler = None,
    local_cluster: LocalCluster = None,
    database: Database = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.toml", help="The best point.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Every point as JSON; - is standard output.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|png", help="Cycles by tile shape and by bytes of L1."),
    ] = None,
    against_paper: Annotated[
        bool, typer.Option("--against-paper", help="Measure the paper's policy, too.")
    ] = False,
) -> None:
    """Find the fastest tiles and blocking of layers, by simulation.

    Layers are computed from L2 to L2. Every measurement is kept: the same command after Ctrl-C
    goes on where it was. Exit status: 0, 1 if all points of a layer fail, 2 bad input, 130 after
    Ctrl-C.
    """
    with reporting_bad_input():
        from pulpsim.commands.tune import search as command
        from pulpsim.commands.tune.config import Options

        options = Options(
            kernel=kernel,
            arguments=arguments or (),
            chip=chip,
            settings=settings or (),
            policy=policy,
            sizes=sizes,
            types=types.split(",") if types else None,
            workers=workers,
            database=database,
            scheduler=scheduler,
            local_cluster=local_cluster,
        )
        raise typer.Exit(command.tune(config, options, output, json, against_paper, picture))


def footprint(
    config: Annotated[Path, typer.Argument(metavar="CONF.toml|NETWORK", help="As for tune.")],
    chip: Chip = None,
    settings: Settings = None,
    json: Json = None,
    element: Annotated[
        str | None,
        typer.Option("--type", metavar="f32|f16|bf16", help="Of all layers that have it."),
    ] = None,
) -> None:
    """Show the bytes of tensors in L2 and buffers in L1, by layer."""
    with reporting_bad_input():
        from pulpsim.commands.tune import footprint as command

        command.footprint(config, chip, settings or (), json, element)
