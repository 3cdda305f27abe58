"""sp that leaves its stack: seen in the instruction that moves it, in no cycle, on both engines."""

from dataclasses import replace

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import Symbol
from soc.jit.code_cache import SHARED, Policy
from soc.jit.profile_store import ProfileStore
from soc.run import ENGINES, run_program
from tests.soc.chip_bench import run
from tests.soc.engine.test_engines import End, difference

STACKS = """
slli t0, s5, 10
li sp, 0x10010000
sub sp, sp, t0
csrw 0x7d2, sp
addi t1, sp, -1024
csrw 0x7d1, t1
csrwi 0x7d0, 1
addi t0, s5, -3
bnez t0, others
"""
"""Each core has 1 kB, and the CSRs say so; core 3 goes on."""

LEAVING = {
    "a frame": ("addi sp, sp, -1028", "overflow: sp 0x1000effc is below"),
    "a frame of another size": ("li t0, 4000; sub sp, sp, t0", "overflow: sp 0x1000e460 is below"),
    "a sum elsewhere": ("addi t0, sp, -2000; mv sp, t0", "overflow: sp 0x1000ec30 is below"),
    "a frame too many back": ("addi sp, sp, 4", "underflow: sp 0x1000f404 is above"),
    "a pointer that advances": ("p.sw t0, -1028(sp!)", "overflow: sp 0x1000effc is below"),
    "a pointer back": ("p.lw t0, 4(sp!)", "underflow: sp 0x1000f404 is above"),
}

STAYING = {
    "all of the stack": "addi sp, sp, -1024; addi sp, sp, 1024",
    "an address of another stack": "li sp, 0x10001000; addi sp, sp, -16",
    "a stack from memory": "sw s0, 0(s6); lw sp, 0(s6); addi sp, sp, -16",
    "a stack from a CSR": "csrw mscratch, s0; csrrw sp, mscratch, sp; addi sp, sp, 16",
    "bounds that are taken back": "csrwi 0x7d0, 0; addi sp, sp, -2000",
    "larger bounds": "addi t0, sp, -2000; csrw 0x7d1, t0; addi sp, sp, -2000",
}


def on_core_3(code, engine):
    return run(f"{STACKS};{code};others:", engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LEAVING)
def test_sp_that_leaves_its_stack_ends_the_run(name, engine):
    code, what = LEAVING[name]
    result = on_core_3(code, engine)
    assert result.exit.reason == "trap"
    start, how = result.exit.message.split(": stack ")
    assert start.startswith("cycle ")
    assert f", hart 3, pc {result.chip.harts[3]['pc']:#010x} in core+0x" in start
    assert how == (
        f"{what} its stack 0x1000f000..0x1000f400, 1024 bytes"
        + "; stack_start and stack_end (CSRs 0x7d1 and 0x7d2) say where it is"
        * what.startswith("overflow")
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", STAYING)
def test_other_stacks_and_all_of_its_own_are_the_program_s_business(name, engine):
    assert on_core_3(STAYING[name], engine).exit.reason == "exit"


def test_nothing_is_stored_beyond_the_stack():
    result = on_core_3("li t1, -1; addi sp, sp, -1028; sw t1, 0(sp)", "compiled")
    assert result.exit.reason == "trap"
    assert not result.chip.l1.any()


def test_the_check_takes_no_cycle():
    code = "addi sp, sp, -64; sw t0, 0(sp); lw t0, 0(sp); addi sp, sp, 64"
    plain = on_core_3(code.replace("sp", "a0").replace("(a0)", "(s6)"), "compiled")
    checked = on_core_3(code.replace("(sp)", "(s6)"), "compiled")
    assert plain.cycles == checked.cycles


def test_where_nothing_is_known_of_a_stack_sp_may_be_anything():
    assert run("li sp, 0x100; addi sp, sp, -2000; li sp, -4; addi sp, sp, 8").exit.reason == "exit"


@pytest.fixture
def translates_early(monkeypatch):
    monkeypatch.setattr(SHARED, "policy", Policy(16, 64, poll_interval=0, waits=True))
    monkeypatch.setattr(SHARED, "profiles", ProfileStore(files=0))


ROUNDS = """
li sp, 0x10010000
slli t0, s5, 12
sub sp, sp, t0
csrw 0x7d2, sp
li t1, 0x10009900
csrw 0x7d1, t1
csrwi 0x7d0, 1
li t1, 500
round:
addi sp, sp, -12
sw t1, 0(s6)
lw t0, 0(s6)
addi sp, sp, 8
addi t1, t1, -1
bnez t1, round
"""
"""Each sp goes down by 2,000 bytes; only that of core 6 begins less than that above the bound."""


def test_translated_code_stops_where_interpreted_code_does(translates_early):
    ends = [run(ROUNDS, engine=engine) for engine in ENGINES]
    assert ends[0].chip.hot_code[0]["translations"] > 1
    assert ", hart 6, " in ends[0].exit.message
    assert "sp 0x100098fc is below its stack 0x10009900..0x1000a000" in ends[0].exit.message
    assert not difference(*(vars(End.of(end)) for end in ends))


def symbols_of_stacks():
    values = {
        "__cluster_stacks": 0x10010000,
        "__core_stack_size": 1024,
        "__controller_stack": 0x1C008000,
        "__controller_stack_size": 0x8000,
    }
    return [Symbol(name, value) for name, value in values.items()]


@pytest.mark.parametrize("engine", ENGINES)
def test_symbols_say_where_the_stacks_of_a_program_are(engine):
    text = "_start: li sp, 0x1c008000; addi sp, sp, -16; li t0, 0x8000; sub sp, sp, t0"
    program = assemble(text.replace(";", "\n") + "\n", profile("cv32e40p", "x"))
    symbols = symbols_of_stacks()
    known = replace(program, symbols=(*program.symbols, *symbols))
    chip = "pulp-cv32e40p"
    end = run_program(known, chip, engine=engine, max_cycles=100).exit
    assert end.message.endswith(
        ", hart fc, pc 0x1c00800c in _start+0xc at source:4 (sub sp, sp, t0): stack overflow: "
        "sp 0x1bfffff0 is below its stack 0x1c000000..0x1c008000, 32768 bytes; to double it: "
        "-Wl,--defsym=__controller_stack_size=0x10000 in C"
    )
    fewer = replace(program, symbols=(*program.symbols, *symbols[:-1]))
    end = run_program(fewer, chip, engine=engine, max_cycles=100).exit
    assert "stack" not in end.message


def test_other_csrs_leave_the_stack_known():
    text = "_start:\ncsrwi 0x006, 1\nli sp, 0x1c008000\naddi sp, sp, 16\n"
    program = assemble(text, profile("ri5cy", "x"))
    known = replace(program, symbols=(*program.symbols, *symbols_of_stacks()))
    assert "stack underflow: " in run_program(known, max_cycles=100).exit.message
