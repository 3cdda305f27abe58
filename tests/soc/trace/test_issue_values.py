"""The values of an instruction trace: replayed, they make up the registers and the memory."""

import pytest

from soc.run import ENGINES, run_program
from soc.trace.issue_values import register_name
from tests.soc.random_programs import random_program


class Replay:
    """Registers and bytes of memory, by what the lines of a trace say alone."""

    def __init__(self) -> None:
        self.registers: dict[tuple[int, str], int] = {}
        self.memory: dict[int, int] = {}

    def do(self, hart: int, effects: list[str]) -> None:
        for effect in effects:
            words = effect.split()
            if words[0] != "mem":
                self.registers[hart, words[0]] = int(words[1], 16)
            elif len(words) == 3:
                size, value = (len(words[2]) - 2) // 2, int(words[2], 16)
                for k in range(size):
                    self.memory[int(words[1], 16) + k] = value >> 8 * k & 0xFF


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [3, 8])
def test_what_instructions_write_makes_up_registers_and_memory(seed: int, engine: str) -> None:
    result = run_program(random_program(seed), engine=engine, issue_trace=True, values=True)
    assert result.issues is not None
    assert result.effects is not None
    replay = Replay()
    for number, hart in enumerate(result.issues["hart"].tolist()):
        replay.do(hart, result.effects.get(number, []))
    assert len({hart for hart, _ in replay.registers}) == 9
    for (h, name), value in replay.registers.items():
        entry = next(k for k in range(64) if register_name(k) == name)
        assert int(result.chip.harts["regs"][h, entry]) & 0xFFFFFFFF == value, (h, name)


def test_every_load_and_store_has_its_address_and_width() -> None:
    from isa.assembler.asm import assemble
    from tests.soc.random_programs import ENTRY, ISA

    source = """
    _start:
        li a0, 0x1C008000
        li a1, 0x12345678
        sw a1, 0(a0)
        sh a1, 6(a0)
        sb a1, 9(a0)
        sw a1, 13(a0)
        lh a2, 2(a0)
        p.lbu a3, 4(a0!)
        lw a4, 9(a0)
        csrr a5, mhartid
    end: j end
    """
    result = run_program(
        assemble(source, ISA, text_base=ENTRY), issue_trace=True, values=True, max_cycles=300
    )
    assert result.effects is not None
    told = [" ".join(result.effects.get(k, [])) for k in range(12)]
    assert [line for line in told if line][-9:] == [
        "x11 0x12345678",
        "mem 0x1c008000 0x12345678",
        "mem 0x1c008006 0x5678",
        "mem 0x1c008009 0x78",
        "mem 0x1c00800d 0x12345678",
        "x12 0x00001234 mem 0x1c008002",
        "x13 0x00000078 x10 0x1c008004 mem 0x1c008000",
        "x14 0x12345678 mem 0x1c00800d",
        "x15 0x000003e0",
    ]
