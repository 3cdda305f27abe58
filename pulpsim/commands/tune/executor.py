"""Where a search measures: processes of this machine, or a Dask cluster."""

from contextlib import AbstractContextManager, nullcontext

from rich.console import Console

from autotuner.executors import Place, Processes, Threads
from pulpsim.commands.tune.config import TuneTable


def place_of(how: TuneTable, console: Console) -> AbstractContextManager[Place]:
    """The place that is asked for; it ends with the context.

    raises    ConfigError if there is no such cluster
    """
    if how.local_cluster is None and how.scheduler is None:
        return nullcontext(Threads(1)) if how.workers == 1 else Processes(how.workers)
    from autotuner.dask_executor import Cluster

    if how.local_cluster is not None:
        return Cluster.local(how.local_cluster)
    assert how.scheduler is not None
    cluster = Cluster(how.scheduler)
    if not cluster.workers:
        console.print(
            f"{how.scheduler}: has no workers yet; the search waits for `dask worker "
            f"{how.scheduler}`",
            highlight=False,
        )
    return cluster
