"""What is told of programs that do what is legal but hardly meant, and what they may print."""

import re

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.guards import Guards, told
from soc.run import ENGINES, run_program
from tests.soc.chip_bench import run
from tests.soc.engine.test_engines import End, difference

ISA = profile("ri5cy", "x")

FLOOD = "li a0, 0x1a10f000; li a1, 120; li a2, 50; 1: sb a1, 0(a0); addi a2, a2, -1; bnez a2, 1b"
UNKNOWN = "li a0, 0x1a104000; lw a1, 0x7f8(a0); lw a1, 0x7fc(a0)"


def program(text):
    return assemble("_start:\n" + text.replace(";", "\n") + "\n1: j 1b\n", ISA)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_null_pointer_is_told_once_a_place(engine):
    code = "li a1, 3; 1: sw a1, 16(zero); addi a1, a1, -1; bnez a1, 1b; lb a2, 255(zero)"
    result = run(code + "; lw a3, 256(zero)", engine=engine, cores=1)
    assert result.exit.reason == "exit"
    store, load = result.warnings
    assert re.fullmatch(
        r"cycle \d+, hart 0, pc 0x1c01\w{4} in core\+0x\w+ at source:\d+ \(sw a1, 16\(zero\)\): "
        r"store at 0x00000010, hardly meant: L1 answers there, as at 0x10000010; is it a null "
        r"pointer\?",
        store,
    )
    assert "(lb a2, 255(zero)): load at 0x000000ff, hardly meant" in load
    assert result.chip.l1[4] == 1


def test_the_engines_tell_the_same_of_all_cores():
    ends = [run("sw s5, 0(zero); lw a0, 4(zero)", engine=engine) for engine in ENGINES]
    assert len(ends[0].warnings) == 2
    assert not difference(*(vars(End.of(end)) for end in ends))


@pytest.mark.parametrize("text", ["nop; sw a0, 4(zero)", UNKNOWN, FLOOD])
def test_with_strict_the_first_warning_ends_the_run(text):
    ends = [
        run_program(program(text), engine=engine, max_cycles=2000, guards=Guards(20, True))
        for engine in ENGINES
    ]
    assert ends[0].exit.reason == "warning"
    assert ends[0].exit.message
    assert ends[0].cycles < 1000
    assert not difference(*(vars(End.of(end)) for end in ends))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_program_prints_beyond_its_limit_is_counted(engine):
    result = run_program(program(FLOOD), engine=engine, max_cycles=3000, guards=Guards(20))
    assert result.console == "x" * 20
    assert result.warnings == (
        "console: the limit of 20 bytes is reached (--console-limit); 30 more are dropped",
    )
    exact = run_program(program(FLOOD), engine=engine, max_cycles=3000, guards=Guards(50))
    assert (exact.console, exact.warnings) == ("x" * 50, ())


def test_few_warnings_are_told():
    warnings = [f"warning {n}" for n in range(5899)]
    assert told(warnings) == (*warnings[:20], "and 5,879 more")
    assert told(warnings[:20]) == tuple(warnings[:20])


def test_many_registers_that_are_not_there_are_twenty_lines_and_a_count():
    loads = "; ".join(f"lw a1, {offset}(a0)" for offset in range(0x600, 0x700, 4))
    result = run_program(program(f"li a0, 0x1a104000; {loads}"), max_cycles=5000)
    assert len(result.warnings) == 21
    assert result.warnings[-1] == "and 44 more"
