"""Processes that carry out runs, one at a time each."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Self

from soc.host.signals import deferred

Task = Callable[..., Any]


class Process:
    """A process that calls one function with what it is sent, and ends with who made it."""

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
        try:
            with suppress(ConnectionError):  # that it has ended is told below
                self.connection.send(arguments)
            return self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            raise RuntimeError(f"the run's process ended with exit code {code}") from None

    def close(self) -> None:
        """End it after what it is doing."""
        self.connection.close()
        self.process.join()


class Processes:
    """Runs in processes; each call of `outcome` may come from a thread of its own.

    They start as they are needed, and stay for the next run.

    attempts    processes that may die under a run. It fails then: it is likely to be what kills
                them
    """

    def __init__(self, task: Task, attempts: int = 1):
        self.task, self.attempts = task, attempts
        self.idle: list[Process] = []
        self.busy: set[Process] = set()
        self.stops = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self.idle:
            self.idle.pop().close()

    def outcome(self, *arguments: Any) -> Any:
        """Let an idle process, or another one, carry out a run; what goes wrong is returned."""
        stops, deaths, outcome = self.stops, 0, None
        while self.stops == stops and deaths < self.attempts:
            process = self._take(stops)
            try:
                return process.call(*arguments)
            except Exception as error:
                outcome = error
                if process.process.is_alive():
                    break
                deaths += 1
            finally:
                self._give_back(process)
        return outcome

    def _take(self, stops: int) -> Process:
        try:
            process = self.idle.pop()
        except IndexError:  # another thread may have taken the last one
            process = Process(self.task)
        self.busy.add(process)
        if self.stops > stops:
            process.process.kill()
        return process

    def _give_back(self, process: Process) -> None:
        self.busy.discard(process)
        if process.process.is_alive():
            self.idle.append(process)
        else:
            process.close()

    def stop(self) -> None:
        """End the processes that work, and so their runs."""
        self.stops += 1
        for process in list(self.busy):
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
