"""Calls of functions in processes of their own, as an executor of concurrent.futures."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from soc.host.signals import deferred

Call = Callable[[], Any]


class Process:
    """A process that carries out the calls it is sent, and ends with the process that made it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with without_interrupts():
            self.process.start()
        theirs.close()

    def carry_out(self, call: Call) -> Any:
        """What a call returns.

        raises    what it raises; RuntimeError if the process ends on the way; what cannot be
                  pickled says so
        """
        try:
            with suppress(ConnectionError):  # that it has ended is told below
                self.connection.send(call)
            outcome, error = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            raise RuntimeError(f"the run's process ended with exit code {code}") from None
        if error:
            raise error
        return outcome

    def close(self) -> None:
        """End it after what it is doing."""
        self.connection.close()
        self.process.join()


class Processes(Executor):
    """Processes of this machine: they start as they are needed, and stay for the next call.

    count       calls at a time; None: as many as there are processors
    attempts    processes that may die under a call. It fails then: it is likely to be what kills
                them

    An error that ends the context ends the calls under way.

        with Processes(2) as executor:
            Measure(layer, chip, database, executor=executor)
    """

    def __init__(self, count: int | None = None, attempts: int = 5):
        self.threads = ThreadPoolExecutor(count or processors())
        self.attempts = attempts
        self.idle: list[Process] = []
        self.busy: set[Process] = set()
        self.is_stopped = False

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future:
        """Call a function in a process: one that pickle finds by its name, as it finds arguments.

        The future raises RuntimeError if the processes died.
        """
        return self.threads.submit(self._carry_out, partial(function, *arguments, **named))

    def _carry_out(self, call: Call) -> Any:
        deaths = 0
        while not self.is_stopped:
            process = self._take()
            try:
                return process.carry_out(call)
            except Exception:
                deaths += not process.process.is_alive()
                if process.process.is_alive() or deaths == self.attempts:
                    raise
            finally:
                self._give_back(process)
        raise CancelledError

    def _take(self) -> Process:
        try:
            process = self.idle.pop()
        except IndexError:  # another thread may have taken the last one
            process = Process()
        self.busy.add(process)
        if self.is_stopped:
            process.process.kill()
        return process

    def _give_back(self, process: Process) -> None:
        self.busy.discard(process)
        if process.process.is_alive():
            self.idle.append(process)
        else:
            process.close()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, those that work too if futures are cancelled."""
        if cancel_futures:
            self.is_stopped = True
            for process in list(self.busy):
                process.process.kill()
        self.threads.shutdown(wait, cancel_futures=cancel_futures)
        while self.idle:
            self.idle.pop().close()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=error is not None)


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C is for whoever starts a process: it inherits that it is blocked.

    Who starts it gets signals after that: a process that is started by half shows a traceback.
    """
    resource_tracker.ensure_running()  # when that starts, it unblocks it
    with deferred():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Carry out the calls that come, until the other side closes."""
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        while True:
            message = connection.recv_bytes()
            try:
                answer = pickle.dumps((pickle.loads(message)(), None))
            except Exception as error:
                answer = pickle.dumps((None, error))
            connection.send_bytes(answer)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
