"""The commands asm, dis and isa."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from isa.program import Program
from pulpsim.commands import app as cli

SOURCE = """
_start:
    lp.setupi x0, 10, end
    p.lw a2, 4(a3!)
    addi a1, a1, 1
end:
    add a0, a0, a2
    ebreak
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "loop.s"
    file.write_text(SOURCE)
    return file


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def words(listing: str) -> list[str]:
    return re.findall(r"^[0-9a-f]{8}: ([0-9a-f]+)", listing, flags=re.MULTILINE)


def test_a_source_becomes_an_elf_beside_it_unless_told_where(source: Path) -> None:
    assert pulpsim("asm", source).exit_code == 0
    assert pulpsim("asm", source, "-o", source.parent / "b.elf").exit_code == 0
    written = source.with_suffix(".elf").read_bytes()
    assert written == (source.parent / "b.elf").read_bytes()
    assert Program.from_elf(written).symbol("end").address == Program.from_elf(written).entry + 12


def test_a_listing_has_lines_symbols_and_loop_bodies(source: Path) -> None:
    pulpsim("asm", source)
    listing = pulpsim("dis", source.with_suffix(".elf")).stdout
    lines = listing.splitlines()
    assert f"# {source}:4" in lines
    assert any(line.endswith("│ p.lw a2, 4(a3!)") for line in lines)
    assert any(line.endswith("└ add a0, a0, a2") for line in lines)
    assert words(listing)[-1] == "00100073"


@pytest.mark.parametrize(
    ("text", "option", "registers"),
    [
        ("fadd.s fa0, fa1, fa2", (), "f"),
        ("fadd.s a0, a1, a2", (), "x"),
        ("fadd.s f1, f2, f3", ("--float-registers", "f"), "f"),
    ],
)
def test_floats_live_where_the_source_has_them(
    source: Path, text: str, option: tuple[str, ...], registers: str
) -> None:
    source.write_text(text)
    assert pulpsim("asm", source, *option).exit_code == 0
    elf = source.with_suffix(".elf")
    assert Program.from_elf(elf).float_registers == registers
    assert re.sub(r"f(\d)", r"ft\1", text) in pulpsim("dis", elf).stdout


def test_the_core_of_a_listing_is_that_of_the_program_unless_told(source: Path) -> None:
    source.write_text("cv.lw a0, (a1), 4")
    assert pulpsim("asm", source, "--core", "cv32e40p").exit_code == 0
    elf = source.with_suffix(".elf")
    assert "cv.lw a0, (a1), 4" in pulpsim("dis", elf).stdout
    assert "cv.lw" not in pulpsim("dis", elf, "--core", "ri5cy").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("asm", "absent.s"), "absent.s: cannot be read: No such file or directory"),
        (("asm", "{source}", "-o", "/"), "-o /: is a folder, not a file"),
        (
            ("asm", "{source}", "-o", "/absent/a.elf"),
            "-o /absent/a.elf: there is no folder /absent",
        ),
        (
            ("asm", "{source}", "-o", "/dev/full"),
            "-o /dev/full: cannot be written: No space left on device",
        ),
        (("asm", "{source}", "--core", "arm"), "--core arm: must be ri5cy or cv32e40p"),
        (
            ("asm", "{source}", "--float-registers", "y"),
            "--float-registers y: must be f or x",
        ),
        (
            ("dis", "{source}"),
            "{source}: not an ELF file: it begins with 0a 5f 73 74, not 7f 45 4c 46",
        ),
        (("isa", "zzz"), "isa zzz: no such instruction; `pulpsim isa` lists them all"),
        (
            ("isa", "p.mulhhsn1"),
            "isa p.mulhhsn1: no such instruction; did you mean p.mulhhs, p.mulhhsN, p.mulhhsRN?",
        ),
    ],
)
def test_bad_input_is_told_in_one_line_with_status_2(
    source: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = pulpsim(*(argument.format(source=source) for argument in arguments))
    assert result.exit_code == 2
    assert result.stderr == f"pulpsim: {message.format(source=source)}\n"


def test_a_mistake_in_a_source_names_its_line(source: Path) -> None:
    source.write_text("nop\nadd a0, a1\n")
    result = pulpsim("asm", source)
    assert result.exit_code == 2
    assert re.match(rf"pulpsim: {re.escape(str(source))}:2: ", result.stderr)


def test_an_instruction_of_several_forms_has_a_page_of_each() -> None:
    page = pulpsim("isa", "p.lw").stdout
    for form in ["p.lw rd, imm(rs1!)", "p.lw rd, rs2(rs1!)", "p.lw rd, rs2(rs1)"]:
        assert f"{form}\n{'=' * len(form)}\n" in page


CONTROLLERS = "fc-cv32e40p-soc5-rtl, fc-ri5cy-soc3-rtl, fc-ri5cy-soc5-rtl"
ALL = f"cv32e40p-rtl, {CONTROLLERS}, pulp, pulp-cv32e40p, ri5cy-rtl"


@pytest.mark.parametrize(
    ("name", "chips"),
    [
        ("add", ALL),
        ("c.lw", ALL),
        ("p.mac", f"{CONTROLLERS}, pulp, ri5cy-rtl"),
        ("cv.mac", "cv32e40p-rtl, pulp-cv32e40p"),
        ("vfmac.h", "fc-ri5cy-soc3-rtl, fc-ri5cy-soc5-rtl, pulp, ri5cy-rtl"),
        ("vfdotp.h", "none; set core.dot_products = true"),
    ],
)
def test_a_page_names_the_chips_that_have_the_instruction(name: str, chips: str) -> None:
    assert pulpsim("isa", name).stdout.splitlines()[-1] == f"Chips        {chips}"


def test_a_part_of_many_names_is_met_with_some_of_them() -> None:
    assert re.fullmatch(
        r"pulpsim: isa mac: no such instruction; did you mean (\S+, ){7}\S+, or \d+ more\?\n",
        pulpsim("isa", "mac").stderr,
    )


def test_all_mnemonics_are_listed_by_extension() -> None:
    page = pulpsim("isa").stdout
    assert "rv32m\n  mul mulh mulhsu mulhu div divu rem remu\n" in page
    assert max(map(len, page.splitlines())) <= 100
