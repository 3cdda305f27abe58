"""Where simulations are carried out: processes of this machine, or a Dask cluster."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from autotuner.executors import Place, Processes, Threads
from pulpsim.cli.config_options import option_of
from soc.config.toml import ConfigError, Table

if TYPE_CHECKING:
    from autotuner.dask_executor import Cluster

PLACES = "workers", "scheduler", "local_cluster"
"""What a table and the options say it by; one of them."""


class Asked(Protocol):
    """What is said of the place."""

    @property
    def workers(self) -> int | None: ...

    @property
    def scheduler(self) -> str | None: ...

    @property
    def local_cluster(self) -> int | None: ...


def place_of(how: Asked, console: Console) -> AbstractContextManager[Place]:
    """The place that is asked for; it ends with the context.

    raises    ConfigError if there is no such cluster
    """
    if how.local_cluster is None and how.scheduler is None:
        return nullcontext(Threads(1)) if how.workers == 1 else Processes(how.workers)
    return _cluster(how, console)


def cluster_of(how: Asked, console: Console) -> "AbstractContextManager[Cluster | None]":
    """The cluster that is asked for, None if none is; it ends with the context.

    raises    ConfigError if there is no such cluster
    """
    if how.local_cluster is None and how.scheduler is None:
        return nullcontext()
    return _cluster(how, console)


def _cluster(how: Asked, console: Console) -> "Cluster":
    from autotuner.dask_executor import Cluster

    if how.local_cluster is not None:
        return Cluster.local(how.local_cluster)
    assert how.scheduler is not None
    cluster = Cluster(how.scheduler)
    if not cluster.workers:
        console.print(
            f"{how.scheduler}: has no workers yet; it waits for `dask worker {how.scheduler}`",
            highlight=False,
        )
    return cluster


def without_place(table: Table, name: str, options: Asked) -> Table:
    """A file's tables, of which that of a name says the place only if the options do not."""
    how = table.get(name)
    if isinstance(how, dict) and any(getattr(options, place) is not None for place in PLACES):
        return table | {name: {key: value for key, value in how.items() if key not in PLACES}}
    return table


def check_place(source: str, name: str, how: Asked, options: Asked) -> None:
    """Is one place said, by the table of a name or the options?

    raises    ConfigError if there are several
    """
    given = [place for place in PLACES if getattr(how, place) is not None]
    if len(given) < 2:
        return
    if any(getattr(options, place) is not None for place in PLACES):
        raise ConfigError([f"{' and '.join(map(option_of, given))}; give one of them"])
    raise ConfigError([f"{source}: {name}: {' and '.join(given)}; give one of them"])


def place_layers(name: str, options: Any) -> dict[str, tuple[str, str, Any]]:
    """What the options say of the place, for the table of a name."""
    return {option_of(key): (name, key, getattr(options, key)) for key in PLACES}
