"""pulpsim.tune: the fastest tiling and blocking of layers, as `pulpsim tune` finds it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from autotuner.measurement_store import Database
from autotuner.result import Found
from pulpsim.api.chip import Chip, chip_option
from pulpsim.cli.executor import executor_of
from pulpsim.commands.tune.config import Options, load_tuning
from pulpsim.commands.tune.progress import Pace
from pulpsim.commands.tune.result import Tuned, tuned_toml
from pulpsim.commands.tune.search import tuned
from soc.config.toml import Table
from soc.host.notebook import frame, html_table
from trainlib.registry import KERNELS


@dataclass(frozen=True, repr=False)
class TuneResult:
    """The result of a search.

    layers    results by layer, in the order of the config
    chip      as a config names it
    """

    layers: tuple[Tuned, ...]
    chip: str | Table

    @property
    def best(self) -> Found | None:
        """The fastest point of the only layer; None if all its points have failed.

        raises    ValueError if there are several layers: see result["conv.fw"].best
        """
        if len(self.layers) != 1:
            raise ValueError(f"{len(self.layers)} layers; choose one of {', '.join(self)}")
        return self.layers[0].best

    def __getitem__(self, name: str) -> Tuned:
        return {layer.name: layer for layer in self.layers}[name]

    def __iter__(self) -> Iterator[str]:
        return (layer.name for layer in self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def config(self, name: str | None = None) -> str:
        """A config of a layer at its best point, for a file that `pulpsim run` and `run` take."""
        layer = self[name] if name else self.layers[0]
        if layer.best is None:
            raise ValueError(f"{layer.name}: no point has succeeded")
        return tuned_toml(self.chip, layer.space.layer, layer.best.point)

    def to_frame(self) -> Any:
        """Every point as a pandas.DataFrame: layer, cycles, bytes of L1, why it failed, point.

        raises    ImportError without pandas
        """
        return frame(
            {
                "layer": layer.name,
                "cycles": found.outcome.cycles,
                "l1_bytes": found.outcome.l1_bytes,
                "is_estimated": found.is_estimated,
                "reason": found.outcome.reason,
                "point": found.point.arguments,
            }
            for layer in self.layers
            for found in layer.found
        )

    def __repr__(self) -> str:
        found = sum(len(layer.found) for layer in self.layers)
        return f"<TuneResult {', '.join(self)}: {found:,} points, {_saved(self.layers)}>"

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], [_row(layer) for layer in self.layers])


def _saved(layers: Sequence[Tuned]) -> str:
    best = [layer.best.outcome.cycles for layer in layers if layer.best]
    before = [layer.default.cycles or 0 for layer in layers]
    return f"{sum(before):,} to {sum(c or 0 for c in best):,} cycles"


def _row(layer: Tuned) -> dict[str, Any]:
    best = layer.best
    return {
        "layer": layer.name,
        "points": len(layer.space),
        "simulated": layer.searched,
        "default": layer.default.cycles,
        "best": best.outcome.cycles if best else None,
        "gain": layer.gain(layer.default),
        "point": str(best.point.arguments) if best else "",
    }


def tune(
    what: str | PathLike[str],
    arguments: Mapping[str, Any] | None = None,
    chip: Chip | None = None,
    *,
    policy: Literal["guided", "exhaustive", "paper"] | None = None,
    sizes: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    database: str | PathLike[str] | None = None,
) -> TuneResult:
    """Find the fastest tiles and blocking of layers, by simulation.

    what         a kernel, whose `arguments` follow; a config file; or a network: "dscnn"
    chip         as for `run`
    policy       "guided", "exhaustive" or "paper"; the config's, else "guided"
    sizes        of each dimension that are tried, at most
    workers      simulations at a time; None: as many as there are processors
    scheduler    of a Dask cluster that measures, "tcp://HOST:PORT"
    database     file that keeps every measurement; None: one in the user's cache folder

    Layers are computed from L2 to L2, and every point's outputs are compared with the reference.

    raises    ConfigError with every mistake in layers, chip and options

        found = ps.tune("linear_fw_f32", {"inputs": 640, "outputs": 128})
        found.best.point.arguments, found.best.outcome.cycles
    """
    kernel = str(what) if str(what) in KERNELS else None
    options = Options(
        kernel=kernel,
        arguments=arguments or {},
        chip=chip_option(chip),
        policy=policy,
        sizes=sizes,
        workers=workers,
        scheduler=scheduler,
        database=Path(database) if database else None,
    )
    tuning = load_tuning(None if kernel else Path(what), options)
    console, pace = Console(quiet=True), Pace(len(tuning.spaces))
    store = Database(tuning.database)
    try:
        with executor_of(tuning.how, console) as executor:
            layers = tuple(
                tuned(name, tuning, store, executor, console, pace, False) for name in tuning.spaces
            )
    finally:
        store.close()
    return TuneResult(layers, tuning.chip.entry(Path()))
