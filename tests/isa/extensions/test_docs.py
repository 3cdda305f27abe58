"""Reference pages."""

import pytest

from isa.extensions.docs import find, page, search
from isa.extensions.profiles import profile

P_LW = """\
p.lw rd, imm(rs1!)
==================

Load word, then advance the pointer: rd = M[rs1]; rs1 += imm.

Encoding, 4 bytes

 31       20 19   15 14   12 11   7 6       0
+-----------+-------+-------+------+---------+
| imm[11:0] |  rs1  |  010  |  rd  | 0001011 |
+-----------+-------+-------+------+---------+

Fields

    imm    signed, -2048..2047
    rs1    x register
    rd     x register

Timing       load: memory access with a result
Access       i32 to rd
Reads        rs1 imm
Writes       addr rs1
Extension    xpulppostmod
Profiles     ri5cy-f, ri5cy-f-small-dot, ri5cy-x, ri5cy-x-small-dot
"""

C_LUI = """\
c.lui rd, nzimm>>12
===================

Expands to lui rd, nzimm>>12.

Encoding, 2 bytes

 15   13 12          11    7 6            2 1   0
+-------+-----------+-------+--------------+-----+
|  011  | nzimm[17] | rd!=2 | nzimm[16:12] |  01 |
+-------+-----------+-------+--------------+-----+

Fields

    nzimm    signed, -131072..126976, multiple of 4096, not 0
    rd       x register, not 2

Extension    rv32c
Profiles     ri5cy-f, ri5cy-f-small-dot, ri5cy-x, ri5cy-x-small-dot, cv32e40p-f, cv32e40p-f-small-
             dot, cv32e40p-x, cv32e40p-x-small-dot
"""

FSW = """\
c.fsw fs2, uimm(rs1)
====================

Expands to fsw fs2, uimm(rs1).

Encoding, 2 bytes

 15   13 12       10 9    7 6         5 4    2 1   0
+-------+-----------+------+-----------+------+-----+
|  111  | uimm[5:3] | rs1' | uimm[2|6] | fs2' |  00 |
+-------+-----------+------+-----------+------+-----+

Fields

    uimm    unsigned, 0..124, multiple of 4
    rs1     x register, x8..x15
    fs2     float register, f8..f15

Extension    rv32fc
Profiles     ri5cy-f, ri5cy-f-small-dot, ri5cy-x, ri5cy-x-small-dot, cv32e40p-f, cv32e40p-f-small-
             dot
"""


@pytest.mark.parametrize(("key", "text"), [("p_lw", P_LW), ("c_lui", C_LUI), ("c_fsw", FSW)])
def test_a_page_shows_syntax_meaning_bits_and_profiles(key, text):
    assert page(profile()[key]) == text


def test_a_page_of_an_instruction_without_operands_has_no_fields():
    text = page(profile()["ecall"])
    assert "Fields" not in text
    assert "Timing       system: trap, return from a trap, or sleep\nExtension    rv32i\n" in text


@pytest.mark.parametrize(
    ("key", "access"),
    [("sw", "i32 from rs2"), ("fsw", "i32 from fs2"), ("flw", "i32 to fd"), ("lbu", "u8 to rd")],
)
def test_a_memory_access_tells_its_width_and_its_register(key, access):
    assert f"\nAccess       {access}\n" in page(profile()[key])


def test_every_page_fits_100_columns_and_says_what_the_instruction_does():
    for core in ("ri5cy", "cv32e40p"):
        isa = profile(core, small_floats=True, dot_products=True)
        for insn in (*isa.insns, *isa.compressed):
            lines = page(insn).splitlines()
            assert max(map(len, lines)) <= 100, insn
            assert len(lines[3]) > 10, insn


def test_all_forms_of_a_mnemonic_are_found_in_any_case():
    assert [insn.key for insn in find("P.LW")] == ["p_lw", "p_lw_rrpost", "p_lw_rr"]
    assert [insn.key for insn in find("p_lw_rr")] == ["p_lw_rr"]
    assert [insn.name for insn in find("cv.addn")] == ["cv.addN"]
    assert find("frobnicate") == ()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("P.MAC", ["p.mac"]),
        ("lp.set", ["lp.setup", "lp.setupi"]),
        ("p.maac", ["p.mac", "p.macs", "p.macu"]),
        ("frobnicate", []),
    ],
)
def test_a_name_leads_to_the_closest_mnemonics(name, found):
    assert search(name) == found
