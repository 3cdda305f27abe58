"""A debugger sees the order of the program between grants and issues, whatever is under way."""

from random import Random

import pytest

from soc.debug.cursor import Cursor, Step
from soc.debug.edits import MemoryEdit
from soc.debug.session import Session
from soc.run import run_program
from soc.trace.issue_values import register_name
from tests.soc.random_programs import random_program


@pytest.mark.parametrize("seed", [3, 8])
def test_registers_are_those_that_the_instructions_before_have_written(seed: int) -> None:
    """At issues of a hart, its registers are what its instructions up to there wrote, in order."""
    program, random = random_program(seed), Random(seed)
    result = run_program(program, issue_trace=True, values=True)
    assert result.issues is not None
    assert result.effects is not None
    hart = 2
    numbers = [k for k, h in enumerate(result.issues["hart"].tolist()) if h == hart]
    checked = set(random.sample(range(20, len(numbers)), 40))
    written: dict[str, int] = {}
    cursor = Cursor(Session(program))
    for place, number in enumerate(numbers):
        if place in checked:
            cursor.go_to(int(result.issues["cycle"][number]))
            assert cursor.pc(hart) == result.issues["pc"][number]
            for entry in range(1, 32):
                if (name := register_name(entry)) in written:
                    assert cursor.view.register(hart, entry) == written[name], (place, name)
        for effect in result.effects.get(number, []):
            words = effect.split()
            if words[0] != "mem":
                written[words[0]] = int(words[1], 16)


def test_a_store_is_seen_in_the_cycle_in_which_it_is_granted_and_can_be_overwritten() -> None:
    from isa.assembler.asm import assemble
    from tests.soc.random_programs import ENTRY, ISA

    source = """
    _start:
        li s0, 0x1C008000
        li a0, 0x55
        sw a0, 0(s0)
    after:
        lw a1, 0(s0)
        addi a1, a1, 1
    end: j end
    """
    session = Session(assemble(source, ISA, text_base=ENTRY), max_cycles=500)
    cursor = Cursor(session)
    session.breakpoints.add(session.address_of("after"))
    assert cursor.run().hit is not None
    assert cursor.view.read(0x1C008000, 4) == b"\x55\0\0\0"
    session.edit(MemoryEdit(session.cycle + 1, 0x1C008000, b"\x07\0\0\0"))
    cursor.changed()
    assert cursor.view.read(0x1C008000, 4) == b"\x07\0\0\0"
    session.breakpoints.clear()
    for _ in range(2):
        cursor.run(Step(8))
    assert cursor.view.register(8, 11) == 8
