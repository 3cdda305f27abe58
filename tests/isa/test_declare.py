"""Declarations and the instruction sets made of them, on small extensions of the tests' own."""

import re

import pytest

from isa.declare import Extension, Isa


def one(encoding, syntax, timing="alu", *, function=None, **options) -> Extension:
    """An extension of one instruction."""
    extension = Extension("test")

    def meaning(rs1, rs2):
        """Documented."""
        return rs1 + rs2

    extension.insn(encoding, syntax, timing, **options)(function or meaning)
    return extension


ADD = "0000000 rs2 rs1 000 rd 0110011"
ADDI = "imm[11:0] rs1 000 rd 0010011"


def addi(rs1, imm):
    return rs1 + imm


def isa_of(*extensions) -> Isa:
    return Isa(*extensions, name="test", loop_end="last")


def test_a_declaration_reads_its_parameters_and_takes_name_and_key_from_the_syntax():
    (insn,) = one(ADD, "x.add.b rd, rs1, rs2").insns
    assert (insn.name, insn.key, insn.extension) == ("x.add.b", "x_add_b", "test")
    assert (insn.reads, insn.writes, insn.doc) == (("rs1", "rs2"), ("rd",), "Documented.")
    assert insn.operand_names == ("rd", "rs1", "rs2")


def test_a_key_that_python_reserves_gets_an_underscore():
    (insn,) = one(ADD, "and rd, rs1, rs2").insns
    assert insn.key == "and_"


def test_a_decorated_function_stays_as_it_is():
    extension = Extension("test")
    assert extension.insn(ADDI, "addi rd, rs1, imm", "alu")(addi) is addi
    assert extension["addi"].function is addi


def test_a_shared_function_is_told_what_its_parameters_are():
    (insn,) = one(ADDI, "addi rd, rs1, imm", reads="rs1 imm").insns
    assert insn.reads == ("rs1", "imm")


def test_the_rounding_mode_of_an_encoding_without_one_is_that_of_frm():
    def round_it(fs1, rm):
        return fs1 + rm

    with_field = one("1100000 00000 fs1 rm rd 1010011", "f.x rd, fs1, rm", function=round_it)
    without = one("1100000 00000 fs1 101 rd 1010011", "f.x rd, fs1", function=round_it)
    assert with_field["f_x"].reads == ("fs1", "rm")
    assert without["f_x"].reads == ("fs1", "frm")


def test_the_same_meaning_can_have_another_encoding():
    original = one(ADD, "p.add rd, rs1, rs2")["p_add"]
    extension = Extension("other")
    extension.like("0000001 rs2 rs1 000 rd 0110011", "cv.add rd, rs1, rs2", original)
    insn = extension["cv_add"]
    assert (insn.function, insn.doc) == (original.function, original.doc)
    assert (insn.name, insn.extension, insn.encoding.match) == ("cv.add", "other", 0x02000033)


def test_operands_of_the_syntax_are_fields_whatever_surrounds_them():
    (insn,) = one(
        "uimmL[11:0] rs1 100 0111 L 0101011",
        "lp xL, (rs1!), pc+uimmL<<2",
        "hwloop",
        reads="rs1 uimmL",
        writes="lp_end",
    ).insns
    assert insn.operand_names == ("L", "rs1", "uimmL")


@pytest.mark.parametrize(
    ("encoding", "syntax", "timing", "options", "message"),
    [
        (
            ADD,
            "add rd, rs1, rs3",
            "alu",
            {},
            "add: operand 'rs3' is not in '0000000 rs2 rs1 000 rd 0110011'",
        ),
        (
            ADD,
            "add rd, rs1, rs2",
            "fast",
            {},
            "add: timing 'fast' is not one of alu, mul, mulh, div, divu, fpu, fdiv, fsqrt, load, "
            "store, elw, branch, jump, jalr, hwloop, csr, fence, fencei, system",
        ),
        (
            ADD,
            "add rd, rs1, rs2",
            "store",
            {"access": "u8"},
            "add: access is 'u8'; with timing store it is one of i8, i16, i32",
        ),
        (
            ADD,
            "add rd, rs1, rs2",
            "alu",
            {"access": "i32"},
            "add: access is 'i32'; with timing alu it is one of None",
        ),
        (
            ADD,
            "add rd, rs1, rs2",
            "alu",
            {"reads": "rs1 rs3"},
            "add: reads 'rs3', which is not a field or one of pc, size, csr_value, frm, boxed",
        ),
        (
            ADD,
            "add rd, rs1, rs2",
            "alu",
            {"reads": "rs1"},
            "add: reads rs1 for parameters rs1, rs2",
        ),
        (
            ADD,
            "add rd, rs1, rs2",
            "alu",
            {"writes": "rd overflow"},
            "add: writes 'overflow', which is not one of rd, fd, rs1, pc, addr, csr, flags, "
            "lp_start, lp_end, lp_count, -",
        ),
        (
            ADD,
            "add rd, rs1, rs2",
            "alu",
            {"writes": "fd"},
            "add: writes fd, which is not in '0000000 rs2 rs1 000 rd 0110011'",
        ),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(
    encoding, syntax, timing, options, message
):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        one(encoding, syntax, timing, **options)


def test_two_declarations_of_one_extension_need_two_keys():
    extension = one(ADD, "add rd, rs1, rs2")
    with pytest.raises(ValueError, match=r"^test: two instructions have the key add$"):
        extension.insn(ADDI, "add rd, rs1, imm", "alu")(addi)


def test_two_extensions_need_different_keys():
    with pytest.raises(ValueError, match=r"^isa test: two instructions have the key add$"):
        isa_of(
            one(ADD, "add rd, rs1, rs2"),
            one(ADDI, "add rd, rs1, imm", function=addi),
        )


def test_forms_of_one_mnemonic_are_found_together_in_order_of_declaration():
    isa = isa_of(
        one(ADD, "add rd, rs1, rs2"),
        one(ADDI, "add rd, rs1, imm", key="add_imm", function=addi),
    )
    assert [insn.key for insn in isa.by_name("add")] == ["add", "add_imm"]
    assert isa.by_name("sub") == ()
    assert isa["add_imm"] is isa.insns[1]
    assert "add" in isa
    assert "sub" not in isa
    assert repr(isa) == "<Isa test, 2 instructions>"
    assert repr(isa["add"]) == "<Insn add rd, rs1, rs2>"


def test_the_special_case_is_decoded_first_whatever_the_order_of_declaration():
    general = one(ADDI, "addi rd, rs1, imm", function=addi)
    special = one("imm[11:0] 00000 000 rd 0010011", "li rd, imm", reads="imm imm")
    for isa in (isa_of(general, special), isa_of(special, general)):
        assert isa.decode(0x00500093).insn.name == "li"
        assert isa.decode(0x00508093).insn.name == "addi"


def test_encodings_that_overlap_otherwise_are_refused():
    to_x0 = one("imm[11:0] rs1 000 00000 0010011", "hint rs1, imm", function=addi, writes="rs1")
    of_x0 = one("imm[11:0] 00000 000 rd 0010011", "li rd, imm", reads="imm imm")
    message = "isa test: encodings of 'hint rs1, imm' and 'li rd, imm' overlap"
    with pytest.raises(ValueError, match=f"^{message}$"):
        isa_of(to_x0, of_x0)


def test_one_encoding_cannot_mean_two_things():
    message = "'plus rd, rs1, rs2' and 'add rd, rs1, rs2' have the same encoding"
    with pytest.raises(ValueError, match=f"^{message}$"):
        isa_of(one(ADD, "add rd, rs1, rs2"), one(ADD, "plus rd, rs1, rs2"))


def test_a_constraint_makes_words_illegal_and_operands_refused():
    def is_even(operands):
        return operands["rd"] % 2 == 0

    isa = isa_of(one(ADD, "add rd, rs1, rs2", constraint=is_even))
    assert isa.decode(0x00208133).operands == {"rs2": 2, "rs1": 1, "rd": 2}
    assert isa.decode(0x002081B3) is None
    message = "add: {'rd': 3, 'rs1': 1, 'rs2': 2} is a reserved encoding"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        isa.encode(isa["add"], rd=3, rs1=1, rs2=2)


def test_what_cannot_be_encoded_is_said_with_the_name_of_the_instruction():
    isa = isa_of(one(ADDI, "addi rd, rs1, imm", function=addi))
    assert isa.encode(isa["addi"], rd=1, rs1=2, imm=-1) == 0xFFF10093
    with pytest.raises(ValueError, match=r"^addi: imm: 2048 is not from -2048 to 2047$"):
        isa.encode(isa["addi"], rd=1, rs1=2, imm=2048)


def compressed(row, syntax, expands) -> Isa:
    extension = one(ADDI, "addi rd, rs1, imm", function=addi)
    extension.compressed(row, syntax, expands=expands)
    return isa_of(extension)


def test_a_compressed_word_decodes_to_what_it_stands_for():
    isa = compressed("010 imm[5] rd imm[4:0] 01", "c.li rd, imm", "addi rd, zero, imm")
    decoded = isa.decode(0x557D)  # c.li a0, -1
    assert decoded.insn is isa["addi"]
    assert decoded.operands == {"rd": 10, "rs1": 0, "imm": -1}
    assert (decoded.size, decoded.alias.name) == (2, "c.li")
    assert isa.compressed == (isa["c_li"],)
    assert isa.insns == (isa["addi"],)


def test_an_expansion_may_fix_an_immediate():
    isa = compressed("000 000 rd rs1' 00", "c.mv rd, rs1", "addi rd, rs1, 0")
    assert isa.decode(0x0044).operands == {"rd": 2, "rs1": 9, "imm": 0}


@pytest.mark.parametrize("expands", ["subi rd, rd, imm", "addi rd, imm"])
def test_an_expansion_must_be_an_instruction_of_the_set_with_its_operands(expands):
    message = (
        f"isa test: expansion '{expands}' of c.li must name one instruction, with its operands"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        compressed("010 imm[5] rd imm[4:0] 01", "c.li rd, imm", expands)


def test_an_expansion_takes_fields_of_the_compressed_word():
    message = "c.li: operand 'rs2' is not in '010 imm[5] rd imm[4:0] 01'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compressed("010 imm[5] rd imm[4:0] 01", "c.li rd, imm", "addi rd, rs2, imm")


def test_a_hardware_loop_ends_at_or_after_its_last_instruction():
    message = "isa test: loop_end is 'first'; it is 'last' or 'after'"
    with pytest.raises(ValueError, match=f"^{message}$"):
        Isa(name="test", loop_end="first")
