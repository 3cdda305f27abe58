"""Xpulp's SIMD instructions and their twins of XCV, on NumPy's vectors."""

import numpy as np
import pytest

from isa.declare import Insn
from isa.extensions.profiles import profile
from isa.words import i32, u32
from tests.isa.extensions.meanings import operands

RI5CY, CV32E40P = profile("ri5cy"), profile("cv32e40p")
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
