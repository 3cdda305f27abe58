"""What lies at the ends of memories: halves of accesses, instructions, the test bench's traffic."""

import re

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.profile import UnfitProgramError
from soc.chip.spec import load_chip
from soc.result import RunResult
from soc.run import ENGINES, run_program
from tests.soc.chip_bench import run as run_cores
from tests.soc.guard_pages import guard_pages, in_child

L1_END, ALIAS_END, L2_END = 0x10010000, 0x10110000, 0x1C200000
BENCH = 0x1C000080
"""First instruction on the test bench of CV32E40P."""

EXIT = "li t0, 0x1A100000; sw zero, 0(t0)"


def on_bench(code: str, engine: str = "compiled", **fields: object) -> RunResult:
    """Run code on one core of the test bench; `;` parts lines."""
    chip = load_chip("cv32e40p-rtl", {"cores": 1, "core.float_registers": "x", **fields})
    text = f"_start:\n{code.replace(';', chr(10))}\n"
    program = assemble(text, profile("cv32e40p", "x"), text_base=chip.core.reset_pc)
    with guard_pages():
        return run_program(program, chip, engine=engine, max_cycles=500)


STRADDLING = {
    # instruction and address: where its second half is; what of the first half is stored
    ("lw", L1_END - 1): L1_END,
    ("lw", L1_END - 3): L1_END,
    ("lh", L1_END - 1): L1_END,
    ("sw", L1_END - 1): L1_END,
    ("sw", L1_END - 2): L1_END,
    ("sh", L1_END - 1): L1_END,
    ("lw", 0x0000FFFF): L1_END,
    ("sw", 0x0000FFFF): L1_END,
    ("lw", ALIAS_END - 1): ALIAS_END,
    ("sw", ALIAS_END - 1): ALIAS_END,
    ("lhu", L2_END - 1): L2_END,
    ("lw", L2_END - 2): L2_END,
    ("sw", L2_END - 3): L2_END,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "address"), STRADDLING)
def test_the_second_half_of_an_access_goes_where_its_own_address_leads(name, address, engine):
    second = STRADDLING[name, address]
    code = f"li a0, {address:#x}; li a1, -1; {name} a1, 0(a0)"
    for result in (run_cores(code, cores=1, engine=engine), run_cores("", code, 1, engine)):
        if address >> 16 == 0 and "hart fc" in result.exit.message:
            continue  # the fabric controller sees L2 at 0, and nothing where that ends
        assert result.exit.reason == "trap"
        assert re.match(
            rf"^cycle \d+, hart (0|fc), pc 0x1c0[0-9a-f]{{5}} \({name} a1, 0\(a0\)\): address "
            rf"{second:#010x} is in no region of the memory map \(nearest: \w+ "
            rf"0x[0-9a-f]{{8}}\.\.{second - 1:#010x}\)$",
            result.exit.message,
        ), result.exit.message
        words = result.chip.l2 if second == L2_END else result.chip.l1
        stored = {1: 0xFF, 2: 0xFFFF, 3: 0xFFFFFF}[-address & 3] << 8 * (address & 3)
        loads_minus_1 = name == "lw" and second == ALIAS_END
        assert int(words[-1]) & 0xFFFFFFFF == (
            0xFFFFFFFF if loads_minus_1 else stored if name[0] == "s" else 0
        )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "address", "second"),
    [("lw", L1_END - 1, L1_END), ("sw", L1_END - 1, L1_END), ("sh", 0x1C03FFFF, 0x1C040000)],
)
def test_past_the_memories_of_a_test_bench_there_is_nothing(name, address, second, engine):
    result = on_bench(f"li a0, {address:#x}; {name} a1, 0(a0)", engine)
    assert result.exit.reason == "trap"
    kind = "load" if name == "lw" else "store"
    assert re.match(
        rf"^cycle \d+, hart 0, pc 0x1c00008[0-9a-f] \({name} a1, 0\(a0\)\): {kind} at "
        rf"{second:#010x}, where there is neither memory nor a register$",
        result.exit.message,
    ), result.exit.message


@pytest.mark.parametrize("engine", ENGINES)
def test_halves_of_an_access_within_the_alias_both_leave_minus_1(engine):
    code = "li a0, 0x10000100; li a1, 0x55; sw a1, 0(a0); li a0, 0x10100102; lw a2, 0(a0)"
    result = run_cores(code, cores=1, engine=engine)
    assert result.exit.reason == "exit", result.exit.message
    assert result.chip.l1[0x40:0x43].tolist() == [-1, -1, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_to_the_alias_is_a_store(engine):
    code = "li a0, 0x10100100; li a1, 0x55; sw a1, 0(a0); sw a1, 5(a0)"
    result = run_cores(code, cores=1, engine=engine)
    assert result.exit.reason == "exit", result.exit.message
    assert result.chip.l1[0x40:0x43].tolist() == [0x55, 0x5500, 0]


GENERATOR = (
    "li s0, 0x1A100000; li t0, {base}; sw t0, 0x20(s0); li t0, {mode}; sw t0, 0x24(s0);"
    "li t0, {count}; sw t0, 0x28(s0); li t1, 40; 1: addi t1, t1, -1; bnez t1, 1b;" + EXIT
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("base", "words"),
    [
        (0x80000000, {0: 0x0000, 1: 0x0004}),  # its upper bits lead nowhere
        (0x10010000, {0: 0x0000, 1: 0x0004}),
        (0x1000FFFC, {-1: 0xFFFC, 0: 0x0000}),
        (0xFFFFFFFD, {-1: 0xFFFD, 0: 0x0001}),
    ],
)
def test_the_generator_of_a_test_bench_stays_in_l1(base, words, engine):
    result = in_child(on_bench, GENERATOR.format(base=base, mode=0x103, count=1), engine)
    assert result.exit.reason == "exit", result.exit.message
    expected = [0] * 0x4000
    for word, value in words.items():
        expected[word] = (0xD0A00000 | value) - (1 << 32)
    assert result.chip.l1.tolist() == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_an_instruction_is_not_longer_than_the_code_memory(engine):
    last = 0x1C040000 - 2
    code = f"li t0, {last:#x}; li t1, 0x0013; sh t1, 0(t0); jr t0"  # the lower half of a nop
    result = on_bench(code, engine)
    assert result.exit.reason == "trap"
    assert re.match(
        rf"^cycle \d+, hart 0, pc {last:#010x}: the hart fetches from outside the code memory, "
        r"which is L2$",
        result.exit.message,
    ), result.exit.message


def test_a_compressed_instruction_may_be_the_last_one_of_the_code_memory():
    last = 0x1C040000 - 2
    result = on_bench(f"li t0, {last:#x}; li t1, 0x0001; sh t1, 0(t0); jr t0")  # c.nop
    assert f"pc {last + 2:#010x}: the hart fetches from outside" in result.exit.message


def test_a_program_that_puts_nothing_where_the_chip_starts_is_refused():
    chip = load_chip("cv32e40p-rtl")
    program = assemble(f"_start: {EXIT.replace(';', chr(10))}", profile("cv32e40p", "f"))
    with pytest.raises(
        UnfitProgramError,
        match=r"^the program's entry is 0x1c008000, but the chip cv32e40p-rtl starts at "
        r"0x1c000080, where the program has nothing; link it to start there, or set "
        r"core\.reset_pc = 0 to start at the entry$",
    ):
        run_program(program, chip)
    at_entry = load_chip("cv32e40p-rtl", {"core.reset_pc": 0})
    assert run_program(program, at_entry, max_cycles=100).exit.reason == "exit"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_test_bench_stops_with_the_last_core_whatever_is_under_way(engine):
    """The generator would ask 2^32 - 1 times, and the interrupt is still to come."""
    start = "li t1, -1; sw t1, 0x28(t0); sw zero, 0(t0)"
    code = f"li t0, 0x1A100000; li t1, 1; sw t1, 0x24(t0); li t1, 40; sw t1, 0x30(t0); {start}"
    result = on_bench(code, engine)
    assert (result.exit.reason, result.cycles) == ("exit", 13)
    assert result.chip.banks["accesses"].sum() == 1  # in the cycle of the exit, after the start
    assert result.chip.harts["mip"].tolist() == [0]
