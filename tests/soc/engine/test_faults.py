"""Programs that go wrong: what ends the run, in which words, on both engines."""

import re

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import Program
from soc.chip.profile import UnfitProgramError
from soc.chip.spec import load_chip
from soc.run import ENGINES, run_program
from tests.soc.chip_bench import region_cycles, run

ISA = profile("ri5cy", "x")

FAULTS = {
    "an illegal instruction": (
        "nop\n.word 0xffffffff",
        "trap",
        r"^cycle 4, hart fc, pc 0x1c008004 \(\.word 0xffffffff\): illegal instruction on this "
        r"chip$",
    ),
    "a load from a hole": (
        "li a0, 0x30000000\nlw a1, 0(a0)",
        "trap",
        r"^cycle 6, hart fc, pc 0x1c008004 \(lw a1, 0\(a0\)\): address 0x30000000 is in no region "
        r"of the memory map \(nearest: l2_shared 0x1c010000\.\.0x1c1fffff\)$",
    ),
    "a jump out of code memory": (
        "li a0, 0x10000000\njr a0",
        "trap",
        r"^cycle \d+, hart fc, pc 0x10000000: the hart fetches from outside the code memory, "
        r"which is L2$",
    ),
    "a breakpoint without a handler": (
        "ebreak",
        "trap",
        r"^cycle 3, hart fc, pc 0x1c008000 \(ebreak\): breakpoint, and the program has no trap "
        r"handler$",
    ),
    "sleep for ever": (
        "wfi",
        "deadlock",
        r"^deadlock at cycle 4: harts 0, 1, 2, 3, 4, 5, 6, 7 are not started; harts fc wait for an "
        r"interrupt \(wfi\)$",
    ),
    "sleep until an event that nobody hears of": (  # the FC timer, once: its line is masked
        "li a0, 0x1a10b800\nli a1, 50\nsw a1, 0x10(a0)\nli a1, 0x25\nsw a1, 0(a0)\nwfi",
        "deadlock",
        r"^deadlock at cycle 64: harts 0, 1, 2, 3, 4, 5, 6, 7 are not started; harts fc wait for "
        r"an interrupt \(wfi\)$",
    ),
    "an access across the words of a register": (
        "li a0, 0x1a104000\nlw a1, 2(a0)",
        "trap",
        r"^cycle 6, hart fc, pc 0x1c008004 \(lw a1, 2\(a0\)\): address 0x1a104002: 4 bytes cross "
        r"a word of soc_control; peripherals answer within one word$",
    ),
    "a load of a register that the shared event unit does not have": (
        "li a0, 0x10200ffc\nlw a1, 0(a0)",
        "trap",
        r"^cycle 20, hart fc, pc 0x1c008008 \(lw a1, 0\(a0\)\): event unit: nothing at offset "
        r"0x7fc of the shared view; this chip has 8 cores and 8 barriers$",
    ),
    "an endless loop": ("1: j 1b", "max_cycles", r"^cycle limit of 1000 reached$"),
}


def program(text: str) -> Program:
    return assemble(f"_start:\n{text}\n", ISA)


@pytest.mark.parametrize("engine", ["compiled", "event"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_program_that_goes_wrong_ends_with_a_sentence(name, engine):
    text, reason, message = FAULTS[name]
    result = run_program(program(text), engine=engine, max_cycles=1000)
    assert result.exit.reason == reason
    assert result.exit.code == 0
    assert re.match(message, result.exit.message), result.exit.message


@pytest.mark.parametrize("name", FAULTS)
def test_both_engines_leave_the_same_where_a_program_goes_wrong(name):
    results = [
        run_program(program(FAULTS[name][0]), engine=engine, max_cycles=1000).to_json()
        for engine in ("compiled", "event")
    ]
    for result in results:
        del result["host"]
    assert results[0] == results[1]


def test_a_handler_of_the_program_takes_its_exceptions():
    text = """
        la t0, handler
        csrw mtvec, t0
        .word 0xffffffff
        .balign 256
    handler:
        csrr a1, mcause
        li a0, 0x1A1040A0
        li a2, 0x80000000
        or a1, a1, a2
        sw a1, 0(a0)
    1:  j 1b
    """
    result = run_program(program(text), max_cycles=1000)
    assert (result.exit.reason, result.exit.code) == ("exit", 2)


def test_a_program_with_floats_in_other_registers_is_refused():
    with_registers = assemble("_start:\n flw fa0, 0(a0)\n", profile("ri5cy", "f"))
    chip = load_chip("pulp", {"core.float_registers": "x"})
    with pytest.raises(
        UnfitProgramError,
        match=r"^the program keeps floats in f registers \(.*\), the chip pulp in x; "
        r"core\.float_registers = 'f' \(or 'auto'\) would fit$",
    ):
        run_program(with_registers, chip)


def test_a_segment_outside_the_memories_is_refused():
    outside = assemble("_start:\n nop\n", ISA, text_base=0x20000000)
    with pytest.raises(
        UnfitProgramError,
        match=r"^segment 0x20000000\.\.0x2000000\w of the program is outside the chip's memories "
        r"\(L1 0x10000000\.\.0x1000ffff, L2 0x1c000000\.\.0x1c1fffff\); link it to these, or "
        r"enlarge l1\.size or l2\.size$",
    ):
        run_program(outside)


def test_a_limit_of_cycles_is_not_negative():
    with pytest.raises(ValueError, match=r"^max_cycles -1; it is a number of cycles from 0 on$"):
        run_program(program("nop"), max_cycles=-1)


def test_there_are_two_engines():
    with pytest.raises(ValueError, match=r"^engine 'fast'; the engines are compiled, event$"):
        run_program(program("nop"), engine="fast")


ALLOCATE = "lw t1, 0x400(s1)"
COMMAND = "li t0, {word:#x}; sw t0, 0x400(s1); li t0, {l1:#x}; sw t0, 0x400(s1); li t0, {l2:#x}; "
TRANSFERS = {
    "past the end of L1": (
        (0x60040, 0x1000FFE0, 0x1C020000),
        "port 0: a line begins or ends at L1 offset 0x10020, outside L1; the DMA drops the upper "
        "bits of an L1 address and goes on at the other end of L1",
    ),
    "past the end of L2": (
        (0x60040, 0x10000000, 0x1C1FFFE0),
        "port 0: a line begins or ends at external address 0x1c200020, outside L2, the only memory "
        "that the DMA reaches",
    ),
    "of no bytes": (
        (0x60000, 0x10000000, 0x1C020000),
        "port 0: command word 0x00060000 has length 0, which moves 2^17 bytes; a length is "
        "1..131071 bytes",
    ),
}


@pytest.mark.parametrize("engine", ["compiled", "event"])
@pytest.mark.parametrize("name", TRANSFERS)
def test_a_transfer_that_hardware_would_not_survive_stops_with_the_rule(name, engine):
    (word, l1, l2), rule = TRANSFERS[name]
    command = COMMAND.format(word=word, l1=l1, l2=l2)
    result = run(f"{ALLOCATE}; {command} sw t0, 0x400(s1)", cores=1, engine=engine)
    assert result.exit.reason == "trap"
    assert re.match(rf"^cycle \d+: dma: {re.escape(rule)}$", result.exit.message)


def commands(count, size):
    """As many transfers to L1, each with a counter of its own."""
    command = COMMAND.format(word=0x60000 | size, l1=0x10001000, l2=0x1C020000)
    return f"{ALLOCATE}; {command} sw t0, 0x400(s1); " * count


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_commands_that_the_queue_does_not_take_yet_hold_their_core(engine):
    """16 commands of eight cores, 1 kB each: the DMA moves 256 bytes in 34 cycles (MCHAN, RTL)."""
    wait = "1: lw t0, 0x404(s1); slli t0, t0, 16; bnez t0, 1b; slti x0, x0, 1"
    result = run(f"slti x0, x0, 0; {commands(2, 1024)} {wait}", engine=engine)
    cycles = region_cycles(result)
    assert result.to_json()["dma"]["beats"] == [0, 16 * 128]
    assert all(16 * 4 * 34 < count < 16 * 4 * 34 + 60 for count in cycles)


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_a_core_that_waits_for_ever_for_a_counter_of_the_dma_is_a_deadlock(engine):
    """The fabric controller sleeps, so that nothing can happen any more."""
    sleep = "la t0, core; sw t0, 0x40(s2); li t0, 1; sw t0, 8(s2); wfi"
    result = run(commands(17, 8), sleep, cores=1, engine=engine)
    assert result.exit.reason == "deadlock"
    assert re.match(
        r"^deadlock at cycle \d+: harts 0 wait at the DMA for a counter: 16 of 16 are allocated; "
        r"store to STATUS; harts 1, 2, 3, 4, 5, 6, 7 are not started; harts fc wait for an "
        r"interrupt \(wfi\)$",
        result.exit.message,
    )


BOOT = """
_start:
    li s0, 0x10200000
    la t0, core0
    sw t0, 0x40(s0)
    la t0, core1
    sw t0, 0x44(s0)
    li t0, 3
    sw t0, 8(s0)
    wfi
    .balign 4
core0:
    {0}
    .balign 4
core1:
    {1}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("before", "hart"), [((6, 3), 1), ((3, 6), 0), ((4, 4), 0)])
def test_of_several_faults_the_first_is_told(
    engine: str, before: tuple[int, int], hart: int
) -> None:
    """A hart that runs ahead may come to its fault before another, whose is earlier, does."""
    bodies = ["nop\n" * count + ".word 0xffffffff" for count in before]
    program = assemble(BOOT.format(*bodies), ISA, text_base=0x1C010000)
    exit = run_program(program, engine=engine, max_cycles=5000).exit

    assert exit.reason == "trap"
    assert re.match(rf"cycle \d+, hart {hart}, ", exit.message)


DEADLOCKS = {
    "a wfi": ("wfi", 4),
    "instructions before it": ("nop\n" * 12 + "wfi", 16),
    "an interrupt that none takes": (
        "li t0, 0x1a100000\nli t1, 20\nsw t1, 0x30(t0)\nwfi\nwfi",
        27,
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", DEADLOCKS)
def test_a_deadlock_is_told_in_the_cycle_after_the_last_in_which_something_happens(
    name: str, engine: str
) -> None:
    body, last = DEADLOCKS[name]
    chip = load_chip("cv32e40p-rtl", {"cores": 1, "core.wfi_sleeps": True})
    source = f"j _start\n.balign 128\n_start:\n{body}"
    program = assemble(source, profile("cv32e40p", "x"), text_base=0x1C000000)
    exit = run_program(program, chip, engine=engine, max_cycles=3000).exit

    assert exit.message.startswith(f"deadlock at cycle {last + 1}: ")
