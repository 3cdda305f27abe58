"""Profiles: which of them can share an interpreter."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import product

import pytest

from isa.declare import Isa
from isa.extensions.profiles import CORES, executed_as, profile, profile_named
from soc.engine.interpreter import OPTIONAL, Group, Interpreter, base_extensions

PROFILES = [
    profile(core, registers, small, dot_products=dot, apu_wop=wop)
    for core, registers, small, dot, wop in product(
        CORES, "fx", (False, True), (False, True), (None, 6, 7)
    )
    if not wop or core == "ri5cy"
]


def content(value: object) -> object:
    """What can be compared of a function that is made anew for each profile."""
    if not isinstance(value, Callable) or not hasattr(value, "__code__"):
        return value
    cells = tuple(content(cell.cell_contents) for cell in value.__closure__ or ())
    return value.__code__, value.__defaults__, cells


def executed(isa: Isa, extensions: Iterable[str]) -> dict[int, tuple]:
    """What distinguishes instructions for an interpreter, by their numbers in it."""
    return {
        number: (
            insn.syntax,
            insn.timing,
            insn.access,
            insn.reads,
            insn.writes,
            content(insn.function),
        )
        for number, insn in enumerate(isa.insns, start=1)
        if insn.extension in extensions and insn.function
    }


@pytest.mark.parametrize(("groups", "count"), [((), 3), (("simd", "small_floats"), 8)])
def test_an_interpreter_has_the_instructions_of_all_that_share_it(
    groups: tuple[str, ...], count: int
) -> None:
    names = set()
    for isa in PROFILES:
        optional = {e.name for e in isa.extensions if OPTIONAL.get(e.name) in groups}
        chosen = base_extensions(isa) | optional
        name, extensions = executed_as(isa.name, chosen)
        names.add(name)
        assert executed(isa, chosen).items() <= executed(profile_named(name), extensions).items()
    assert len(names) == count


def test_a_loop_and_its_groups_have_the_instructions_of_all_that_share_them() -> None:
    names: dict[str, set[str]] = defaultdict(set)
    for isa in PROFILES:
        chosen = {extension.name for extension in isa.extensions}
        loop = Interpreter("run", *executed_as(isa.name, chosen))
        found = executed(profile_named(loop.own_profile), loop.own)
        names["run"].add(loop.name)
        for unit in loop.uses:
            if isinstance(unit, Group):
                found |= executed(profile_named(unit.profile), unit.extensions)
                names[unit.kind].add(unit.name)
        assert executed(isa, chosen).items() <= found.items()
    assert {kind: len(units) for kind, units in names.items()} == {
        "run": 4,  # RI5CY, its RTL, CV32E40P, and that with small floats in x registers
        "simd": 2,
        "small_floats": 7,  # two of them without any
    }


def test_it_has_no_instructions_that_only_other_programs_need() -> None:
    isa = profile("ri5cy", "x", small_floats=True, apu_wop=6)
    name, extensions = executed_as(isa.name, base_extensions(isa))
    assert name == "ri5cy-f-wop7"
    assert {"rv32c", "rv32fc", "xfvec", "xpulpvect"}.isdisjoint(extensions)
