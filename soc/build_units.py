"""Compiles units in processes of their own: python -m soc.build_units

Names of units and folders for them come as JSON on standard input. What compiling needs (memory,
Numba's state of hundreds of functions) ends with the processes, of which there is one per CPU.
"""

import gc
import json
import multiprocessing
import os
import sys
from pathlib import Path

from soc import trace_points, unit_compiler
from soc.interpreter import Interpreter
from soc.links import SHARED
from soc.unit_cache import CODE


def main() -> None:
    jobs = json.load(sys.stdin).items()
    longest_first = sorted(jobs, key=lambda job: job[0] in SHARED)
    gc.disable()  # nearly all that is made is in use to the end: an eighth of the time
    workers = min(len(jobs), os.cpu_count() or 1)
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(build, longest_first):
            pass


def build(job: tuple[str, str]) -> None:
    """Compile one unit into a new folder."""
    name, folder = job
    unit = SHARED.get(name) or Interpreter.named(name)
    trace_points.RECORDING = not isinstance(unit, Interpreter) or unit.records
    Path(folder).mkdir(mode=0o700)
    if isinstance(unit, Interpreter):
        unit.write(Path(folder))
    (Path(folder) / CODE).write_bytes(unit_compiler.compile_unit(unit))


if __name__ == "__main__":
    main()
