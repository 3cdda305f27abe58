"""The units of machine code that the whole suite needs.

`python -m tests.interpreters` compiles those that are not kept, as many at a time as there are
CPUs; a run of the whole suite starts it, and begins meanwhile. A loop takes 15 s, one more of its
kind 5, a group of optional extensions 5 to 10.
"""

from collections.abc import Iterator

from isa.extensions.profiles import executed_as, profile
from soc.aot import units
from soc.aot.unit import Unit, require
from soc.engine.interpreter import Interpreter, base_extensions

ENTRIES = {
    profile("ri5cy", "x", small_floats=True): "run run_hart run_recording superblocks",
    profile("ri5cy", "x", small_floats=True, apu_wop=7): "run run_hart superblocks",
    profile("cv32e40p", "f"): "run run_hart run_recording superblocks",
}
"""Loops, and what superblocks without optional extensions consist of, by instruction set."""


def wanted() -> Iterator[Unit]:
    """All units; loops with the groups that they call, of all and of no optional extensions."""
    yield from units.SHARED.values()
    for isa, entries in ENTRIES.items():
        base, every = base_extensions(isa), {extension.name for extension in isa.extensions}
        for entry in entries.split():
            for extensions in (base,) if entry == "superblocks" else (base, every):
                loop = Interpreter(entry, *executed_as(isa.name, extensions))
                yield from (loop, *loop.uses)


if __name__ == "__main__":
    require(wanted())
