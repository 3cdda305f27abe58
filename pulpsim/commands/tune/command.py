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
            help="Config file with program.kernel or [[layers]], or a network by name.",
        ),
    ] = None,
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="Kernel to tune.")] = None,
    arguments: Arguments = None,
    chip: Chip = None,
    settings: Settings = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="guided|exhaustive|paper",
            help="Points that are measured: chosen by estimates, all, or the paper's.",
        ),
    ] = None,
    sizes: Annotated[
        int | None, typer.Option(metavar="N", help="Try at most N sizes of each dimension.")
    ] = None,
    types: Annotated[
        str | None,
        typer.Option(metavar="f32,f16,bf16", help="Element types to try and compare."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Run N processes at a time; by default one a processor."),
    ] = None,
    scheduler: Scheduler = None,
    local_cluster: LocalCluster = None,
    database: Database = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.toml", help="Write the best point as a config file."
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every point as JSON; - is standard output."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|png", help="Draw cycles by tile shape and by bytes of L1."),
    ] = None,
    against_paper: Annotated[
        bool, typer.Option("--against-paper", help="Measure the paper's policy, too.")
    ] = False,
) -> None:
    """Find the fastest tiles and blocking of layers, by simulation.

    Layers are computed from L2 to L2. Every measurement is kept: after Ctrl-C the same
    command continues. Exit status: 0, 1 if all points of a layer fail, 2 bad input, 130 after
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
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONF.toml|NETWORK",
            help="Config file with program.kernel or [[layers]], or a network by name.",
        ),
    ],
    chip: Chip = None,
    settings: Settings = None,
    json: Json = None,
    element: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="f32|f16|bf16", help="Element type of all layers that come in it."
        ),
    ] = None,
) -> None:
    """Show the bytes of tensors in L2 and buffers in L1, by layer."""
    with reporting_bad_input():
        from pulpsim.commands.tune import footprint as command

        command.footprint(config, chip, settings or (), json, element)
