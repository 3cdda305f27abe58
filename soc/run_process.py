"""Processes that carry out runs, one at a time each."""

import pickle
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any

Task = Callable[..., Any]


class Process:
    """A process that calls one function, with what it is sent."""

    def __init__(self, task: Task):
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, task), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, *arguments: Any) -> Any:
        """What the function returns.

        raises    RuntimeError if the process ends on the way; what cannot be pickled says so
        """
        try:
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


def _serve(connection: Connection, task: Task) -> None:
    """Call the function with what comes, until the other side closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for whoever has started this process
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        try:
            answer = pickle.dumps(task(*pickle.loads(message)))
        except Exception as error:
            answer = pickle.dumps(error)
        connection.send_bytes(answer)
