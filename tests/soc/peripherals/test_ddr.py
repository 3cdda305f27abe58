"""The memory behind AXI: bytes from and to programs and files."""

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.run import ENGINES, run_program

PROGRAM = """
_start:
    li s0, 0x80000010
    lw a0, 0(s0)
    lbu a1, 5(s0)
    add a0, a0, a1
    li t0, 0x12345678
    sw t0, 16(s0)
    sh t0, 22(s0)
    sb t0, 25(s0)
    lw t1, 16(s0)
    bne t0, t1, wrong
    li t0, 0x1A104000
    lui t1, 0x80000
    or a0, a0, t1
    sw a0, 0xA0(t0)
wrong:
    wfi
"""


def program(text=PROGRAM):
    return assemble(text, profile("ri5cy", "x"))


def test_programs_load_and_store_in_both_engines_in_the_same_cycles(tmp_path):
    (tmp_path / "before").write_bytes(bytes(16) + b"\x03\0\0\0\0\x04")
    fields = {"size": 1 << 20, "load": str(tmp_path / "before"), "save": str(tmp_path / "after")}
    chip = load_chip("pulp", {f"ddr.{name}": value for name, value in fields.items()})
    results = [run_program(program(), chip, engine=e, max_cycles=1000) for e in ENGINES]
    for result in results:
        assert (result.exit.reason, result.exit.code) == ("exit", 7), result.exit.message
        assert not result.warnings
    assert results[0].cycles == results[1].cycles
    after = (tmp_path / "after").read_bytes()
    assert len(after) == 1 << 20
    assert after[32:42] == b"\x78\x56\x34\x12\xff\xff\x78\x56\xff\x78"


def test_a_chip_without_it_has_nothing_there():
    result = run_program(program(), "pulp", max_cycles=1000)
    assert "0x80000010 is in no region of the memory map" in result.exit.message


def test_accesses_that_cross_a_word_stop_the_run():
    chip = load_chip("pulp", {"ddr.size": 1 << 12})
    text = "_start:\n li s0, 0x80000002\n lw a0, 0(s0)\n wfi"
    result = run_program(program(text), chip, max_cycles=1000)
    assert "cross a word of ddr" in result.exit.message


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (0x1C100000, "l2 0x1c000000..0x1c1fffff overlaps ddr 0x1c100000..0x1c10ffff"),
        (0xFFFFF000, "ddr 0xfffff000..0x10000efff is past 0xffffffff"),
    ],
)
def test_it_lies_apart_from_what_else_there_is(base, message):
    with pytest.raises(ConfigError, match=message):
        load_chip("pulp", {"ddr.size": 1 << 16, "ddr.base": base})
