"""The assembler: against GNU as, and its messages."""

import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from isa.assembler.asm import AsmError, assemble, assemble_file
from isa.assembler.directives import binary32
from isa.declare import Extension, Isa
from isa.extensions.profiles import profile
from isa.program import LineRange, Program

NOP = bytes.fromhex("13000000")
AS, LD = "riscv64-unknown-elf-as", "riscv64-unknown-elf-ld"
GNU_SOURCE = Path(__file__).parents[1] / "asm" / "gnu.s"
RI5CY, CV32E40P = profile("ri5cy"), profile("cv32e40p")

needs_binutils = pytest.mark.skipif(
    not shutil.which(AS), reason="binutils-riscv64-unknown-elf is not installed"
)


def gnu(text: str, program: Program, folder: Path) -> Program:
    """The same source by GNU as, linked so that its sections lie where the program's do."""
    (folder / "a.s").write_text(text)
    places = "\n".join(
        f"{section.name} 0x{section.address:x} : {{ *({section.name}) "
        f"{'*(COMMON)' if section.name == '.bss' else ''} }}"
        for section in program.sections
    )
    (folder / "a.ld").write_text(f"SECTIONS {{\n{places}\n/DISCARD/ : {{ *(*) }}\n}}\n")
    march = ["-march=rv32imfc_zicsr_zifencei", "-mabi=ilp32f", "-mno-relax"]
    subprocess.run([AS, *march, "a.s", "-o", "a.o"], cwd=folder, check=True)
    link = ["-m", "elf32lriscv", "--no-relax", "--no-warn-rwx-segments", "-e", "_start"]
    subprocess.run([LD, *link, "-T", "a.ld", "a.o", "-o", "a.elf"], cwd=folder, check=True)
    return Program.from_elf(folder / "a.elf")


def contents(program: Program) -> dict[str, bytes]:
    return {s.name: program.bytes_at(s.address, s.size) for s in program.sections}


@needs_binutils
def test_a_source_gives_the_bytes_that_gnu_as_and_ld_give(tmp_path):
    text = GNU_SOURCE.read_text()
    program = assemble(text, RI5CY, text_base=0x1C008000, data_base=0x1C00A000)
    theirs = gnu(text, program, tmp_path)
    assert contents(program).keys() == contents(theirs).keys()
    for name, data in contents(theirs).items():
        ours = contents(program)[name]
        differing = [i for i in range(0, len(ours), 2) if data[i : i + 2] != ours[i : i + 2]]
        assert not differing, f"{name}+0x{differing[0]:x}"
        assert data[len(ours) :] in (b"", NOP), "GNU as fills sections up to their alignment"
    assert program.entry == theirs.entry
    for name in ("_start", "far", "table", "end", "buffer"):
        assert program.symbol(name).address == theirs.symbol(name).address, name
    assert program.symbol("_start").is_global
    assert not program.symbol("far").is_global


@needs_binutils
def test_random_expressions_have_gnu_as_values(tmp_path):
    rng = random.Random(3)

    def expression(depth: int) -> str:
        if depth == 0:
            return str(rng.choice((rng.randrange(10), rng.randrange(1 << 16))))
        left = expression(rng.randrange(depth))
        operator = rng.choice("+ - * / & | ^ << %".split())
        right = str(rng.randrange(1, 8)) if operator in "<</%" else expression(rng.randrange(depth))
        text = f"{left} {operator} {right}"
        return f"({text})" if rng.random() < 0.4 else f"{rng.choice('-~ ')}{text}"

    lines = "\n".join(f".dword {expression(5)}" for _ in range(300))
    text = f".globl _start\n_start: .option norvc\nnop\nnop\n{lines}\n"
    program = assemble(text, RI5CY)
    assert contents(program)[".text"] == contents(gnu(text, program, tmp_path))[".text"]


def test_every_mnemonic_of_a_profile_is_read_in_any_case():
    for isa in (RI5CY, CV32E40P):
        assert assemble("ADDI a0, a0, 1", isa).segments == assemble("addi a0, a0, 1", isa).segments
    assert assemble("p.addn a0, a1, a2, 3", RI5CY) == assemble("p.addN a0, a1, a2, 3", RI5CY)


XPULP = {  # by GNU's assembler for Xpulp
    "p.lw a3, 4(a0!)": 0x0045268B,
    "p.lw a4, a1(a0!)": 0x20B5770B,
    "p.lw a4, a1(a0)": 0x20B57703,
    "p.lw a4, 8(a0)": 0x00852703,
    "p.mac a2, a3, a4": 0x42E68633,
    "p.elw a5, 0(s2)": 0x00096783,
    "lp.setup x0, t0, .+4": 0x0022C07B,
    "lp.setup x0, a2, .+24": 0x00C6407B,
    "p.mulhhurn a4, a1, a2, 2": 0x44C5C75B,
    "p.subn a4, a1, a2, 2": 0x04C5B75B,
}


@pytest.mark.parametrize(("text", "word"), XPULP.items())
def test_xpulp_instructions_have_their_words(text, word):
    assert assemble(text, RI5CY).segments[0].data == word.to_bytes(4, "little")


def test_hardware_loops_end_at_labels():
    program = assemble("lp.setup x0, t0, 1f\nnop\n1: add a0, a0, a0", RI5CY, text_base=0)
    assert program.segments[0].data[:4] == (0x0042C07B).to_bytes(4, "little")
    program = assemble("cv.setup 0, t0, 1f\nnop\nnop\n1: nop", CV32E40P, text_base=0)
    assert struct.unpack("<I", program.segments[0].data[:4])[0] >> 20 == 3  # words


def test_floats_in_x_registers_take_x_registers():
    isa = profile("ri5cy", "x")
    program = assemble("fadd.s a0, a0, a1", isa)
    assert program.segments[0].data == (0x00B57553).to_bytes(4, "little")
    assert (program.architecture, program.float_registers) == ("rv32i_zfinx", "x")
    with pytest.raises(AsmError, match=r"^source:1: 'fadd.s fa0, fa0, fa1': operands do not fit; "):
        assemble("fadd.s fa0, fa0, fa1", isa)


def test_a_program_says_which_extensions_it_uses():
    def used(text: str, isa=RI5CY) -> str | None:
        return assemble(text, isa).architecture

    assert used("nop") == "rv32i"
    assert used("mul a0, a0, a0\nc.nop\nflw fa0, 0(a0)") == "rv32imfc"
    assert used("csrr a0, mhartid\nfence.i\np.mac a0, a0, a0") == "rv32i_zicsr_zifencei_xpulpv2"
    assert used("cv.mac a0, a0, a0", CV32E40P) == "rv32i_xcvmac"
    assert assemble("nop", RI5CY).flags == 0
    assert assemble("c.nop", RI5CY).flags == 1


def test_sections_follow_each_other_where_they_are_placed():
    text = (
        'nop\n.data\n.word 1\n.bss\n.zero 8\n.section .rodata\n.byte 1\n.section .l1,"aw"\n.word 2'
    )
    program = assemble(text, RI5CY, text_base=0x1000, bases={".l1": 0x10000000})
    assert [(s.name, s.address, s.size) for s in program.sections] == [
        (".text", 0x1000, 4),
        (".rodata", 0x1004, 1),
        (".data", 0x1008, 4),
        (".bss", 0x100C, 8),
        (".l1", 0x10000000, 4),
    ]
    placed = assemble(text, RI5CY, text_base=0x1000, data_base=0x2000)
    assert {s.name: s.address for s in placed.sections}[".data"] == 0x2000


def test_a_program_starts_at_start_or_at_its_text():
    assert assemble("nop\nnop", RI5CY, text_base=0x100).entry == 0x100
    assert assemble("nop\n_start: nop", RI5CY, text_base=0x100).entry == 0x104


def test_symbols_have_the_kind_and_size_that_directives_give():
    text = "f: ret\n.type f, @function\n.size f, . - f\n1: nop\n.Llocal: nop\n.equ N, 5\n"
    (symbol,) = assemble(text, RI5CY, text_base=0x100).symbols
    assert (symbol.name, symbol.address, symbol.size, symbol.kind) == ("f", 0x100, 4, "function")


def test_instructions_have_their_source_lines():
    program = assemble("nop\n\nla a0, x\nx: nop; nop\n", RI5CY, text_base=0, source="a.s")
    assert program.lines.ranges == (
        LineRange(0, 4, "a.s", 1),
        LineRange(4, 12, "a.s", 3),
        LineRange(12, 20, "a.s", 4),
    )


def test_a_compiler_says_which_source_lines_its_output_comes_from():
    text = (
        '.file "a.c"\n.file 1 "/src" "a.c"\n.loc 1 7 3\n.cfi_startproc\nnop\n'
        '.section .debug_line,"",@progbits\n.uleb128 3\n.4byte nowhere'
    )
    program = assemble(text, RI5CY, text_base=0)
    assert program.lines.ranges == (LineRange(0, 4, "/src/a.c", 7),)
    assert [section.name for section in program.sections] == [".text"]


def test_a_file_is_assembled_under_its_name(tmp_path):
    path = tmp_path / "a.s"
    path.write_text("nop\nfoo\n")
    message = f"{path}:2: 'foo': unknown instruction foo"
    with pytest.raises(AsmError, match=f"^{re.escape(message)}"):
        assemble_file(path, RI5CY)
    path.write_text("nop\n")
    assert assemble_file(path, RI5CY, text_base=0x100).entry == 0x100
    message = f"{tmp_path}: cannot be read: Is a directory"
    with pytest.raises(AsmError, match=f"^{re.escape(message)}$"):
        assemble_file(tmp_path, RI5CY)
    with pytest.raises(AsmError, match=r"^a\x00b: cannot be read: no file can have this name$"):
        assemble_file("a\0b", RI5CY)


def test_too_large_a_source_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.s"
    path.write_text("nop\nj .\nj .\n")
    monkeypatch.setattr("isa.assembler.layout.MOST_PENDING", 2)
    with pytest.raises(
        AsmError, match=r"a\.s:3: 'j \.': more than 2 instructions and values of symbols$"
    ):
        assemble_file(path, RI5CY)
    monkeypatch.setattr("isa.assembler.asm.LARGEST_SOURCE", 4)
    message = f"{path}: more than 4 characters, the most of a source"
    with pytest.raises(AsmError, match=f"^{re.escape(message)}$"):
        assemble_file(path, RI5CY)


def test_a_decimal_float_is_rounded_once():
    """Binary64 cannot tell numbers so close to a tie of binary32 from it."""
    tie = "1.000000059604644775390625"  # 1 + 2^-24
    assert binary32(tie) == struct.pack("<f", 1.0)
    assert binary32(tie + "1") == struct.pack("<I", 0x3F800001)
    assert binary32(tie[:-1] + "49") == struct.pack("<f", 1.0)


MESSAGES = {
    "addii a0, a0, 1": "unknown instruction addii; did you mean addi?",
    "qqq": "unknown instruction qqq",
    ".wrd 1": "unknown directive .wrd; did you mean .word?",
    "addi a0, a1": "operands do not fit; write addi rd, rs1, imm",
    "addi a0, a1, 5000": "imm: 5000 is not from -2048 to 2047",
    "addi a0, a1, a2": "operands do not fit; write addi rd, rs1, imm",
    "p.lw a0, a1": "operands do not fit; write p.lw rd, imm(rs1!) or p.lw rd, rs2(rs1!) or "
    "p.lw rd, rs2(rs1) or p.lw rd, imm(rs1)",
    "slli a0, a0, 32": "shamt: 32 is not from 0 to 31",
    "c.lw a0, 6(a1)": "uimm: 6 is not a multiple of 4 from 0 to 124",
    "c.addi a0, 32": "imm: 32 is not from -32 to 31",
    "c.sub a0, t0": "rs2: 5 is not from 8 to 15",
    "c.lui a0, 0": "nzimm: 0 is not from -32 to 31, or 0xfffe0 to 0xfffff other than 0",
    "lui a0, 0x100000": "imm: 1048576 is not from -524288 to 524287, or 0x80000 to 0xfffff",
    "beq a0, a1, .+4096": "the target 0x1c009000 is 4096 bytes away; "
    "beq reaches a multiple of 2 from -4096 to 4094",
    "j .+3": "the target 0x1c008003 is 3 bytes away; "
    "j reaches a multiple of 2 from -1048576 to 1048574",
    "lp.setup x0, a0, .-4": "the target 0x1c007ffc is -4 bytes away; "
    "lp.setup reaches a multiple of 2 from 0 to 8190",
    "j nowhere": "nowhere is not defined",
    "j 1f": "local label 1 is not defined",
    "start: j strat": "strat is not defined; did you mean start?",
    "li a0": "write li rd, number",
    "li a0, 1 << 33": "8589934592 does not fit 32 bits",
    "x: li a0, x": "x is an address, which is not known yet; a number is needed here",
    "li a0, y": "y is not defined yet, but its value is needed here",
    "li q0, 5": "operands do not fit; write li rd, imm",
    "call": "call takes 1 operands",
    "addi a0, a0, %pcrel_lo(.)": "%pcrel_lo: no instruction with %pcrel_hi at 0x1c008000",
    ".word %hi(5)": "%hi is for operands of instructions",
    "x: .set y, -x": "- needs numbers (differences of addresses are), not an address in .text",
    ".word 1 / 0": "division by zero: 1 / 0",
    ".word 1 << 64": "a shift by 64; shifts are by 0 to 63",
    ".word (1": "a parenthesis is not closed",
    ".word 1 2": "'2' does not continue an expression",
    ".word +": "an expression ends early",
    ".word )": "')' is no value",
    ".word " + "(" * 99: "an expression nested more than 64 deep",
    ".word 09": "09 is no octal number, as its leading 0 says",
    ".word 0x10000000000000000": "0x10000000000000000 does not fit 64 bits",
    ".word 1" + "0" * 90: "10000000000000000000... is no 64-bit number",
    ".word `": "cannot read '`'",
    ".word 1 << 32": "4294967296 does not fit 4 bytes, which hold -2147483648 to 4294967295",
    ".byte 256": "256 does not fit 1 bytes, which hold -128 to 255",
    ".float x": "'x' is no decimal number",
    ".float 1e39": "1e39 is too large for a float",
    ".ascii x": "'x' is no string; write it in double quotes",
    ".zero": "0 arguments; it takes count, fill",
    ".zero -1": "cannot skip -1 bytes",
    ".zero 1 << 40": "more than 16777216 bytes",
    ".bss\n.zero 1 << 40": "more than 1073741824 bytes of zeros",
    ".bss\n.word 1": ".bss holds zeros only; use .zero, or .data",
    ".bss\nnop": ".bss holds zeros only; use .zero, or .data",
    '.bss\n.ascii "a"': ".bss holds zeros only; use .zero, or .data",
    ".align 33": "an alignment of 2^33 bytes",
    ".balign 3": "an alignment of 3 bytes; it is a power of two up to 16777216",
    ".zero 4\n.org 2": "cannot go back from offset 4 to 2",
    ".org": "write .org offset, or .org offset, fill",
    "x: .data\n.org x": "x lies in another section",
    ".set x": "write .set name, value",
    "1x = 5": "unknown instruction 1x",
    ".set 1x, 5": "'1x' is no name for a symbol",
    "x: .set x, 5": "x is a label",
    "x: nop\nx: nop": "label x is already defined in line 1",
    "x = 1\nx: nop": "label x is already defined",
    ".type x, @foo": "write .type name, @function or .type name, @object",
    ".size x": "write .size name, bytes",
    ".comm x": "write .comm name, bytes, alignment",
    ".section": "a section needs a name",
    ".loc 1 2": "write .loc file line, with a file that .file has numbered",
    ".uleb128 5": "numbers in LEB128 are for debug information",
    ".bss\n.zero 4, 1": ".bss holds zeros only; use .zero, or .data",
    ".option foo": "there is no option 'foo'; there are rvc, norvc, push, pop, relax, norelax, "
    "pic, nopic",
    ".byte 1\nnop": "an instruction at an odd address; put .balign 2 before it",
    ".rept 3\nnop": ".rept without .endr",
    ".endr": ".endr without its beginning",
    ".rept -1\n.endr": "cannot repeat -1 times",
    ".rept 1 << 40\n.endr": "repetitions and macros make more than 32768 statements",
    ".rept 12000\nnop\nnop\n.endr": "repetitions and macros make more than 32768 statements",
    ".macro m a\nm \\a\\a\\a\\a\n.endm\nm 0123456789abcdef": "repetitions and macros make more "
    "than 2097152 characters",
    "nop " + 20000 * " ": "a line of 20004 characters; the most is 16384",
    ".macro\n.endm": "a macro needs a name",
    ".macro m a\n.endm\nm 1, 2": "macro m has 1 parameters",
    ".macro m\nm\n.endm\nm": "repetitions or macros more than 16 deep",
    "/* open": "the comment is not closed",
}


@pytest.mark.parametrize(("text", "message"), MESSAGES.items(), ids=range(len(MESSAGES)))
def test_a_mistake_gets_one_message_that_says_where_and_what(text, message):
    with pytest.raises(AsmError, match=rf"^a\.s:\d+: '.*': {re.escape(message)}$"):
        assemble(text, RI5CY, source="a.s")


def test_the_line_and_the_text_of_a_mistake_are_shown():
    with pytest.raises(AsmError, match=r"^a\.s:3: 'addi a0, a0, 5000': imm: 5000 is not from "):
        assemble(
            "nop\n  # comment\n x:  addi a0, a0, 5000 // here\n".replace("x:", ""),
            RI5CY,
            source="a.s",
        )
    long = "add " + "a" * 100
    with pytest.raises(AsmError, match=r"^source:1: 'add a{53}\.\.\.': "):
        assemble(long, RI5CY)


def test_operands_that_a_declaration_reserves_are_refused():
    extension = Extension("test")

    @extension.insn(
        "0000000 rs2 rs1 000 rd 0001011",
        "sum rd, rs1, rs2",
        "alu",
        constraint=lambda fields: fields["rs1"] != fields["rs2"],
    )
    def sum_(rs1, rs2):
        """Add different registers."""
        return rs1 + rs2

    isa = Isa(extension, name="test", loop_end="last")
    assert assemble("sum a0, a1, a2", isa).segments
    message = "source:1: 'sum a0, a1, a1': these operands are a reserved encoding"
    with pytest.raises(AsmError, match=f"^{message}$"):
        assemble("sum a0, a1, a1", isa)


def test_places_of_sections_are_checked():
    with pytest.raises(AsmError, match=r"^a\.s: sections \.text and \.data overlap$"):
        assemble("nop\nnop\n.data\n.word 1", RI5CY, text_base=0, data_base=4, source="a.s")
    with pytest.raises(
        AsmError,
        match=r"^a\.s: section \.text \(address 0xfffffffc, 8 bytes\) is not "
        r"within 32-bit addresses$",
    ):
        assemble("nop\nnop", RI5CY, text_base=0xFFFFFFFC, source="a.s")
    with pytest.raises(AsmError, match=r"^a\.s: no code at the entry, 0x1c008000$"):
        assemble("", RI5CY, source="a.s")


def test_all_mistakes_are_told_at_once_those_of_addresses_once_statements_are_right() -> None:
    text = "_start: foo a0\nnop\nla a0, nowhere\nbar:\naddi a0, a0, 1 2\n.unknown\n"
    with pytest.raises(AsmError) as error:
        assemble(text, RI5CY)
    told = str(error.value).splitlines()
    assert [line.split("'")[0] for line in told] == ["source:1: ", "source:5: ", "source:6: "]
    with pytest.raises(AsmError) as error:
        assemble("la a0, nowhere\nnop\naddi a0, a0, 5000\nj there\n", RI5CY)
    told = str(error.value).splitlines()
    assert [line.split("'")[0] for line in told] == ["source:1: ", "source:3: ", "source:4: "]


def test_a_mistake_of_a_macro_comes_after_those_before_it() -> None:
    with pytest.raises(AsmError) as error:
        assemble("foo a0\n.macro m x\nnop\n.endm\nm 1, 2\nbar\n", RI5CY)
    assert [line.split("'")[0] for line in str(error.value).splitlines()] == [
        "source:1: ",
        "source:5: ",
    ]
