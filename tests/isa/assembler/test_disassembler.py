"""The disassembler: what it prints assembles to the same words, and agrees with GNU objdump."""

import random
import re
import shutil
import subprocess
from collections.abc import Iterable

import pytest

from isa.assembler.asm import assemble, disassemble, listing
from isa.assembler.names import csr_numbers
from isa.declare import Isa
from isa.extensions.profiles import profile
from isa.program import LineRange, LineTable, Program, Segment, Symbol

OBJDUMP = "riscv64-unknown-elf-objdump"
BASE = 0x1C008000
PROFILES = [
    ("ri5cy", "f", True),
    ("ri5cy", "x", True),
    ("cv32e40p", "f", True),
    ("cv32e40p", "x", True),
]


def assemble_words(words: list[int], isa: Isa) -> None:
    """Disassemble words that follow each other, assemble the text, compare."""
    address, texts, data = BASE, [], b""
    for word in words:
        size = 4 if word & 3 == 3 else 2
        texts.append(disassemble(word, isa, address))
        data += word.to_bytes(size, "little")
        address += size
    program = assemble("\n".join(texts), isa, text_base=BASE)
    (segment,) = program.segments
    if segment.data != data:
        position = next(
            i for i, (a, b) in enumerate(zip(segment.data, data, strict=True)) if a != b
        )
        program = Program((Segment(BASE, data, len(data), executable=True),), BASE)
        pytest.fail(f"differs near 0x{BASE + position:x}: {listing(program, isa)[-500:]}")


def in_batches(words: Iterable[int]) -> Iterable[list[int]]:
    batch = []
    for word in words:
        batch.append(word if word & 3 == 3 else word & 0xFFFF)
        if len(batch) == 10_000:
            yield batch
            batch = []
    if batch:
        yield batch


@pytest.mark.parametrize(("core", "registers", "small_floats"), PROFILES)
def test_every_instruction_with_random_operands_survives_text(
    core, registers, small_floats, request
):
    isa = profile(core, registers, small_floats, dot_products=True)
    rng = random.Random(1)
    each = 200 if request.config.getoption("--full") else 10
    words = []
    for insn in (*isa.insns, *isa.compressed):
        encoding = insn.encoding
        for _ in range(each):
            word = rng.getrandbits(8 * encoding.size) & ~encoding.mask | encoding.match
            words.append(word)
    for batch in in_batches(words):
        assemble_words(batch, isa)


@pytest.mark.parametrize(("core", "registers", "small_floats"), PROFILES)
def test_random_words_survive_text(core, registers, small_floats, request):
    isa = profile(core, registers, small_floats, dot_products=True)
    count = 1_000_000 if request.config.getoption("--full") else 4_000
    rng = random.Random(2)
    for batch in in_batches(rng.getrandbits(32) for _ in range(count)):
        assemble_words(batch, isa)


def test_every_16_bit_word_survives_text(request):
    isa = profile("ri5cy")
    step = 1 if request.config.getoption("--full") else 7
    words = [word for word in range(0, 1 << 16, step) if word & 3 != 3]
    for batch in in_batches(words):
        assemble_words(batch, isa)


TEXTS = {  # word -> text at address 0x1c008000
    0x00000013: "nop",
    0x00500513: "li a0, 5",
    0x00058513: "mv a0, a1",
    0xFFF5C513: "not a0, a1",
    0x00008067: "ret",
    0x0000006F: "j 0x1c008000",
    0xFE0604E3: "beqz a2, 0x1c007fe8",
    0x000500E7: "jalr a0",
    0x004580E7: "jalr ra, 4(a1)",
    0xFFFFF537: "lui a0, 0xfffff",
    0xF14022F3: "csrr t0, mhartid",
    0x3002D073: "csrwi mstatus, 5",
    0x7C002573: "csrr a0, lpstart0",
    0x5A502573: "csrr a0, 0x5a5",
    0x0FF0000F: "fence",
    0x0330000F: "fence rw, rw",
    0x0010000F: "fence 0, w",
    0x8330000F: ".word 0x8330000f  # fence rw, rw",
    0x00B57553: "fadd.s fa0, fa0, fa1",
    0x00B51553: "fadd.s fa0, fa0, fa1, rtz",
    0x20B58553: "fmv.s fa0, fa1",
    0x20C58553: "fsgnj.s fa0, fa1, fa2",
    0x0045A50B: "p.lw a0, 4(a1!)",
    0x0085C07B: "lp.setup x0, a1, 0x1c008010",
    0x00000000: ".short 0x0000",
    0x00000001: "c.nop",
    0x00000005: ".short 0x0005  # c.nop",
    0x00000505: "c.addi a0, 1",
    0x00006105: "c.addi16sp sp, 32",
    0x00008082: "c.jr ra",
    0x0000A001: "c.j 0x1c008000",
    0xFFFFFFFF: ".word 0xffffffff",
}


@pytest.mark.parametrize(("word", "text"), TEXTS.items())
def test_a_word_is_written_as_gnu_as_writes_it(word, text):
    assert disassemble(word, profile("ri5cy"), 0x1C008000) == text


def test_floats_in_x_registers_have_their_names():
    assert disassemble(0x00B57553, profile("ri5cy", "x")) == "fadd.s a0, a0, a1"


def test_without_an_address_targets_are_relative():
    assert disassemble(0xFE0604E3, profile("ri5cy")) == "beqz a2, .-24"
    assert disassemble(0x0085C07B, profile("ri5cy")) == "lp.setup x0, a1, .+16"


def test_a_target_is_named_after_the_instruction():
    program = Program(
        (Segment(0x1C008000, bytes(64), 64, executable=True),),
        0x1C008000,
        (Symbol("f", 0x1C008000),),
    )
    text = disassemble(0xFE0604E3, profile("ri5cy"), 0x1C008020, program.place)
    assert text == "beqz a2, 0x1c008008  # f+0x8"
    text = disassemble(0xFE0604E3, profile("ri5cy"), 0x20, program.place)
    assert text == "beqz a2, 0x8"


def test_the_high_half_of_a_16_bit_word_does_not_count():
    assert disassemble(0xFFFF0505, profile("ri5cy")) == "c.addi a0, 1"


LOOPS = """
        .globl _start
_start: lp.setupi x1, 5, 1f
        lp.setup x0, a1, 2f
2:      c.addi a0, 1
1:      nop
        lp.endi x0, 4f
        lp.starti x0, 3f
        lp.count x0, a0
3:      add a0, a0, a0
4:      ret
"""
LISTED = """\
loops.s: entry _start

section .text

1c008000 <_start>:
# loops.s:3
1c008000: 0052d0fb    lp.setupi x1, 5, 0x1c00800a  # _start+0xa
# loops.s:4
1c008004: 0025c07b │  lp.setup x0, a1, 0x1c008008  # _start+0x8
# loops.s:5
1c008008: 0505     │└ c.addi a0, 1
# loops.s:6
1c00800a: 00000013 └  nop
# loops.s:7
1c00800e: 0080107b    lp.endi x0, 0x1c00801e  # _start+0x1e
# loops.s:8
1c008012: 0040007b    lp.starti x0, 0x1c00801a  # _start+0x1a
# loops.s:9
1c008016: 0005207b    lp.count x0, a0
# loops.s:10
1c00801a: 00a50533  │ add a0, a0, a0
# loops.s:11
1c00801e: 00008067  └ ret
"""


def test_a_listing_has_symbols_source_lines_and_bars_at_hardware_loops():
    isa = profile("ri5cy")
    program = assemble(LOOPS, isa, source="loops.s")
    assert listing(program, isa) == LISTED
    again = Program.from_elf(program.to_elf(), "loops.s")
    assert listing(again, isa) == LISTED


def test_a_loop_of_cv32e40p_ends_before_its_end_address():
    isa = profile("cv32e40p")
    source = "cv.setup 0, a0, 1f\nadd a0, a0, a0\nadd a1, a1, a1\n1: nop"
    text = listing(assemble(source, isa), isa)
    bars = [re.search(r"[0-9a-f]{8}: \w{8} (..)", line) for line in text.splitlines()]
    assert [bar[1] for bar in bars if bar] == ["  ", " │", " └", "  "]


def test_a_program_that_names_no_sections_is_listed_by_segment():
    program = Program(
        (Segment(0x1000, bytes.fromhex("13000000 0100 ff"), 8, executable=True),),
        0x1000,
        lines=LineTable([LineRange(0x1000, 0x1002, "k.py", 7)]),
        name="k",
    )
    assert listing(program, profile("ri5cy")) == (
        "k: entry 0x00001000\n\nsection .text\n# k.py:7\n"
        "00001000: 00000013    nop\n00001004: 0001        c.nop\n"
    )


# Against GNU objdump

TARGETS = "beq bne blt bge bltu bgeu jal c.j c.jal c.beqz c.bnez".split()
UNKNOWN_TO_GNU = re.compile(r"\.(word|4byte|2byte)")
SPELT_BY_GNU = {"c.addi zero,0": "c.nop", "c.unimp": ".short 0"}


def gnu_texts(path: str) -> dict[int, tuple[int, str]]:
    """objdump's word and text by address, without pseudo-instructions, targets as numbers."""
    command = [OBJDUMP, "-d", "-M", "no-aliases", path]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    texts = {}
    for address, word, text in re.findall(r"^ *(\w+):\t(\w+) *\t([^<#\n]*)", report, re.M):
        mnemonic, _, operands = text.strip().partition("\t")
        if mnemonic in TARGETS:
            operands = re.sub(r"(\w+)$", r"0x\1", operands)
        texts[int(address, 16)] = int(word, 16), f"{mnemonic} {operands}".strip()
    return texts


def plain(text: str, csrs: dict[str, int]) -> str:
    """Text without spaces after commas, numbers in decimal, CSRs of PULP by number."""
    text = text.replace(", ", ",").strip()
    text = re.sub(r"0x(\w+)", lambda digits: str(int(digits[1], 16)), text)
    return re.sub(r"\b[a-z]\w+\b", lambda name: str(csrs.get(name[0], name[0])), text)


@pytest.mark.skipif(
    not shutil.which(OBJDUMP), reason="binutils-riscv64-unknown-elf is not installed"
)
def test_instructions_of_rv32imfc_read_as_in_gnu_objdump(elfs, tmp_path, request):
    names = sorted(elfs) if request.config.getoption("--full") else sorted(elfs)[::8]
    compared = 0
    for name in names:
        path = tmp_path / "a.elf"
        path.write_bytes(elfs[name])
        has_x = name.startswith(("pulp_open/", "cv32e40p/fzz", "cv32e40p/mmz"))
        isa = profile("ri5cy", "x" if has_x else "f")
        csrs = csr_numbers(isa)
        for address, (word, gnu) in gnu_texts(str(path)).items():
            if not UNKNOWN_TO_GNU.match(gnu):
                expected = plain(gnu, csrs)
                ours = plain(disassemble(word, isa, address, aliases=False), csrs)
                assert ours == SPELT_BY_GNU.get(expected, expected), f"{name}: 0x{address:x}"
                compared += 1
    assert compared > (69_000 if request.config.getoption("--full") else 8_000)
