"""Code that changes while it runs: what fence.i does for all harts, in both engines."""

import numpy as np
import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import load_chip
from soc.core.decode_cache import CodeMemory
from soc.jit.code_cache import SHARED, Policy
from soc.run import ENGINES, prepare, run_program
from tests.soc.engine.test_engines import difference, ends
from tests.soc.random_changes import changing_program

ISA = profile("ri5cy", "x")
STORES = 60

IN_FLIGHT = """
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
    li s2, 0x10000000
early:
    li s1, 0x1C030000
    li t4, 1
    sw t4, 0x100(s2)
again:
    sw t4, 0(s1)
    addi s1, s1, 4
    addi t4, t4, 1
    li t5, {stores}
    bge t5, t4, again
    wfi
    .balign 4
core1:
    la t1, early
    li s2, 0x10000000
spin:
    lw t0, 0x100(s2)
    beqz t0, spin
    sw zero, 0(t1)
    {delay}
    fence.i
    wfi
"""
"""Core 0 stores to L2, all the time; core 1 lets an instruction of its past be data."""


@pytest.mark.parametrize("engine", ENGINES)
def test_stores_under_way_are_not_lost_by_another_harts_fence_i(
    engine: str, request: pytest.FixtureRequest
) -> None:
    for delay in range(0, 40, 1 if request.config.getoption("--full") else 7):
        text = IN_FLIGHT.format(stores=STORES, delay="\n".join(["nop"] * delay))
        result = run_program(assemble(text, ISA, text_base=0x1C010000), engine=engine)
        stored = np.frombuffer(result.read(0x1C030000, 4 * STORES), np.int32)
        assert stored.tolist() == list(range(1, STORES + 1)), delay


IN_ID = """
_start:
    li s0, 0x10200000
    la t0, core0
    sw t0, 0x40(s0)
    la t0, core1
    sw t0, 0x44(s0)
    li t0, 3
    li t1, 0x10201400           # the instruction cache is on
    sw t0, 0(t1)
    sw t0, 8(s0)
    wfi
    .balign 4
core0:
    li s2, 0x10000000
    li s3, 0x1A104000
    li a0, 0
again:
    sw s2, 0x108(s2)
    lw t1, 0(s3)
target:
    addi a0, a0, 16
    bnez t0, over
    sw zero, 0x108(s2)
    sw s2, 0x100(s2)
wait:
    lw t0, 0x104(s2)
    beqz t0, wait
    j again
over:
    wfi
    .balign 4
core1:
    li s2, 0x10000000
    la t1, target
    li t2, 0x00150513           # addi a0, a0, 1
first:
    lw t0, 0x100(s2)
    beqz t0, first
    sw t2, 0(t1)
    sw s2, 0x104(s2)
second:
    lw t0, 0x108(s2)
    beqz t0, second
    fence.i
    wfi
"""
"""Core 0 loads a register of the SoC, its next instruction in ID; core 1 lets that be another."""


@pytest.mark.parametrize("engine", ENGINES)
def test_an_instruction_in_id_becomes_the_new_one_by_another_harts_fence_i(engine: str) -> None:
    result = run_program(assemble(IN_ID, ISA, text_base=0x1C010000), engine=engine)
    assert result.chip.harts[0]["regs"][10] == 16 + 1  # NOTE: 16 + 16 on the hardware


def test_programs_that_change_their_code_leave_the_same(request: pytest.FixtureRequest) -> None:
    for seed in range(1901 if request.config.getoption("--full") else 8):
        one, other = ends(changing_program(seed), 50_000)
        assert not difference(vars(one), vars(other)), (seed, difference(vars(one), vars(other)))


def test_programs_that_change_translated_code_leave_the_same(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not request.config.getoption("--full"):
        pytest.skip("takes half a minute a seed; --full runs it")
    monkeypatch.setattr(SHARED, "policy", Policy(2, 4, poll_interval=0, waits=True))
    for seed in range(20):
        one, other = ends(changing_program(seed), 50_000)
        assert not difference(vars(one), vars(other)), (seed, difference(vars(one), vars(other)))


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that are decoded one by one from now on."""
    decoded: list[int] = []
    decode = CodeMemory._decode_row
    monkeypatch.setattr(
        CodeMemory, "_decode_row", lambda self, row: decoded.append(row) or decode(self, row)
    )
    return decoded


def test_fence_i_decodes_what_has_changed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    _start: la t0, changed
        li t1, 0x00150513           # addi a0, a0, 1
        sw t1, 0(t0)
        sw t1, 4(t0)                # as it was
        li t2, 100
    again: fence.i
    changed: addi a0, a0, 3
        addi a0, a0, 1
        addi t2, t2, -1
        bnez t2, again
        wfi
    """
    program = assemble(text, ISA, text_base=0x1C010000)
    decoded = count_decoded(monkeypatch)
    result = run_program(program)

    assert result.chip.harts[8]["regs"][10] == 200
    assert len(decoded) == len(set(decoded)) + 1


def test_where_code_is_jumped_to_again_and_again_little_is_decoded_ahead() -> None:
    program = assemble("_start: wfi", ISA)
    begun = prepare(program, load_chip("pulp", {"cores": 1}), "compiled")
    begun.chip.l2[:] = 0x00150513
    for number in range(1000):
        begun.code.decode(begun.code.base + 2000 * number)

    decoded = np.count_nonzero(begun.chip.code["kind"])
    assert decoded < 2 * 8 * 4096 + 1000 * 2 * 16
    assert sum(end - first for first, end in begun.code.runs) <= 32_768


def test_rows_that_are_not_decoded_are_not_translated_however_hot_they_were() -> None:
    begun = prepare(assemble("_start: wfi", ISA), load_chip("pulp", {"cores": 1}), "compiled")
    begun.code.decode(begun.program.entry)
    first = (begun.program.entry - begun.code.base) >> 1
    begun.chip.superblocks["hotness"][first : first + 10] = 100

    decoded = {first, first + 2}  # wfi, and a word of zeros
    assert {each.begin[0] for each in begun.translator._hot(100)} == decoded


OUTSIDE = """
_start:
    li t0, 0x10000000
    csrw 0x7C0, t0                  # the start of loop 0, its end, its count
    la t0, last
    csrw 0x7C1, t0
    li t0, 3
    csrw 0x7C2, t0
    la t1, _start
    sw t0, 0(t1)
last:
    fence.i
    wfi
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stores", [True, False], ids=["after a change", "without one"])
def test_fence_i_at_the_end_of_a_loop_may_go_back_out_of_code_memory(
    engine: str, stores: bool
) -> None:
    text = OUTSIDE if stores else OUTSIDE.replace("sw t0, 0(t1)", "nop")
    result = run_program(assemble(text, ISA, text_base=0x1C010000), engine=engine)

    assert result.exit.reason == "trap"
    assert result.exit.message.endswith(
        ", hart fc, pc 0x10000000: the hart fetches from outside the code memory, which is L2"
    )
