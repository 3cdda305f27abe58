"""Decoding as harts come to code: what is decoded late behaves as what is decoded early."""

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import load_chip
from soc.core import decode_cache as code_memory
from soc.core.decode_cache import CodeMemory
from soc.jit.code_cache import SHARED, CodeCache
from soc.jit.profile_store import ProfileStore
from soc.prelude.decoded import LOOP_HINTS
from soc.run import prepare, run_program

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
    monkeypatch.setattr(SHARED, "profiles", ProfileStore(files=0))
    chip = load_chip("pulp", {"cores": 1})
    result = run_program(
        assemble(LOOP, profile("ri5cy", "x")), chip, engine=engine, max_cycles=2000
    )
    controller = result.chip.harts[chip.cores]
    assert (controller["regs"][10], controller["regs"][11]) == (400, 600)


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_what_was_decoded_before_is_decoded_anew_where_it_has_changed(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_for_all = ProfileStore(files=0, beginning=2)
    monkeypatch.setattr(SHARED, "profiles", one_for_all)
    chip = load_chip("pulp", {"cores": 1})
    for increment in (3, 5, 5):
        text = LOOP.replace("x10, x10, 3", f"x10, x10, {increment}")
        program = assemble(text, profile("ri5cy", "x"))
        result = run_program(program, chip, engine=engine, max_cycles=2000)
        assert result.chip.harts[1]["regs"][10] == 100 * (1 + increment)


def test_programs_that_take_turns_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CodeCache(profiles=ProfileStore(files=0))
    decoded: list[int] = []
    decode = CodeMemory._decode_words
    monkeypatch.setattr(
        CodeMemory,
        "_decode_words",
        lambda self, *where: decoded.append(where) or decode(self, *where),
    )
    for increment in (3, 5, 3, 5):
        text = LOOP.replace("x10, x10, 3", f"x10, x10, {increment}")
        program = assemble(text, profile("ri5cy", "x"))
        result = run_program(program, "pulp", max_cycles=2000, code_cache=cache)
        assert result.chip.harts[8]["regs"][10] == 100 * (1 + increment)

    assert len(decoded) == 2


def test_hints_of_hardware_loops_are_no_part_of_what_was_decoded_before() -> None:
    chip = load_chip("pulp", {"cores": 1})
    program = assemble(LOOP, profile("ri5cy", "x"))
    run_program(program, chip, max_cycles=2000)
    begun = prepare(program, chip, "compiled")
    begun.code.decode(program.entry)

    assert begun.chip.code["kind"].any()
    assert not (begun.chip.code["flags"] & LOOP_HINTS).any()


def test_harts_that_come_to_code_together_decode_it_once_and_so_does_the_next_run() -> None:
    program = assemble(LOOP, profile("ri5cy", "x"))
    for _ in range(2):
        begun = prepare(program, load_chip("pulp", {"cores": 1}), "compiled")
        for _ in range(2):
            begun.code.decode(program.entry)
        assert begun.chip.code["kind"].any()
