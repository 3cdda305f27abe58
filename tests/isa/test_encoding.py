"""Encodings: rows of the manual's listing."""

import random
import re

import pytest

from isa.encoding import Encoding, Field

BRANCH = "imm[12|10:5] rs2 rs1 100 imm[4:1|11] 1100011"  # blt
C_LUI = "011 nzimm[17] rd!={0,2} nzimm[16:12] 01"
C_LW = "010 uimm[5:3] rs1' uimm[2|6] rd' 00"
FADD_S = "0000000 fs2 fs1 rm fd 1010011"


def test_fixed_bits_become_mask_and_match():
    encoding = Encoding(BRANCH)
    assert (encoding.mask, encoding.match, encoding.size) == (0x707F, 0x4063, 4)


def test_ignored_bits_are_in_neither_mask_nor_fields():
    encoding = Encoding("uimmL[12:1] ----- 000 0000 L 1111011")
    assert (encoding.mask, encoding.match) == (0x7F7F, 0x7B)
    assert encoding.operands(0xFFFFFFFF) == {"uimmL": 0x1FFE, "L": 1}


def test_an_immediate_is_gathered_from_where_the_listing_puts_its_bits():
    imm = Encoding(BRANCH).fields["imm"]
    assert imm.pieces == ((31, 1, 12), (25, 6, 5), (8, 4, 1), (7, 1, 11))
    word = 0xFE42_CEE3  # blt t0, tp, .-4, by GNU as
    assert Encoding(BRANCH).operands(word) == {"imm": -4, "rs2": 4, "rs1": 5}


def test_names_decide_kind_and_signedness():
    fields = Encoding("imm[11:5] fs2 rs1 010 imm[4:0] 0100111").fields
    assert {name: (field.kind, field.signed) for name, field in fields.items()} == {
        "imm": ("int", True),
        "fs2": ("f", False),
        "rs1": ("x", False),
    }
    assert Encoding("csr uimm[4:0] 101 rd 1110011").fields["csr"].kind == "csr"
    assert Encoding(FADD_S).fields["rm"].kind == "rm"


def test_primed_registers_are_x8_to_x15():
    encoding = Encoding(C_LW)
    assert encoding.size == 2
    assert encoding.fields["rd"].range == (8, 15)
    assert encoding.operands(0x4398) == {"uimm": 0, "rs1": 15, "rd": 14}  # c.lw a4, 0(a5)


def test_a_word_with_an_excluded_value_does_not_match():
    encoding = Encoding(C_LUI)
    assert encoding.matches(0x6505)  # c.lui a0, 1
    assert not encoding.matches(0x6105)  # rd = 2: c.addi16sp
    assert not encoding.matches(0x6005)  # rd = 0
    assert not encoding.matches(0x6501)  # nzimm = 0


@pytest.mark.parametrize("rm", range(8))
def test_rounding_modes_5_and_6_are_reserved(rm):
    word = 0x00000053 | rm << 12
    assert Encoding(FADD_S).matches(word) == (rm not in (5, 6))


@pytest.mark.parametrize("row", [BRANCH, C_LUI, C_LW, FADD_S])
def test_encoding_and_reading_operands_are_inverse(row):
    encoding = Encoding(row)
    generator = random.Random(row)
    for _ in range(200):
        operands = {name: some_value(field, generator) for name, field in encoding.fields.items()}
        word = encoding.encode(**operands)
        assert encoding.matches(word)
        assert encoding.operands(word) == operands


def some_value(field: Field, generator: random.Random) -> int:
    low, high = field.range
    values = [value for value in range(low, high + 1, field.step) if value not in field.excluded]
    return generator.choice(values)


def test_extremes_of_a_field_are_representable_and_what_lies_beyond_is_not():
    imm = Encoding(BRANCH).fields["imm"]
    assert imm.range == (-4096, 4094)
    for value in imm.range:
        assert imm.extract(imm.insert(value)) == value
    for value in (-4098, 4096, 3):
        with pytest.raises(ValueError):
            imm.insert(value)


def test_columns_are_the_tokens_with_their_bits():
    assert Encoding("csr rs1 001 rd 1110011").columns == (
        ("csr", 31, 20),
        ("rs1", 19, 15),
        ("001", 14, 12),
        ("rd", 11, 7),
        ("1110011", 6, 0),
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "rs1 000 rd 0110011",
            "encoding 'rs1 000 rd 0110011': 20 bits; an instruction has 16 or 32",
        ),
        (
            "0000000 rs2 rs1 000 rd 0110010",
            "encoding '0000000 rs2 rs1 000 rd 0110010': 32 bits end in a 7-bit opcode and that in "
            "11, 16 bits in 00, 01 or 10",
        ),
        (
            "0000000 rs2 rs1 rm rd shamt[4:0] 11",
            "encoding '0000000 rs2 rs1 rm rd shamt[4:0] 11': 32 bits end in a 7-bit opcode and "
            "that in 11, 16 bits in 00, 01 or 10",
        ),
        (
            "imm[11:0] base 000 rd 0010011",
            "encoding 'imm[11:0] base 000 rd 0010011': cannot read 'base'; write bits, name, "
            "name[high:low] or name!=value",
        ),
        (
            "imm[11:6] imm[4:0] 0 rs1 000 rd 0010011",
            "encoding 'imm[11:6] imm[4:0] 0 rs1 000 rd 0010011': bits [0, 1, 2, 3, 4, 6, 7, 8, 9, "
            "10, 11] of imm are not each bit from the lowest to the highest, once",
        ),
        (
            "imm[5:0] imm[5:0] rs1 000 rd 0010011",
            "encoding 'imm[5:0] imm[5:0] rs1 000 rd 0010011': bits [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, "
            "5, 5] of imm are not each bit from the lowest to the highest, once",
        ),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(row, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Encoding(row)


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (C_LW, {"rd": 7, "rs1": 8, "uimm": 0}, "rd: 7 is not from 8 to 15"),
        (C_LW, {"rd": 8, "rs1": 8, "uimm": 3}, "uimm: 3 is not a multiple of 4 from 0 to 124"),
        (
            C_LUI,
            {"rd": 2, "nzimm": 4096},
            "rd: 2 is not from 0 to 31 other than 0 and 2",
        ),
        (
            C_LUI,
            {"rd": 1, "nzimm": 0},
            "nzimm: 0 is not a multiple of 4096 from -131072 to 126976 other than 0",
        ),
        (
            BRANCH,
            {"rs1": 1, "rs2": 2, "imm": 4096},
            "imm: 4096 is not a multiple of 2 from -4096 to 4094",
        ),
        (BRANCH, {"rs1": 1, "rs2": 2}, "imm: missing operand; there are imm, rs2, rs1"),
        (C_LUI, {"rs1": 1}, "rs1: not an operand; there are nzimm, rd"),
    ],
)
def test_operands_that_do_not_fit_are_named_with_their_range(row, operands, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Encoding(row).encode(**operands)
