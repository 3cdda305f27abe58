"""CSR 0x7D1 of the fabric controller: RI5CY's stack_start, or the mtvec of PULP's Ibex."""

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import load_chip
from soc.run import run_program

TRAP = """
_start:
    la a0, handler
    csrw 0x7D1, a0
    csrr a1, 0x7D1
    csrr a2, mtvec
    ecall
    li a3, 1                 # after the ecall: no trap came, or it came back
    j end
    .align 8
handler:
    li a3, 2
end:
    la a0, handler           # 0: 0x7D1 holds what was stored, 4: with the vector bit
    sub a1, a1, a0
    sub a2, a2, a0
    slli a1, a1, 2
    add a3, a3, a1
    bnez a2, not_mtvec
    j told
not_mtvec:
    addi a2, a2, -1
    bnez a2, told
    addi a3, a3, 8           # mtvec is the handler with the vector bit
told:
    li t0, 0x1A104000
    lui t1, 0x80000
    or a3, a3, t1
    sw a3, 0xA0(t0)
    wfi
"""


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_7d1_is_mtvec_where_the_field_says_so(engine: str) -> None:
    program = assemble(TRAP, profile("ri5cy", "x"))
    chip = load_chip("pulp", {"fabric_controller.ibex_csrs": True})
    result = run_program(program, chip=chip, engine=engine)
    assert result.exit.code == 2 + 4 + 8, result.exit.message
    result = run_program(program, chip="pulp", engine=engine)
    assert result.exit.reason != "exit" or result.exit.code == 1
