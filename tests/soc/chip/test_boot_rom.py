"""The boot ROM: forms of its file, who loads its words in how many cycles, mistakes."""

import struct

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.boot_rom import boot_rom
from soc.chip.peripherals_spec import BootRomSpec
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.run import ENGINES, run_program
from tests.soc.chip_bench import region_cycles, run

WORDS = (0x11111111, 0x80000042, 0xABCD1234)
PLAIN = struct.pack("<3I", *WORDS)
HEX = "11111111 // the first\n80000042\n/* and\none more */ abcd_1234\n"
ARRAY = """
module rom #(parameter N = 2048) (input logic CEN);
    const logic [2:0][31:0] MEM = {
        32'hABCD1234, // the last one
        32'b10000000_00000000_00000000_01000010,
        32'b00010001000100010001000100010001
    };
    always_ff @(posedge CLK) if (CEN == 1'b0) A_Q <= A;
endmodule
"""
LOADS = """
    li t6, 0x1A000000
    lw a0, 0(t6)
    lhu a1, 8(t6)
    lw a2, 6(t6)            # crosses a word
    sw zero, 4(t6)          # the ROM ignores it
    lw a3, 4(t6)
    li t5, 0x1A03E000       # its words repeat
    lb a4, 7(t5)
"""
LOADED = [0x11111111, 0x1234, 0x12348000, 0x80000042, 0xFFFFFF80]
"""a0 to a4 after them."""
REGISTERS = [10, 11, 12, 13, 14]


def words_of(tmp_path, name, content, **fields):
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    words = boot_rom(BootRomSpec(load=str(file), **fields), is_bench=False).view("u4")
    assert len(words) == fields.get("size", 8192) // 4
    return words


def rom_at(address):
    words = "_start: .word 0x11111111, 0x80000042, 0xABCD1234"
    return assemble(words, profile("ri5cy", "x"), text_base=address).to_elf()


@pytest.mark.parametrize(
    ("name", "content"),
    [("rom.bin", PLAIN), ("rom.hex", HEX), ("rom.sv", ARRAY), ("rom", rom_at(0x1A000000))],
    ids=["plain", "hex", "array", "elf"],
)
def test_its_content_has_four_forms(tmp_path, name, content):
    words = words_of(tmp_path, name, content)
    assert tuple(words[:3]) == WORDS
    assert not words[3:].any()


def test_words_in_hexadecimal_may_have_addresses(tmp_path):
    words = words_of(tmp_path, "rom.hex", "@3 1 2 @0 F", size=32)
    assert words.tolist() == [15, 0, 0, 1, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a", b"\0" * 10, "10 bytes are no whole number of words"),
        ("a", b"\0" * 36, r"0x0\.\.0x23 is outside of the ROM, 0x0\.\.0x1f \(boot_rom.size\)"),
        ("a.hex", "1 zz", "'zz' is no word of 8 hexadecimal digits$"),
        ("a.hex", ":10000000", "hexadecimal digits: Intel's format, make plain bytes of it"),
        ("a.hex", "123456789", "'123456789' is no word of 8 hexadecimal digits"),
        ("a.hex", "@8 1", r"0x20\.\.0x23 is outside of the ROM"),
        ("a.sv", "module rom; endmodule", "there is no word like 32'b"),
        ("a", rom_at(0x1C000000), r"0x1c000000\.\.0x1c00000b is outside of the ROM, 0x1a000000\."),
        ("a", rom_at(0x1A000000)[:60], "truncated|ELF"),
    ],
)
def test_a_file_that_is_no_rom_is_refused(tmp_path, name, content, message):
    with pytest.raises(ConfigError, match=rf"^boot_rom\.load '.*{name}': .*({message})"):
        words_of(tmp_path, name, content, size=32)


def test_a_missing_file_is_refused_before_the_run():
    chip = load_chip("pulp", {"boot_rom.load": "/nowhere/rom.bin"})
    with pytest.raises(ConfigError, match=r"^boot_rom\.load '/nowhere/rom\.bin': No such file"):
        run_program(program("_start: wfi"), chip)


def test_its_size_is_a_power_of_two():
    with pytest.raises(ConfigError, match="size 48 is no power of two"):
        load_chip("pulp", {"boot_rom.size": 48})


@pytest.fixture
def rom(tmp_path):
    file = tmp_path / "rom.bin"
    file.write_bytes(PLAIN)
    return {"boot_rom.load": str(file)}


def registers(result, h):
    return [int(value) & 0xFFFFFFFF for value in result.chip.harts["regs"][h, REGISTERS]]


def test_cores_and_fabric_controller_load_its_words_in_both_engines(rom):
    results = [run(LOADS, LOADS, cores=3, fields=rom, engine=engine) for engine in ENGINES]
    for result in results:
        assert result.exit.reason == "exit", result.exit.message
        assert not result.warnings
        assert registers(result, 0) == registers(result, 1) == LOADED
    assert results[0].cycles == results[1].cycles
    assert results[0].read(0x1A000004, 4) == PLAIN[4:8]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_controllers_load_takes_one_cycle(rom, engine):
    code = "li t6, {}; slti x0, x0, 0; lw t0, 0(t6); lw t1, 4(t6); slti x0, x0, 1"
    cycles = [
        run(controller=code.format(address), fields=rom, engine=engine).to_json()["harts"][8]
        for address in ("0x1A000000", "0x1C020000")
    ]
    assert [hart["regions"][0]["cycles"] for hart in cycles] == [3, 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cores_load_takes_a_cycle_more_than_from_l2(rom, engine):
    code = "li t6, {}; slti x0, x0, 0; {} t0, 0(t6); slti x0, x0, 1"
    cycles = {
        (address, instruction): region_cycles(
            run(code.format(address, instruction), cores=1, fields=rom, engine=engine)
        )
        for address in ("0x1A000000", "0x1C020000")
        for instruction in ("lw", "sw")
    }
    assert list(cycles.values()) == [[17], [17], [16], [17]]


def test_a_chip_without_it_says_how_it_gets_one():
    result = run("", LOADS)
    assert "0x1a000000 is in the boot ROM, which this chip lacks" in result.exit.message
    assert "boot_rom.load" in result.exit.message


def test_code_of_the_rom_is_not_run(rom):
    result = run("", "li t0, 0x1A000000; jr t0", fields=rom)
    assert result.exit.reason == "trap"


def test_a_device_lies_apart_from_it(rom):
    device = {"name": "mine", "base": 0x1A000000, "size": 0x1000, "module": "x.py:X"}
    with pytest.raises(ConfigError, match="overlaps boot_rom 0x1a000000"):
        load_chip("pulp", {**rom, "device": [device]})


def program(text):
    return assemble(text, profile("ri5cy", "x"))
