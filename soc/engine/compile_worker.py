"""Compiles units in processes of their own: python -m soc.engine.compile_worker

Names of units come as a line of JSON on standard input; each one's name and files go to standard
output, pickled, as soon as they are made.
What compiling needs (memory, Numba's state of hundreds of functions) ends with the processes, as
many at a time as there are CPUs.
"""

import gc
import os
import pickle
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

from soc.aot import compiler
from soc.aot.unit import Unit
from soc.aot.units import SHARED
from soc.engine.interpreter import GROUPS, SOURCE, Generated, Interpreter, generated_unit
from soc.host.child_process import end_with, read_order
from soc.host.compile_process import CODE, Files
from soc.prelude import trace_points


def main() -> None:
    """Compile what standard input names."""
    names = read_order()
    parent = os.dup(sys.stdin.fileno())  # which the processes close
    end_with(parent)
    gc.disable()  # nearly all that is made is in use to the end: an eighth of the time
    for made in built(names, parent):
        pickle.dump(made, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def built(names: Iterable[str], parent: int) -> Iterator[tuple[str, Files]]:
    """The names and files of units, as they are made.

    parent    a pipe with whose other side the processes end

    raises    EOFError if one of them fails; the others are ended at exit, not waited for
    """
    processes = os.cpu_count() or 1
    context = get_context("fork")
    waiting, running = batches(names, processes), set[Connection]()
    while waiting or running:
        while waiting and len(running) < processes:
            connection, theirs = context.Pipe(duplex=False)
            order = (waiting.pop(0), theirs, parent)
            context.Process(target=_build, args=order, daemon=True).start()
            theirs.close()
            running.add(connection)
        for connection in [c for c in wait(list(running)) if isinstance(c, Connection)]:
            if made := connection.recv():
                yield made
            else:
                running.remove(connection)


def batches(names: Iterable[str], processes: int) -> list[list[str]]:
    """Units that one process compiles, one after the other; what takes longest begins first.

    Within a process those of fewer extensions, which most programs need, come before the others.
    Interpreters of one kind call the same step functions: the second one of a process takes half as
    long. With trace points or constants of its own, a step function is another one. So a kind is
    divided only where there are more processes than kinds.
    """
    alike = defaultdict(list)
    for name in sorted(names, key=lambda name: (len(name.split()), name)):
        unit = unit_of(name)
        kind = (unit.records, unit.is_bitcode) if isinstance(unit, Interpreter) else unit.kind
        alike[kind].append(name)
    kinds = sum(isinstance(kind, tuple) or kind in GROUPS for kind in alike)
    parts = -(-processes // max(kinds, 1))
    found = [each[first::parts] for each in alike.values() for first in range(parts)]
    return sorted(filter(None, found), key=lambda batch: (batch[0] in SHARED, -len(batch)))


def _build(names: list[str], connection: Connection, parent: int) -> None:
    end_with(parent)
    for name in names:
        connection.send((name, files(name)))
    connection.send(None)


def unit_of(name: str) -> Unit:
    """The unit of this name."""
    return SHARED.get(name) or generated_unit(name)


def files(name: str) -> Files:
    """Compile one unit."""
    unit = unit_of(name)
    trace_points.RECORDING = not isinstance(unit, Interpreter) or unit.records
    if not isinstance(unit, Generated):
        return {CODE: compiler.compile_unit(unit)}
    unit.generate()
    return {SOURCE: unit.text().encode(), CODE: compiler.compile_unit(unit)}


if __name__ == "__main__":
    main()
