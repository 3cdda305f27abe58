"""Processes that carry out runs, one at a time each."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from soc.signals import deferred

Task = Callable[..., Any]


class Process:
    """A process that calls one function, with what it is sent; it ends with the one that made it.

    connection    is readable when a call has ended, or the process has
    """

    def __init__(self, task: Task):
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, task), daemon=True)
        with without_interrupts():
            self.process.start()
        theirs.close()

    def call(self, *arguments: Any) -> Any:
        """What the function returns.

        raises    RuntimeError if the process ends on the way; what cannot be pickled says so
        """
        self.begin(*arguments)
        return self.end()

    def begin(self, *arguments: Any) -> None:
        """Let it call the function. That the process has ended is told by `end`."""
        with suppress(ConnectionError):
            self.connection.send(arguments)

    def end(self) -> Any:
        """What the function has returned; exceptions as of `call`."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            raise RuntimeError(f"the run's process ended with exit code {code}") from None

    def kill(self) -> None:
        """End it now, whatever it is doing."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """End it after what it is doing."""
        self.connection.close()
        self.process.join()


class Processes:
    """Runs in processes; each call of `outcome` may come from a thread of its own."""

    def __init__(self, task: Task):
        self.task = task
        self.all: list[Process] = []
        self.idle: SimpleQueue[Process] = SimpleQueue()
        self.is_stopped = False

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            process.close()

    def outcome(self, *arguments: Any) -> Any:
        """Let an idle process, or another one, carry out a run; what goes wrong is returned."""
        process = self._take()
        try:
            outcome = process.call(*arguments)
        except Exception as error:
            outcome = error
        if process.process.is_alive():
            self.idle.put(process)
        return outcome

    def _take(self) -> Process:
        try:
            return self.idle.get_nowait()
        except Empty:
            process = Process(self.task)
            self.all.append(process)
        if self.is_stopped:
            process.process.kill()
        return process

    def stop(self) -> None:
        """End all processes now."""
        self.is_stopped = True
        for process in list(self.all):
            process.process.kill()


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


def _serve(connection: Connection, task: Task) -> None:
    """Call the function with what comes, until the other side closes."""
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        while True:
            message = connection.recv_bytes()
            try:
                answer = pickle.dumps(task(*pickle.loads(message)))
            except Exception as error:
                answer = pickle.dumps(error)
            connection.send_bytes(answer)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
