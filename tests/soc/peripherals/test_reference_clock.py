"""Firmware that sleeps until edges of the reference clock, as pulp-sdk does at its end."""

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import load_chip
from soc.peripherals.reference_clock import edge, rising_edge
from soc.run import run_program

PERIOD = 1000
EDGES = 5
SLEEPS = f"""
_start:
    li a0, 0x1A109800
    lui a1, 4                # line 14
    li a2, {EDGES}
again:
    sw a1, 0x14(a0)          # STATUS_CLEAR
    sw a1, 0x04(a0)          # MASK_SET
    wfi
    sw a1, 0x08(a0)          # MASK_CLEAR
    addi a2, a2, -1
    bnez a2, again
    li t0, 0x1A104000
    lui t1, 0x80000
    sw t1, 0xA0(t0)
    wfi
"""


def test_edges_are_in_multiples_of_half_a_period() -> None:
    assert [edge(c, PERIOD) for c in (0, 499, 500, 999, 1000)] == [500, 500, 1000, 1000, 1500]
    assert [rising_edge(c, PERIOD) for c in (0, 999, 1000)] == [1000, 1000, 2000]
    assert [edge(c, 1) for c in (0, 1)] == [1, 2]
    assert [edge(c, 3) for c in (0, 1, 2, 3)] == [1, 3, 3, 4]


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_wfi_ends_at_the_next_edge(engine: str) -> None:
    chip = load_chip("pulp", {"peripherals.reference_period": PERIOD})
    result = run_program(assemble(SLEEPS, profile("ri5cy", "x")), chip=chip, engine=engine)
    assert result.exit.code == 0, result.exit.message
    assert 0 < result.cycles - EDGES * PERIOD // 2 < 60
