"""Meanings of the integer instructions, against vectors and independent formulations.

The vectors are those of PULP's regression tests: operands and results, hexadecimal; immediates as
the assembler has them.
"""

import csv
import gzip
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from isa.declare import Insn
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


@pytest.mark.parametrize(
    ("key", "arguments", "expected"),
    [
        ("cv_starti", (100, 3), 112),
        ("cv_endi", (100, 3), 112),
        ("cv_start", (103,), 100),
        ("cv_end", (103,), 100),
        ("cv_counti", (7,), 7),
        ("cv_count", (-1,), -1),
        ("cv_setup", (100, 7, 4), (104, 116, 7)),
        ("cv_setupi", (100, 7, 4), (104, 116, 7)),
        ("cv_beqimm", (100, 4, -3, -3, 16), 116),
        ("cv_lw", (100, -4), (100, 96)),
        ("cv_clipr", (0x0000FFFF, i32(0x93130DB0)), 0x0000FFFF),
        ("cv_clipr", (1, -0x80000000), 0),
    ],
)
def test_core_v_differs_in_its_loops_and_in_clipping_by_a_negative_bound(key, arguments, expected):
    assert wrapped(CV32E40P[key].function(*arguments)) == wrapped(expected)


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


FIELD_FORMS = ["extract", "extractu", "bclr", "bset", "insert"]


@pytest.mark.parametrize("verb", FIELD_FORMS)
def test_bit_fields_are_slices_of_a_string_of_bits(verb):
    by_immediate, by_register = RI5CY[f"p_{verb}"], RI5CY[f"p_{verb}r"]
    for *registers, Is3, Is2 in operands(by_immediate, 400):
        expected = sliced(verb, *registers, Is3=Is3, Is2=Is2)
        assert u32(by_immediate.function(*registers, Is3, Is2)) == expected
        rs2 = i32(0xABCDEC00 | Is3 << 5 | Is2)
        assert u32(by_register.function(*registers, rs2)) == expected


def sliced(verb: str, *registers: int, Is3: int, Is2: int) -> int:
    digits = [format(u32(value), "032b") for value in registers]
    begin, end = max(31 - Is2 - Is3, 0), 32 - Is2
    field = digits[-1][begin:end]
    if verb == "extractu":
        return int(field, 2)
    if verb == "extract":
        return int(field.rjust(32, field[0]), 2)
    if verb == "insert":
        inserted = digits[1][32 - (end - begin) :]
        return int(digits[0][:begin] + inserted + digits[0][end:], 2)
    filler = "1" if verb == "bset" else "0"
    return int(digits[0][:begin] + filler * (end - begin) + digits[0][end:], 2)


@pytest.mark.parametrize("verb", ["add", "sub"])
@pytest.mark.parametrize("suffix", ["N", "uN", "RN", "uRN"])
def test_normalized_sums_are_quotients_by_a_power_of_two(verb, suffix):
    sign = 1 if verb == "add" else -1
    immediate, register = RI5CY[f"p_{verb}{suffix}"], RI5CY[f"p_{verb}{suffix}r"]
    for rs1, rs2, Is3 in operands(immediate, 400):
        expected = normalized(rs1 + sign * rs2, Is3, "u" in suffix, "R" in suffix)
        assert u32(immediate.function(rs1, rs2, Is3)) == expected
        assert u32(register.function(rs1, rs2, -32 + Is3)) == expected


def normalized(total: int, shift: int, is_unsigned: bool, is_rounded: bool) -> int:
    """The total, plus half a unit, modulo 2^32; divided, downwards."""
    if is_rounded and shift:
        total += 2 ** (shift - 1)
    total %= 2**32
    if not is_unsigned and total >= 2**31:
        total -= 2**32
    return total // 2**shift % 2**32


@pytest.mark.parametrize("verb", ["mul", "mac"])
@pytest.mark.parametrize("half", ["", "hh"])
@pytest.mark.parametrize("sign", ["s", "u"])
def test_half_word_products_are_normalized_like_sums(verb, half, sign):
    kind = np.uint16 if sign == "u" else np.int16
    for suffix in ("", "N", "RN"):
        insn = RI5CY[f"p_{verb}{half}{sign}{suffix}"]
        for arguments in operands(insn, 300):
            values = dict(zip(insn.reads, arguments, strict=True))
            a, b = (
                int(np.array([values[name]], dtype=np.int32).view(kind)[1 if half else 0])
                for name in ("rs1", "rs2")
            )
            total = a * b + values.get("rd", 0)
            expected = normalized(total, values.get("Is3", 0), sign == "u", suffix == "RN")
            assert u32(insn.function(*arguments)) == expected


# SIMD, on NumPy's vectors

SIGNED = {".h": np.int16, ".b": np.int8}
UNSIGNED = {".h": np.uint16, ".b": np.uint8}


def modulo(b: np.ndarray) -> np.ndarray:
    return b % (8 * b.itemsize)


def all_ones(condition: np.ndarray) -> np.ndarray:
    return np.where(condition, -1, 0)


ELEMENTWISE = {
    "add": (SIGNED, lambda a, b: a + b),
    "sub": (SIGNED, lambda a, b: a - b),
    "avg": (SIGNED, lambda a, b: (a + b) // 2),
    "avgu": (UNSIGNED, lambda a, b: (a + b) // 2),
    "min": (SIGNED, np.minimum),
    "minu": (UNSIGNED, np.minimum),
    "max": (SIGNED, np.maximum),
    "maxu": (UNSIGNED, np.maximum),
    "srl": (UNSIGNED, lambda a, b: np.right_shift(a, modulo(b))),
    "sra": (SIGNED, lambda a, b: np.right_shift(a, modulo(b))),
    "sll": (UNSIGNED, lambda a, b: np.left_shift(a, modulo(b))),
    "or": (UNSIGNED, np.bitwise_or),
    "xor": (UNSIGNED, np.bitwise_xor),
    "and": (UNSIGNED, np.bitwise_and),
    "cmpeq": (SIGNED, lambda a, b: all_ones(a == b)),
    "cmpne": (SIGNED, lambda a, b: all_ones(a != b)),
    "cmpgt": (SIGNED, lambda a, b: all_ones(a > b)),
    "cmpge": (SIGNED, lambda a, b: all_ones(a >= b)),
    "cmplt": (SIGNED, lambda a, b: all_ones(a < b)),
    "cmple": (SIGNED, lambda a, b: all_ones(a <= b)),
    "cmpgtu": (UNSIGNED, lambda a, b: all_ones(a > b)),
    "cmpgeu": (UNSIGNED, lambda a, b: all_ones(a >= b)),
    "cmpltu": (UNSIGNED, lambda a, b: all_ones(a < b)),
    "cmpleu": (UNSIGNED, lambda a, b: all_ones(a <= b)),
}
DOT_PRODUCTS = {
    "dotup": (UNSIGNED, UNSIGNED),
    "dotusp": (UNSIGNED, SIGNED),
    "dotsp": (SIGNED, SIGNED),
}
CORES = [pytest.param(RI5CY, "pv", id="xpulp"), pytest.param(CV32E40P, "cv", id="xcv")]


def vector(value: int, kind: type) -> np.ndarray:
    return np.array([value], dtype=np.int32).view(kind)


def second_operand(insn: Insn, form: str, value: int, kind: type) -> np.ndarray:
    """A vector, or its element 0 or an immediate for every element."""
    elements = vector(value, kind)
    return elements if form == "" else np.full_like(elements, elements[0])


def forms(isa, prefix: str, name: str, width: str):
    for form in ("", ".sc", ".sci"):
        (insn,) = isa.by_name(f"{prefix}.{name}{form}{width}")
        yield form, insn


@pytest.mark.parametrize(("isa", "prefix"), CORES)
@pytest.mark.parametrize("width", [".h", ".b"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_instructions_do_what_numpy_does(isa, prefix, width, name):
    kinds, operation = ELEMENTWISE[name]
    kind = kinds[width]
    for form, insn in forms(isa, prefix, name, width):
        for rs1, second in operands(insn, 150):
            b = second_operand(insn, form, second, kind)
            with np.errstate(over="ignore"):
                result = operation(vector(rs1, kind), b)
            expected = int(result.astype(kind).view(np.uint32)[0])
            assert u32(insn.function(rs1, second)) == expected, (insn, rs1, second)


@pytest.mark.parametrize(("isa", "prefix"), CORES)
@pytest.mark.parametrize("width", [".h", ".b"])
@pytest.mark.parametrize("name", DOT_PRODUCTS)
def test_dot_products_do_what_numpy_does(isa, prefix, width, name):
    left, right = (kinds[width] for kinds in DOT_PRODUCTS[name])
    for form, insn in forms(isa, prefix, name, width):
        for rs1, second in operands(insn, 150):
            a = vector(rs1, left).astype(np.int64)
            b = second_operand(insn, form, second, right).astype(np.int64)
            assert u32(insn.function(rs1, second)) == int(a @ b) % 2**32
    for form, insn in forms(isa, prefix, f"s{name}", width):
        for rd, rs1, second in operands(insn, 150):
            a = vector(rs1, left).astype(np.int64)
            b = second_operand(insn, form, second, right).astype(np.int64)
            assert u32(insn.function(rd, rs1, second)) == (rd + int(a @ b)) % 2**32


@pytest.mark.parametrize(("isa", "prefix"), CORES)
def test_shuffles_take_elements_by_index(isa, prefix):
    for width, kind, count in ((".h", np.uint16, 2), (".b", np.uint8, 4)):
        (shuffle,) = isa.by_name(f"{prefix}.shuffle{width}")
        (shuffle2,) = isa.by_name(f"{prefix}.shuffle2{width}")
        for rd, rs1, rs2 in operands(shuffle2, 300):
            select = vector(rs2, kind)
            expected = vector(rs1, kind)[select % count]
            assert u32(shuffle.function(rs1, rs2)) == int(expected.view(np.uint32)[0])
            both = np.concatenate([vector(rd, kind), vector(rs1, kind)])
            expected = both[select % (2 * count)]
            assert u32(shuffle2.function(rd, rs1, rs2)) == int(expected.view(np.uint32)[0])


@pytest.mark.parametrize(("isa", "prefix", "i"), [(RI5CY, "pv", "i"), (CV32E40P, "cv", "I")])
def test_shuffles_by_an_immediate_take_two_bits_per_byte(isa, prefix, i):
    for top in range(4):
        (insn,) = isa.by_name(f"{prefix}.shuffle{i}{top}.sci.b")
        for rs1, uimm in operands(insn, 100):
            index = [uimm & 3, uimm >> 2 & 3, uimm >> 4, top]
            expected = vector(rs1, np.uint8)[index]
            assert u32(insn.function(rs1, uimm)) == int(expected.view(np.uint32)[0])
    (insn,) = isa.by_name(f"{prefix}.shuffle.sci.h")
    for uimm in range(4):
        expected = vector(0x11112222, np.uint16)[[uimm & 1, uimm >> 1]]
        assert insn.function(0x11112222, uimm) == int(expected.view(np.uint32)[0])


@pytest.mark.parametrize(
    ("xpulp", "xcv", "expected"),
    [
        ("pv_pack_h", "cv_pack", 0xBBBBDDDD),
        ("pv_pack_h_h", "cv_pack_h", 0xAAAACCCC),
        ("pv_packhi_b", "cv_packhi_b", 0xBBDD3344),
        ("pv_packlo_b", "cv_packlo_b", 0x1122BBDD),
    ],
)
def test_packing_takes_the_high_element_from_rs1(xpulp, xcv, expected):
    values = {"rd": 0x11223344, "rs1": i32(0xAAAABBBB), "rs2": i32(0xCCCCDDDD)}
    for insn in (RI5CY[xpulp], CV32E40P[xcv]):
        assert u32(insn.function(*(values[name] for name in insn.reads))) == expected


@pytest.mark.parametrize(
    ("prefix", "part"), [("pv.cplxmul.h", "r"), ("pv.cplxmul.h", "i"), ("cv.cplxmul", "r")]
)
def test_complex_products_are_those_of_complex_numbers(prefix, part):
    isa = RI5CY if prefix.startswith("pv") else CV32E40P
    for exponent, suffix in enumerate(("", ".div2", ".div4", ".div8")):
        (insn,) = isa.by_name(f"{prefix}.{part}{suffix}")
        for rd, rs1, rs2 in operands(insn, 200):
            (a_real, a_imag), (b_real, b_imag) = (
                vector(value, np.int16).tolist() for value in (rs1, rs2)
            )
            product = complex(a_real, a_imag) * complex(b_real, b_imag)  # exact: 53 bits suffice
            total = int(product.real if part == "r" else product.imag)
            total = i32(total)  # the adder has 32 bits
            elements = vector(rd, np.uint16).copy()
            elements[0 if part == "r" else 1] = total // 2 ** (15 + exponent) % 2**16
            assert u32(insn.function(rd, rs1, rs2)) == int(elements.view(np.uint32)[0])


def test_the_imaginary_part_of_the_largest_product_overflows_the_adder():
    """-1-j squared: 2^31 in 32 bits is -2^31."""
    expected = {"": 0x0000, "_div2": 0x8000, "_div4": 0xC000, "_div8": 0xE000}
    for suffix, high in expected.items():
        function = RI5CY[f"pv_cplxmul_h_i{suffix}"].function
        assert u32(function(0, i32(0x80008000), i32(0x80008000))) == high << 16


@pytest.mark.parametrize(("isa", "prefix"), [(RI5CY, "pv.{}.h"), (CV32E40P, "cv.{}")])
def test_complex_sums_are_divided_after_they_are_cut_to_16_bits(isa, prefix):
    for exponent, suffix in enumerate(("", ".div2", ".div4", ".div8")):
        for name in ("subrotmj", "add", "sub"):
            if not suffix and name != "subrotmj":
                continue
            (insn,) = isa.by_name(prefix.format(name) + suffix)
            for rs1, rs2 in operands(insn, 150):
                a, b = vector(rs1, np.int16), vector(rs2, np.int16)
                with np.errstate(over="ignore"):
                    total = {
                        "add": a + b,
                        "sub": a - b,
                        "subrotmj": np.array([a[1] - b[1], b[0] - a[0]]),
                    }[name]
                expected = int((total // 2**exponent).astype(np.int16).view(np.uint32)[0])
                assert u32(insn.function(rs1, rs2)) == expected


def test_the_conjugate_changes_the_sign_of_the_imaginary_part():
    for insn in (RI5CY["pv_cplxconj_h"], CV32E40P["cv_cplxconj"]):
        assert u32(insn.function(0x00017FFF)) == 0xFFFF7FFF
        assert u32(insn.function(i32(0x80000001))) == 0x80000001


# CORE-V and Xpulp

SAME_UNDER_ANOTHER_NAME = {
    "cv_sle": "p_slet",
    "cv_sleu": "p_sletu",
    "cv_pack": "pv_pack_h",
    "cv_pack_h": "pv_pack_h_h",
}
OWN_MEANING = {"cv_clipr", "cv_clipur"}


def test_core_v_means_what_xpulp_means_but_for_loops_and_clipping():
    own = Counter()
    for insn in CV32E40P.insns:
        if not insn.extension.startswith("xcv"):
            continue
        rest = insn.key.removeprefix("cv_")
        candidates = [
            SAME_UNDER_ANOTHER_NAME.get(insn.key),
            *(f"{prefix}_{rest}" for prefix in ("pv", "p")),
            f"pv_{rest.lower()}",
            f"pv_{rest.replace('_', '_h_', 1)}",
            f"pv_{rest}_h",
            f"pv_{rest.replace('_div', '_h_div')}",
        ]
        functions = [RI5CY[key].function for key in candidates if key and key in RI5CY]
        if insn.function not in functions:
            own[insn.key if insn.key in OWN_MEANING else insn.extension] += 1
    assert own == {"xcvhwlp": 8, "cv_clipr": 1, "cv_clipur": 1}


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
