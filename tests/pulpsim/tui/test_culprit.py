"""The live view goes to the hart that has ended the run, or stands at a breakpoint."""

from isa.assembler.asm import assemble
from isa.program import Program
from tests.pulpsim.tui.person import Person, live
from tests.soc.random_programs import ENTRY, ISA


def test_the_hart_that_traps_is_selected() -> None:
    program = assemble("_start: li a0, 3\nebreak\n", ISA, text_base=ENTRY)
    person = Person(live(program))
    assert person.player.selected == 0
    person.press("space")
    assert person.source.is_over
    assert person.source.culprit == person.player.selected == 8


def test_where_no_hart_is_the_reason_the_selection_stays() -> None:
    program = assemble("_start: j _start\n", ISA, text_base=ENTRY)
    person = Person(live(program, max_cycles=500))
    person.press("down", "space")
    assert person.source.is_over
    assert (person.source.culprit, person.player.selected) == (None, 1)


def test_a_breakpoint_selects_the_hart_that_comes_to_it(hello: Program) -> None:
    person = Person(live(hello))
    assert person.player.selected == 0
    person.player.toggle_breakpoint("_start")
    person.press("space")
    assert person.player.message == "breakpoint: fc at _start"
    assert person.player.selected == 8
    person.player.toggle_breakpoint("*")
    person.player.toggle_breakpoint("core")
    person.press("space")
    stopped = person.player.message.split(": ")[1].split(" at ")[0].split(", ")
    assert person.source.names[person.player.selected] == stopped[0] == "core0"


def test_a_hart_that_is_among_those_that_stop_stays_selected(hello: Program) -> None:
    person = Person(live(hello))
    person.press("down", "down", "down")
    person.player.toggle_breakpoint("core")
    while "core3" not in person.player.message and not person.source.is_over:
        person.press("space")
        assert person.player.selected in (0, 3) or "core3" not in person.player.message
    assert "core3" in person.player.message
