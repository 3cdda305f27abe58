"""A Dask cluster as an executor of concurrent.futures: its scheduler and workers, on any machine.

Source: distributed.dask.org, "Client", "Resilience". Runs of a worker that is lost are given to
another one by the scheduler.
"""

import logging
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from soc.config.toml import ConfigError
from soc.host.source_version import FOLDERS, version_of
from soc.worker_process import without_interrupts

if TYPE_CHECKING:
    from distributed import Client

ANSWER = 5  # seconds in which a scheduler answers
ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")
SHOWN = 12  # digits of a version in messages
LOGS = ("", ".client", ".scheduler", ".worker", ".nanny", ".core", ".comm", ".batched", ".utils")


@dataclass(frozen=True)
class OtherVersion:
    """The outcome of a worker that has another simulator."""

    worker: str
    version: str
    asked: str


class Cluster(Executor):
    """The workers of a Dask cluster: any number of them, which may come and go.

    scheduler    its address, "tcp://HOST:PORT"

        with Cluster("tcp://127.0.0.1:8786") as executor:
            Measure(layer, chip, database, executor=executor)

    raises    ConfigError if distributed is not installed, or no scheduler answers there
    """

    def __init__(self, scheduler: str) -> None:
        self.scheduler, self.ends = scheduler, ExitStack()
        self.client = self._connected()

    @classmethod
    def local(cls, workers: int) -> "Cluster":
        """Workers on this machine, with a scheduler of their own; they end with the cluster.

        raises    ConfigError if distributed is not installed
        """
        distributed = _distributed(f"a cluster of {workers} workers")
        with without_interrupts():
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )  # fmt: skip
        executor = cls(cluster.scheduler_address)
        executor.ends.callback(cluster.close)
        return executor

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster: a future that has no outcome yet gets none."""
        self.client.close(timeout=1)
        self.ends.close()

    @property
    def workers(self) -> int:
        """How many workers are there now."""
        return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future:
        """Call a function on a worker: one that pickle finds by its name, as it finds arguments.

        The future raises RuntimeError if the call ended its workers, ConfigError if the cluster is
        lost, or has another simulator.
        """
        module = function.__module__
        order = Order(version_beside(module), module, partial(function, *arguments, **named))
        with self._losses():
            executor = self.client.get_executor(pure=False)
            answer = executor.submit(pickle.loads, pickle.dumps(order))
        return self._translated(answer)

    def _translated(self, answer: Future) -> Future:
        """Return a future with the outcome of a future of Dask's, its errors translated."""
        future: Future = Future()

        def cancel(future: Future) -> None:
            if future.cancelled():
                answer.cancel()

        def end(answer: Future) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._outcome(answer))
            except Exception as error:
                future.set_exception(error)

        future.add_done_callback(cancel)
        answer.add_done_callback(end)
        return future

    def _outcome(self, answer: Future) -> Any:
        from distributed import KilledWorker

        with self._losses():
            try:
                outcome = answer.result()
            except KilledWorker as error:
                raise RuntimeError(
                    f"{error.allowed_failures + 1} workers ended while it ran"
                ) from None
        if isinstance(outcome, OtherVersion):
            raise ConfigError(
                [
                    f"{self.scheduler}: the worker {outcome.worker} has version "
                    f"{outcome.version[:SHOWN]} of the simulator, this is version "
                    f"{outcome.asked[:SHOWN]}; install the same there"
                ]
            )
        return outcome

    def _connected(self) -> "Client":
        if not ADDRESS.fullmatch(self.scheduler):
            raise ConfigError(
                [f'scheduler "{self.scheduler}": must be tcp://HOST:PORT, as its log shows it']
            )
        client = _distributed(self.scheduler).Client
        try:
            return client(self.scheduler, timeout=ANSWER, set_as_default=False)
        except (OSError, ValueError, OverflowError):
            raise ConfigError(
                [
                    f"{self.scheduler}: no Dask scheduler answers; start one by `dask scheduler`, "
                    f"and give the address that it shows"
                ]
            ) from None

    @contextmanager
    def _losses(self) -> Iterator[None]:
        """Turn the exceptions that Dask raises for a loss into a ConfigError of one sentence."""
        try:
            yield
        except (CancelledError, OSError):
            raise ConfigError(
                [f"{self.scheduler}: the scheduler is lost; what was measured before is kept"]
            ) from None
        except ImportError as error:
            raise ConfigError(
                [f"{self.scheduler}: a worker answers: {error}; install pulpsim there, too"]
            ) from None


@dataclass(frozen=True)
class Order:
    """A call, as a worker gets it: when it is unpickled it becomes what the function returns.

    NOTE: a scheduler unpickles the functions and arguments that go to workers. All that this one
    sees is a function of Python's own and bytes, so it need not have the simulator.
    """

    version: str
    module: str
    call: Callable[[], Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return call_as, (self.version, self.module, pickle.dumps(self.call))


def call_as(version: str, module: str, pickled: bytes) -> Any:
    """What a function returns in this worker, if it has that version of the simulator."""
    from distributed import get_worker

    if version != version_beside(module):
        return OtherVersion(get_worker().address, version_beside(module), version)
    return pickle.loads(pickled)()


def version_beside(module: str) -> str:
    """A digest of what measures: the simulator, this folder, and the package of a module."""
    return version_of(tuple(sorted({*FOLDERS, "autotuner", module.split(".")[0]})))


def _distributed(wanted: str) -> Any:
    """Import the package, its log silent: errors are raised."""
    try:
        import distributed
    except ImportError:
        raise ConfigError(
            [f"{wanted}: dask.distributed is not installed: pip install 'pulpsim[cluster]'"]
        ) from None
    for name in LOGS:
        logging.getLogger(f"distributed{name}").setLevel(logging.CRITICAL)
    return distributed
