"""Decoding as harts come to code: what is decoded late behaves as what is decoded early."""

import pytest

from isa.asm import assemble
from isa.profiles import profile
from soc import code_memory
from soc.run import run_program
from soc.spec import load_chip

LOOP = """
_start:
    li   x10, 0
    li   x11, 0
    lp.setupi x0, 100, last
    addi x10, x10, 1
    addi x11, x11, 2
    addi x10, x10, 3
last:
    addi x11, x11, 4
    wfi
"""


@pytest.mark.parametrize("engine", ["compiled", "event"])
@pytest.mark.parametrize("longest", [1, 2, 3, 4, 5, 6, 4096])
def test_a_hardware_loop_whose_end_is_decoded_after_its_set_up_repeats(
    engine: str, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_memory, "LONGEST_RUN", longest)
    chip = load_chip("pulp", {"cores": 1})
    result = run_program(
        assemble(LOOP, profile("ri5cy", "x")), chip, engine=engine, max_cycles=2000
    )
    controller = result.chip.harts[chip.cores]
    assert (controller["regs"][10], controller["regs"][11]) == (400, 600)
