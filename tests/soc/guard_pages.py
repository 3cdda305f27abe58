"""Chips whose arrays lie between inaccessible pages: who leaves an array gets a signal.

All that compiled code writes to are a chip's arrays (soc.chip.state.ARRAYS) and its own stack. A
signal ends the process, so what may cause one runs in a child.
"""

import ctypes
import mmap
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from soc import simulation
from soc.chip import shadow
from soc.chip.spec import SocSpec
from soc.chip.state import ARRAYS, PAGE, Chip
from soc.reset import new_chip

NO_ACCESS = 0  # PROT_NONE
EMPTY = (
    *("code", "superblocks", "regions", "l1", "l2", "trace", "trace_sorted", "trace_places"),
    *shadow.ARRAYS,
)
"""Arrays that are zeros in a new chip: not copied, so that only what is used takes memory."""

LIBC = ctypes.CDLL(None, use_errno=True)


def guarded_array(count: int, dtype: np.dtype, at_end: bool) -> np.ndarray:
    """Zeros between two pages that nobody may touch.

    at_end    the byte after the last one is on such a page; else the byte before the first one is
    """
    size = -(-count * dtype.itemsize // PAGE) * PAGE
    pages = mmap.mmap(-1, size + 2 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = np.frombuffer(pages, np.uint8).ctypes.data
    for page in (start, start + PAGE + size):
        if LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = PAGE + (size - count * dtype.itemsize if at_end else 0)
    return np.frombuffer(pages, dtype, count, offset)


def guarded_chip(chip: Chip, at_end: bool) -> Chip:
    """A new chip with each array by itself between such pages."""
    arrays = {}
    for name, dtype in ARRAYS.items():
        array = getattr(chip, name)
        arrays[name] = guarded_array(array.size, dtype, at_end)
        if name not in EMPTY:
            arrays[name][:] = array
    return Chip(**arrays)


@contextmanager
def guard_pages(at_end: bool = True) -> Iterator[None]:
    """Let simulations that begin here have such chips."""

    def guarded(spec: SocSpec, registers: str, trace_buffer: int = 1, *more: bool) -> Chip:
        return guarded_chip(new_chip(spec, registers, trace_buffer, *more), at_end)

    with patch.object(simulation, "new_chip", guarded):
        yield


class ChildDied(Exception):
    """A child was ended by a signal, or has raised an exception: which says the message."""


def in_child(function: Callable, *arguments: Any) -> Any:
    """What a function returns that runs in a child of this process. Raises ChildDied."""
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        with open(target, "wb") as pipe:
            try:
                answer = function(*arguments), ""
            except BaseException as error:
                answer = None, f"{type(error).__name__}: {error}"
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(target)
    with open(source, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise ChildDied(signal.Signals(-status).name if status < 0 else f"exit status {status}")
    returned, mistake = pickle.loads(data)
    if mistake:
        raise ChildDied(mistake)
    return returned
