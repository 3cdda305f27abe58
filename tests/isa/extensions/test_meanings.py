"""Meanings of the integer instructions, against vectors and independent formulations.

The vectors are those of PULP's regression tests: operands and results, hexadecimal; immediates as
the assembler has them.
"""

import csv
import gzip
from fractions import Fraction
from pathlib import Path

import pytest

from isa.extensions.profiles import profile
from isa.words import i32, u32
from tests.isa.extensions.meanings import EDGES, operands

RI5CY, CV32E40P = profile("ri5cy"), profile("cv32e40p")
VECTORS = Path(__file__).parents[1] / "data" / "pulp_regression_xpulpv2.csv.gz"


def vectors() -> list[dict[str, str]]:
    with gzip.open(VECTORS, "rt") as lines:
        return list(csv.DictReader(lines))


def result_of(row: dict[str, str]) -> int:
    insn = BY_LOWER_NAME[row["mnemonic"].lower()]
    values = {"rs1": word(row["rs1"]), "rs2": word(row["rs2"]), "rd": word(row["rd_in"])}
    immediates = [int(row[name], 0) for name in ("imm1", "imm2") if row[name]]
    names = [name for name in insn.operand_names if name not in values]
    values |= zip(names, immediates, strict=True)
    return u32(insn.function(*(values[name] for name in insn.reads)))


BY_LOWER_NAME = {insn.name.lower(): insn for insn in RI5CY.insns}


def word(text: str) -> int:
    return i32(int(text or "0", 16))


def test_all_vectors_give_the_expected_results():
    rows = [row for row in vectors() if row["mnemonic"] != "p.bitrev"]
    assert len(rows) == 6938
    wrong = [row for row in rows if result_of(row) != int(row["expected"], 16)]
    assert wrong == []


def test_the_vectors_of_bit_reversal_cannot_be_right():
    """Reversal moves bits and makes none: as many are set as in rs1 << imm1. Theirs are fewer."""
    rows = [row for row in vectors() if row["mnemonic"] == "p.bitrev"]
    assert len(rows) == 3
    for row in rows:
        shifted = u32(word(row["rs1"]) << int(row["imm1"]))
        expected = int(row["expected"], 16)
        assert shifted & 3 == 0  # nor is one lost, in groups of three
        assert expected.bit_count() < shifted.bit_count()
        assert result_of(row).bit_count() == shifted.bit_count()


@pytest.mark.parametrize(("radix", "expected"), [(0, 0x0CC9A526), (1, 0x0CC65A19), (2, 0x216B244B)])
def test_bit_reversal_gives_the_examples_of_the_manual(radix, expected):
    for insn in (RI5CY["p_bitrev"], CV32E40P["cv_bitrev"]):
        arguments = {"rs1": i32(0xC64A5933), "Is2": 4, "Is3": radix}
        assert insn.function(*(arguments[name] for name in insn.reads)) == expected


def test_bit_reversal_of_groups_of_four_is_that_of_single_bits():
    function = RI5CY["p_bitrev"].function
    for value in EDGES:
        digits = format(u32(value), "032b")
        assert function(value, 0, 3) == function(value, 0, 0) == int(digits[::-1], 2)


# RV32I and RV32M on Python's integers, as the manual puts it


def truncated(a: int, b: int) -> int:
    quotient = Fraction(a, b)
    return quotient.numerator // quotient.denominator if quotient >= 0 else -(-a // b)


BASE = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sll": lambda a, b: a * 2 ** (b % 32),
    "srl": lambda a, b: (a % 2**32) // 2 ** (b % 32),
    "sra": lambda a, b: a // 2 ** (b % 32),
    "slt": lambda a, b: 1 if a < b else 0,
    "sltu": lambda a, b: 1 if a % 2**32 < b % 2**32 else 0,
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: a * b // 2**32,
    "mulhsu": lambda a, b: a * (b % 2**32) // 2**32,
    "mulhu": lambda a, b: (a % 2**32) * (b % 2**32) // 2**32,
    "div": lambda a, b: truncated(a, b) if b else -1,
    "rem": lambda a, b: a - b * truncated(a, b) if b else a,
    "divu": lambda a, b: (a % 2**32) // (b % 2**32) if b else 2**32 - 1,
    "remu": lambda a, b: (a % 2**32) % (b % 2**32) if b else a,
    "p_min": lambda a, b: sorted([a, b])[0],
    "p_max": lambda a, b: sorted([a, b])[1],
    "p_minu": lambda a, b: sorted([a % 2**32, b % 2**32])[0],
    "p_maxu": lambda a, b: sorted([a % 2**32, b % 2**32])[1],
    "p_slet": lambda a, b: 1 if a <= b else 0,
    "p_sletu": lambda a, b: 1 if a % 2**32 <= b % 2**32 else 0,
    "p_clipr": lambda a, b: sorted([-b - 1, a, b])[1] if b >= 0 else None,
    "p_clipur": lambda a, b: sorted([0, a, b])[1] if b >= 0 else None,
    "cv_clipr": lambda a, b: sorted([-(b % 2**31) - 1, a, b % 2**31])[1],
    "cv_clipur": lambda a, b: sorted([0, a, b % 2**31])[1],
}


@pytest.mark.parametrize("key", BASE)
def test_two_registers_make_what_python_integers_make(key):
    function = (CV32E40P if key.startswith("cv") else RI5CY)[key].function
    for a in EDGES:
        for b in EDGES:
            expected = BASE[key](a, b)
            if expected is not None:
                assert u32(function(a, b)) == expected % 2**32, (a, b)


def test_division_keeps_quotient_and_remainder_together():
    for a in EDGES:
        for b in EDGES:
            quotient, remainder = RI5CY["div"].function(a, b), RI5CY["rem"].function(a, b)
            assert (a - quotient * b - remainder) % 2**32 == 0
            if b:
                assert abs(remainder) < abs(b)
                assert remainder == 0 or (remainder < 0) == (a < 0)


@pytest.mark.parametrize(
    ("key", "arguments", "expected"),
    [
        ("p_clipr", (5, -3), -3),  # bounds 2 .. -3: low first, then high
        ("p_clipr", (1, -3), 2),
        ("p_clipur", (5, -3), -3),
        ("p_clipur", (-5, -3), 0),
        ("p_clip", (-7, 0), -1),
        ("p_clip", (7, 0), 0),
        ("p_clip", (-129, 8), -128),
        ("p_clip", (128, 8), 127),
        ("p_clip", (-0x80000000, 31), -0x40000000),
        ("p_clipu", (-1, 8), 0),
        ("p_clipu", (300, 8), 127),
        ("p_clipu", (300, 0), 0),
        ("p_abs", (-0x80000000,), 0x80000000),
        ("p_abs", (-5,), 5),
        ("p_clb", (0,), 0),
        ("p_clb", (-1,), 31),
        ("p_clb", (1,), 30),
        ("p_clb", (-0x80000000,), 0),
        ("p_ff1", (0,), 32),
        ("p_fl1", (0,), 32),
        ("p_fl1", (-1,), 31),
        ("p_extract", (i32(0xF0000000), 31, 28), -1),
        ("p_extractu", (i32(0xF0000000), 31, 28), 15),
        ("p_extract", (-1, 31, 0), -1),
        ("p_insert", (0, -1, 31, 28), 0xF0000000),
        ("p_insert", (-1, 0, 3, 4), -1 - 0xF0),
        ("p_bclr", (-1, 31, 28), 0x0FFFFFFF),
        ("p_bset", (0, 31, 28), 0xF0000000),
        ("p_bset", (0, 0, 0), 1),
        ("jal", (100, 2, -4), (102, 96)),
        ("jalr", (100, 4, 7, 2), (104, 8)),
        ("lui", (-4096,), -4096),
        ("auipc", (0x1C000000, 0x1000), 0x1C001000),
        ("csrrs", (0b1100, 0b1010), (0b1100, 0b1110)),
        ("csrrc", (0b1100, 0b1010), (0b1100, 0b0100)),
        ("csrrw", (0b1100, 0b1010), (0b1100, 0b1010)),
        ("csrrwi", (0b1100, 31), (0b1100, 31)),
        ("csrrsi", (0b1100, 1), (0b1100, 0b1101)),
        ("csrrci", (0b1100, 4), (0b1100, 0b1000)),
        ("p_beqimm", (100, 4, -3, -3, 16), 116),
        ("p_beqimm", (100, 4, -3, 3, 16), 104),
        ("p_bneimm", (100, 4, -3, 3, 16), 116),
        ("p_lw", (100, -4), (100, 96)),
        ("p_lw_rr", (100, -4), 96),
        ("p_sw_rrpost", (100, -4), (100, 96)),
        ("lp_starti", (100, 8), 108),
        ("lp_setup", (100, 7, 8), (104, 108, 7)),
        ("lp_setupi", (100, 7, 8), (104, 108, 7)),
        ("p_mac", (1, -2, 3), -5),
        ("p_msu", (1, -2, 3), 7),
        ("pv_abs_h", (i32(0x8000FFFF),), 0x80000001),
        ("pv_abs_b", (i32(0x80FF7F01),), 0x80017F01),
        ("pv_insert_b", (0x11223344, 0xFF, 3), 0xFF223344),
        ("pv_insert_h", (0x11223344, 0xFF, 1), 0x00FF3344),
    ],
)
def test_meanings_at_their_edges(key, arguments, expected):
    assert wrapped(RI5CY[key].function(*arguments)) == wrapped(expected)


def wrapped(result):
    return tuple(map(u32, result)) if isinstance(result, tuple) else u32(result)


BRANCHES = {
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: a < b,
    "bge": lambda a, b: a >= b,
    "bltu": lambda a, b: a % 2**32 < b % 2**32,
    "bgeu": lambda a, b: a % 2**32 >= b % 2**32,
}


@pytest.mark.parametrize("key", BRANCHES)
def test_branches_go_to_the_target_or_after_themselves(key):
    function = RI5CY[key].function
    for a in EDGES:
        for b in EDGES:
            for size in (2, 4):
                expected = 1000 - 64 if BRANCHES[key](a, b) else 1000 + size
                assert function(1000, size, a, b, -64) == expected


# Immediate forms are register forms


@pytest.mark.parametrize(
    ("immediate", "register"),
    [
        ("addi", "add"),
        ("slti", "slt"),
        ("sltiu", "sltu"),
        ("xori", "xor"),
        ("ori", "or_"),
        ("andi", "and_"),
        ("slli", "sll"),
        ("srli", "srl"),
        ("srai", "sra"),
    ],
)
def test_an_immediate_is_a_register_with_that_value(immediate, register):
    for arguments in operands(RI5CY[immediate], 200):
        expected = RI5CY[register].function(*arguments)
        assert u32(RI5CY[immediate].function(*arguments)) == u32(expected)


class Int64(int):
    """An integer that refuses to become one of more than 64 bits, as a compiled one would wrap."""


def checked(name: str):
    operation = getattr(int, name)

    def method(self, *others):
        result = operation(self, *others)
        assert -(1 << 63) <= result < 1 << 63, f"{name} of {(self, *others)}"
        if name.endswith("shift__"):
            amount = self if name in ("__rlshift__", "__rrshift__") else others[0]
            assert 0 <= amount < 64, f"{name} of {(self, *others)}"
        return Int64(result)

    return method


BINARY = ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
for name in (*BINARY, *(f"r{name}" for name in BINARY), "neg", "invert", "abs"):
    setattr(Int64, f"__{name}__", checked(f"__{name}__"))


def test_every_intermediate_result_fits_64_bits():
    small = profile("ri5cy", small_floats=True, dot_products=True)
    for insn in dict.fromkeys((*small.insns, *CV32E40P.insns)):
        for arguments in operands(insn, 30) if insn.writes else ():
            result = insn.function(*map(Int64, arguments))
            plain = insn.function(*arguments)
            assert result == plain, (insn, arguments)
