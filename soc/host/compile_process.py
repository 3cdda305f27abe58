"""Starts the processes that make machine code, and ends them: see soc.host.child_process."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from soc.config.toml import ConfigError

CODE = "code.o"
ROOT = Path(__file__).parents[2]

Progress = Callable[[str], AbstractContextManager]
"""Wraps a long step that its text names."""

Files = dict[str, bytes]
"""The content of a unit's files, by name."""

_compilers: list[subprocess.Popen] = []
"""Under way; threads wait for them."""


def start(
    module: str, order: object, output: int | None = None, errors: int | None = None
) -> subprocess.Popen:
    """Start a process that carries out an order, a line of JSON; it ends with this one.

    Its session is its own: Ctrl-C is for the process that has started it.

    output, errors    stdout and stderr of Popen

    raises    OSError
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=errors,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    )
    assert process.stdin
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    return process


def compile_units(names: Iterable[str], on_end: Callable[[str, Files], None]) -> None:
    """Compile units, named, in processes of their own; they are ended if this is interrupted.

    on_end    gets each unit's name and files as soon as it is compiled

    raises    ConfigError if they cannot be started, or are killed; RuntimeError if compiling fails,
              with its traceback on standard error; what on_end raises
    """
    try:
        process = start("soc.engine.compile_worker", sorted(names), subprocess.PIPE)
    except OSError as error:
        raise ConfigError([f"the interpreter cannot be compiled: {error.strerror}"]) from None
    _compilers.append(process)
    try:
        with process:
            assert process.stdout
            while made := _read(process.stdout):
                on_end(*made)
    finally:
        stop(process)
        _compilers.remove(process)
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        reason = f"its process was ended by {name}: is memory short?"
        raise ConfigError([f"the interpreter cannot be compiled: {reason}"])
    if process.returncode:
        raise RuntimeError("compiling the interpreter has failed")


def _read(stream: IO[bytes]) -> tuple[str, Files] | None:
    """The next unit of a process that compiles; None if there is none any more."""
    try:
        made: tuple[str, Files] = pickle.load(stream)
    except (EOFError, pickle.UnpicklingError):  # the latter in the midst of one: it has ended
        return None
    return made


def stop_compiling() -> None:
    """End what threads wait for: they get an exception."""
    for process in list(_compilers):
        stop(process)


def stop(process: subprocess.Popen) -> None:
    """End a process that was started here, with its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
