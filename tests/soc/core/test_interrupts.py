"""Which of the event unit's interrupts a core takes, as riscv_int_controller.sv has it."""

import pytest

from tests.soc.chip_bench import run

COUNTS = 0x10000100
VECTORS = f"""
    j over
    .align 8
table:
    {"; ".join(["j handler"] * 32)}
handler:
    csrr t4, mcause
    andi t4, t4, 31
    slli t4, t4, 2
    add t4, t4, s6
    lw t5, 0x100(t4)
    addi t5, t5, 1
    sw t5, 0x100(t4)
    lw t6, 0x180(s6)
    slli t6, t6, 4
    srli t4, t4, 2
    andi t4, t4, 15
    or t6, t6, t4
    sw t6, 0x180(s6)
    mret
over:
    la t0, table
    csrw mtvec, t0
    li t2, 1
"""
ENABLE, WAIT = "csrrsi x0, mstatus, 8", "; ".join(["nop"] * 20)


def taken(*parts: str, engine: str = "compiled") -> dict[int, int]:
    """How often core 0 takes each interrupt."""
    result = run(VECTORS + "; ".join(parts), cores=1, engine=engine)
    assert result.exit.reason == "exit", result.exit.message
    counts = [int.from_bytes(result.read(COUNTS + 4 * k, 4), "little") for k in range(32)]
    return {line: count for line, count in enumerate(counts) if count}


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_an_event_is_one_interrupt(engine: str) -> None:
    mask, event = "li t1, 0xff; sw t1, 0xc(s1)", "sw t2, 0x10c(s1)"
    assert taken(mask, ENABLE, event, WAIT, engine=engine) == {3: 1}
    assert taken(mask, event, WAIT, ENABLE, WAIT, engine=engine) == {3: 1}


@pytest.mark.parametrize("withdraw", ["li t1, 8; sw t1, 0x28(s1)", "sw x0, 0xc(s1)"])
def test_an_event_withdrawn_while_interrupts_are_disabled_is_none(withdraw: str) -> None:
    mask = "li t1, 8; sw t1, 0xc(s1)"
    assert taken(mask, "sw t2, 0x10c(s1)", WAIT, withdraw, WAIT, ENABLE, WAIT) == {}


def test_what_is_left_of_two_events_is_taken() -> None:
    events = "li t1, 0x1f; sw t1, 0xc(s1); sw t2, 0x10c(s1); sw t2, 0x108(s1)"
    assert taken(events, WAIT, "li t1, 8; sw t1, 0x28(s1)", WAIT, ENABLE, WAIT) == {2: 1}


def test_several_are_taken_one_by_one_the_highest_first() -> None:
    events = "li t1, 0x1f; sw t1, 0xc(s1); " + "; ".join(
        f"sw t2, {0x100 + 4 * line:#x}(s1)" for line in (3, 2, 4)
    )
    result = run(VECTORS + "; ".join([events, ENABLE] + 3 * [WAIT]), cores=1)
    assert int.from_bytes(result.read(0x10000180, 4), "little") == 0x432


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_a_wait_that_an_interrupt_ends_is_done_again_after_the_handler(engine: str) -> None:
    code = f"""
        li t1, 8
        bnez s5, other
        sw t1, 0xc(s1)
        li t1, 0x10001
        sw t1, 0(s1)
        {ENABLE}
        p.elw t0, 0x3c(s1)
        sw t0, 0x190(s6)
        j done
    other:
        {WAIT}
        li t1, 1
        sw t1, 0x10c(s1)
        {WAIT}
        sw t1, 0x100(s1)
    done:
        {WAIT}
    """
    result = run(VECTORS + code, cores=3, engine=engine)
    assert result.exit.reason == "exit", result.exit.message
    words = (COUNTS + 4 * 3, COUNTS + 0x90)
    assert [int.from_bytes(result.read(word, 4), "little") for word in words] == [1, 1]


def test_a_wait_that_an_interrupt_ends_while_they_are_disabled_is_over() -> None:
    code = "li t1, 8; sw t1, 0xc(s1); sw x0, 0(s1); sw t2, 0x10c(s1)"
    assert taken(code, WAIT, "p.elw t0, 0x3c(s1)", WAIT) == {}
