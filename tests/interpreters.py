"""The interpreters that the whole suite needs: fewer than programs by themselves would have.

Each takes some 20 s to compile. `python -m tests.interpreters` compiles those that are not kept, as
many at a time as there are CPUs; a run of the whole suite starts it, and begins meanwhile.
"""

from collections.abc import Iterator

from isa.declare import Isa
from isa.extensions.profiles import executed_as, profile
from soc.aot import units
from soc.aot.cache import kept
from soc.engine import interpreter
from soc.engine.interpreter import Interpreter

OPTIONAL = dict.fromkeys(interpreter.OPTIONAL.keys() - {"xcvsimd"}, "optional")
"""All of RI5CY's optional extensions come together; CV32E40P's, which is short, always."""

PULP = profile("ri5cy", "x", small_floats=True)
RTL = profile("ri5cy", "x", small_floats=True, apu_wop=7)
CV32E40P = profile("cv32e40p", "f")

FIRST = [
    (PULP, "run", ""),
]
NEXT = [
    (PULP, "run_hart run_recording superblocks", ""),
    (CV32E40P, "run run_hart run_recording superblocks", ""),
    (RTL, "run run_hart superblocks", ""),
    (PULP, "run run_hart run_recording", "and all"),
    (RTL, "run", "and all"),
]
"""Instruction set, entries; with the optional extensions, too.

Few are first, since what two processes compile of one kind of interpreter takes longer than in one.
"""


def named(isa: Isa, entries: str, rest: str) -> Iterator[Interpreter]:
    extensions = {e.name for e in isa.extensions if rest or e.name not in OPTIONAL}
    for entry in entries.split():
        yield Interpreter(entry, *executed_as(isa.name, extensions))


def main() -> None:
    """Have the first ones before the others: most tests need no more."""
    for shared, chosen in ((units.SHARED.values(), FIRST), ((), NEXT)):
        wanted = [*shared, *(unit for each in chosen for unit in named(*each))]
        kept({unit.name: unit.modules for unit in wanted})


if __name__ == "__main__":
    main()
