"""Compiles units in processes of their own: python -m soc.build_units

Names of units come as a line of JSON on standard input; their files go to standard output, pickled.
What compiling needs (memory, Numba's state of hundreds of functions) ends with the processes, of
which there is one for each unit, as many at a time as there are CPUs.
"""

import gc
import json
import os
import pickle
import sys
from collections.abc import Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

from soc import trace_points, unit_compiler
from soc.child import end_with
from soc.compiling import CODE, Files
from soc.interpreter import SOURCE, Interpreter
from soc.links import SHARED


def main() -> None:
    """Compile what standard input names."""
    names = json.loads(sys.stdin.buffer.readline())
    parent = os.dup(sys.stdin.fileno())  # which the processes close
    end_with(parent)
    gc.disable()  # nearly all that is made is in use to the end: an eighth of the time
    longest_first = sorted(names, key=lambda name: name in SHARED)
    sys.stdout.buffer.write(pickle.dumps(built(longest_first, parent)))


def built(names: Iterable[str], parent: int) -> dict[str, Files]:
    """The files of units.

    parent    a pipe with whose other side the processes end

    raises    EOFError if one of them fails
    """
    context = get_context("fork")
    waiting, running, made = list(names), dict[Connection, str](), dict[str, Files]()
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            connection, theirs = context.Pipe(duplex=False)
            context.Process(target=_build, args=(waiting[0], theirs, parent)).start()
            theirs.close()
            running[connection] = waiting.pop(0)
        for connection in [c for c in wait(list(running)) if isinstance(c, Connection)]:
            made[running.pop(connection)] = connection.recv()
    return made


def _build(name: str, connection: Connection, parent: int) -> None:
    end_with(parent)
    connection.send(files(name))


def files(name: str) -> Files:
    """Compile one unit."""
    unit = SHARED.get(name) or Interpreter.named(name)
    trace_points.RECORDING = not isinstance(unit, Interpreter) or unit.records
    if not isinstance(unit, Interpreter):
        return {CODE: unit_compiler.compile_unit(unit)}
    unit.generate()
    return {SOURCE: unit.text().encode(), CODE: unit_compiler.compile_unit(unit)}


if __name__ == "__main__":
    main()
