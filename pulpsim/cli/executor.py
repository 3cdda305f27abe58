"""The executor of simulations that options choose: processes here, or a Dask cluster."""

from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from pulpsim.cli.config_options import option_of
from soc.config.toml import ConfigError, Table
from soc.run_many import Threads
from soc.worker_process import Processes

if TYPE_CHECKING:
    from autotuner.dask_executor import Cluster

CHOICES = "workers", "scheduler", "local_cluster"
"""Fields of a table, and options, of which one may choose it."""


class Asked(Protocol):
    """What a table or options say of the executor."""

    @property
    def workers(self) -> int | None: ...

    @property
    def scheduler(self) -> str | None: ...

    @property
    def local_cluster(self) -> int | None: ...


def executor_of(how: Asked, console: Console) -> AbstractContextManager[Executor]:
    """The executor that is asked for; it ends with the context.

    raises    ConfigError if there is no such cluster
    """
    if how.local_cluster is None and how.scheduler is None:
        return Threads(1) if how.workers == 1 else Processes(how.workers)
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


def without_executor(table: Table, name: str, options: Asked) -> Table:
    """A file's tables; the one of this name chooses an executor only if the options do not."""
    how = table.get(name)
    if isinstance(how, dict) and any(getattr(options, choice) is not None for choice in CHOICES):
        return table | {name: {key: value for key, value in how.items() if key not in CHOICES}}
    return table


def check_executor(source: str, name: str, how: Asked, options: Asked) -> None:
    """Check that a table of this name and the options choose one executor.

    raises    ConfigError if there are several
    """
    given = [choice for choice in CHOICES if getattr(how, choice) is not None]
    if len(given) < 2:
        return
    if any(getattr(options, choice) is not None for choice in CHOICES):
        raise ConfigError([f"{' and '.join(map(option_of, given))}; give one of them"])
    raise ConfigError([f"{source}: {name}: {' and '.join(given)}; give one of them"])


def executor_layers(name: str, options: Any) -> dict[str, tuple[str, str, Any]]:
    """What the options choose, as layers over the table of this name."""
    return {option_of(key): (name, key, getattr(options, key)) for key in CHOICES}
