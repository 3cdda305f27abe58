"""Packed vectors of small floats: each element is what the scalar instruction gives."""

import math
import random
import struct
from fractions import Fraction

import pytest

from isa.extensions.profiles import profile
from isa.words import i32

ISA = profile("ri5cy", "f", small_floats=True, dot_products=True)

WIDTHS = {"s": 32, "h": 16, "ah": 16, "b": 8}
SMALL = ("h", "ah", "b")
EDGES = {
    "s": [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x477FE000, 0x7F7FFFFF, 0x7F800000, 0x7F800001],
    "h": [0, 1, 0x3FF, 0x400, 0x3C00, 0x3C01, 0x4000, 0x7BFF, 0x7C00, 0x7C01, 0x7E00],
    "ah": [0, 1, 0x7F, 0x80, 0x3F80, 0x3F81, 0x4000, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0],
    "b": [0, 1, 3, 4, 0x3C, 0x3D, 0x40, 0x7B, 0x7C, 0x7D, 0x7E],
}

BINARY = {"vfadd": "fadd", "vfsub": "fsub", "vfmul": "fmul", "vfdiv": "fdiv"}
SELECTIONS = {"vfmin": "fmin", "vfmax": "fmax"}
SIGNS = {"vfsgnj": "fsgnj", "vfsgnjn": "fsgnjn", "vfsgnjx": "fsgnjx"}
FUSED = {"vfmac": "fmadd", "vfmre": "fmsub"}
TWO_OPERANDS = BINARY | SELECTIONS | SIGNS | FUSED


def perform(name: str, **parameters: int) -> tuple[int, int]:
    """Result as a word, and flags, of an instruction on x registers."""
    (insn,) = ISA.by_name(name)
    rm = parameters.pop("rm", 0)
    given = {key: i32(value) for key, value in parameters.items()}
    given |= {"rm": rm, "frm": rm, "boxed": 0}
    result = insn.function(*(given[key] for key in insn.reads))
    value, flags = result if len(insn.writes) == 2 else (result, 0)
    return value & 0xFFFFFFFF, flags


def split(word: int, x: str) -> list[int]:
    """Elements, the lowest first."""
    width = WIDTHS[x]
    return [word >> i & (1 << width) - 1 for i in range(0, 32, width)]


def pack(elements: list[int], width: int) -> int:
    return sum((value & (1 << width) - 1) << i * width for i, value in enumerate(elements))


def words(x: str, seed: int, count: int = 300) -> list[tuple[int, int, int, int]]:
    """Three random vectors, whose elements are often special, and a rounding mode."""
    rng = random.Random(seed)
    width = WIDTHS[x]

    def element() -> int:
        if rng.random() < 0.5:
            return rng.choice(EDGES[x]) | rng.getrandbits(1) << width - 1
        return rng.getrandbits(width)

    def word() -> int:
        return pack([element() for _ in range(32 // width)], width)

    return [(word(), word(), word(), rng.randrange(5)) for _ in range(count)]


@pytest.mark.parametrize("x", SMALL)
@pytest.mark.parametrize("dot", ["", ".r"], ids=["elements", "replicated"])
@pytest.mark.parametrize(("vector", "scalar"), TWO_OPERANDS.items())
def test_each_element_is_the_scalar_result(vector: str, scalar: str, dot: str, x: str) -> None:
    for a, b, c, rm in words(x, seed=1):
        results, flags = [], 0
        for p, q, r in zip(split(a, x), split(b, x), split(c, x), strict=True):
            second = split(b, x)[0] if dot else q
            value, raised = perform(f"{scalar}.{x}", fs1=p, fs2=second, fs3=r, rm=rm)
            results.append(value)
            flags |= raised
        got = perform(f"{vector}{dot}.{x}", fs1=a, fs2=b, fd=c, rm=rm)
        assert got == (pack(results, WIDTHS[x]), flags), f"{a:x} {b:x} {c:x} {rm}"


@pytest.mark.parametrize("x", SMALL)
@pytest.mark.parametrize("dot", ["", ".r"], ids=["elements", "replicated"])
@pytest.mark.parametrize(
    ("vector", "scalar", "is_swapped", "inverted"),
    [
        ("vfeq", "feq", False, 0),
        ("vfne", "feq", False, 1),
        ("vflt", "flt", False, 0),
        ("vfge", "fle", True, 0),
        ("vfle", "fle", False, 0),
        ("vfgt", "flt", True, 0),
    ],
)
def test_each_element_compares_to_one_or_zero(
    vector: str, scalar: str, is_swapped: bool, inverted: int, dot: str, x: str
) -> None:
    for a, b, _, _ in words(x, seed=2):
        results, flags = [], 0
        for p, q in zip(split(a, x), split(b, x), strict=True):
            second = split(b, x)[0] if dot else q
            first, second = (second, p) if is_swapped else (p, second)
            value, raised = perform(f"{scalar}.{x}", fs1=first, fs2=second)
            results.append(value ^ inverted)
            flags |= raised
        got = perform(f"{vector}{dot}.{x}", fs1=a, fs2=b)
        assert got == (pack(results, WIDTHS[x]), flags), f"{a:x} {b:x}"


def test_unordered_elements_are_not_equal_and_in_no_other_relation() -> None:
    nan_and_one, ones = 0x7E003C00, 0x3C003C00
    assert perform("vfne.h", fs1=nan_and_one, fs2=ones) == (0x00010000, 0)
    assert perform("vfeq.h", fs1=nan_and_one, fs2=ones) == (0x00000001, 0)
    assert perform("vfge.h", fs1=nan_and_one, fs2=ones) == (0x00000001, 16)
    assert perform("vfgt.h", fs1=nan_and_one, fs2=ones) == (0x00000000, 16)


@pytest.mark.parametrize("x", SMALL)
def test_each_element_has_its_square_root(x: str) -> None:
    for a, _, _, rm in words(x, seed=3):
        roots = [perform(f"fsqrt.{x}", fs1=value, rm=rm) for value in split(a, x)]
        flags = 0
        for _, raised in roots:
            flags |= raised
        expected = pack([value for value, _ in roots], WIDTHS[x])
        assert perform(f"vfsqrt.{x}", fs1=a, rm=rm) == (expected, flags)


CLASS_BYTES = {  # bit of fclass: byte of vfclass, as the floating-point unit's RTL has it
    0: 0b10000001,
    1: 0b10000010,
    2: 0b10000100,
    3: 0b10001000,
    4: 0b01001000,
    5: 0b01000100,
    6: 0b01000010,
    7: 0b01000001,
    8: 0b01010000,
    9: 0b01100000,
}


@pytest.mark.parametrize("x", SMALL)
def test_each_element_has_a_byte_that_tells_its_class(x: str) -> None:
    seen = set()
    for a, _, _, _ in words(x, seed=4):
        kinds = [perform(f"fclass.{x}", fs1=value)[0].bit_length() - 1 for value in split(a, x)]
        seen |= set(kinds)
        expected = pack([CLASS_BYTES[kind] for kind in kinds], 8)
        assert perform(f"vfclass.{x}", fs1=a) == (expected, 0)
    assert seen == set(CLASS_BYTES)


def number(pattern: int, x: str) -> float:
    """Value of a pattern by Python's own decoding."""
    if x == "ah":
        return struct.unpack("<f", struct.pack("<I", pattern << 16))[0]
    return struct.unpack("<e", struct.pack("<H", pattern << (8 if x == "b" else 0)))[0]


def rounded(value: Fraction, rm: int) -> int:
    half_away = math.floor(abs(value) + Fraction(1, 2))
    return (
        round(value),
        math.trunc(value),
        math.floor(value),
        math.ceil(value),
        half_away if value >= 0 else -half_away,
    )[rm]


def as_integer(value: float, lowest: int, highest: int, rm: int) -> tuple[int, int]:
    """Nearest integer in a range, and flags."""
    if math.isnan(value):
        return highest, 16
    if math.isinf(value):
        return highest if value > 0 else lowest, 16
    result = rounded(Fraction(value), rm)
    if not lowest <= result <= highest:
        return highest if result > 0 else lowest, 16
    return result, int(result != value)


@pytest.mark.parametrize("x", SMALL)
@pytest.mark.parametrize("name", ["x", "xu"])
def test_conversions_to_integers_of_the_elements_width_saturate(
    name: str, x: str, request: pytest.FixtureRequest
) -> None:
    width = WIDTHS[x]
    lowest = -(1 << width - 1) if name == "x" else 0
    step = 1 if width == 8 or request.config.getoption("--full") else 41
    for pattern in range(0, 1 << width, step):
        for rm in range(5):
            value, flags = as_integer(number(pattern, x), lowest, lowest + (1 << width) - 1, rm)
            got = perform(f"vfcvt.{name}.{x}", fs1=pattern << 32 - width, rm=rm)
            assert got == ((value << 32 - width) & 0xFFFFFFFF, flags), f"{pattern:x} {rm}"


@pytest.mark.parametrize("x", SMALL)
@pytest.mark.parametrize("name", ["x", "xu"])
def test_conversions_from_integers_take_elements_by_their_signedness(name: str, x: str) -> None:
    width = WIDTHS[x]
    scalar = f"fcvt.{x}.w"
    for a, _, _, rm in words("h", seed=5):
        results, flags = [], 0
        for value in split(a, x):
            is_negative = name == "x" and value >> width - 1
            result, raised = perform(scalar, rs1=value - (is_negative << width), rm=rm)
            results.append(result)
            flags |= raised
        assert perform(f"vfcvt.{x}.{name}", rs1=a, rm=rm) == (pack(results, width), flags)


@pytest.mark.parametrize(
    ("target", "source"),
    [("h", "ah"), ("ah", "h"), ("h", "b"), ("b", "h"), ("ah", "b"), ("b", "ah")],
)
def test_conversions_between_formats_fill_elements_from_the_lowest(
    target: str, source: str
) -> None:
    count = min(len(split(0, source)), len(split(0, target)))
    for a, _, _, rm in words(source, seed=6):
        results, flags = [], 0
        for value in split(a, source)[:count]:
            result, raised = perform(f"fcvt.{target}.{source}", fs1=value, rm=rm)
            results.append(result)
            flags |= raised
        got = perform(f"vfcvt.{target}.{source}", fs1=a, rm=rm)
        assert got == (pack(results, WIDTHS[target]), flags)


@pytest.mark.parametrize(
    ("name", "x", "position"),
    [("vfcpka", "h", 0), ("vfcpka", "ah", 0), ("vfcpka", "b", 0), ("vfcpkb", "b", 2)],
)
def test_packing_converts_two_values_and_keeps_other_elements(
    name: str, x: str, position: int
) -> None:
    for a, b, c, rm in words("s", seed=7):
        low, low_flags = perform(f"fcvt.{x}.s", fs1=a, rm=rm)
        high, high_flags = perform(f"fcvt.{x}.s", fs1=b, rm=rm)
        elements = split(c, x)
        elements[position : position + 2] = [low, high]
        got = perform(f"{name}.{x}.s", fs1=a, fs2=b, fd=c, rm=rm)
        assert got == (pack(elements, WIDTHS[x]), low_flags | high_flags)


def test_packing_of_16_bit_elements_does_not_read_the_destination() -> None:
    assert ISA["vfcpka_h_s"].reads == ("fs1", "fs2", "frm")
    assert ISA["vfcpka_b_s"].reads == ("fd", "fs1", "fs2", "frm")


@pytest.mark.parametrize("x", SMALL)
@pytest.mark.parametrize("dot", ["", ".r"], ids=["elements", "replicated"])
@pytest.mark.parametrize(("name", "sign"), [("vfdotpex.s", 0), ("vfndotpex.s", 1)])
def test_expanding_dot_products_round_after_each_element_to_nearest(
    name: str, sign: int, dot: str, x: str
) -> None:
    if sign and x != "h":
        assert ISA.by_name(f"{name}{dot}.{x}") == ()
        return
    for a, b, c, rm in words(x, seed=8):
        factors = [split(b, x)[0]] * len(split(b, x)) if dot else split(b, x)
        minus = sign << WIDTHS[x] - 1
        total, flags = perform(f"fmulex.s.{x}", fs1=split(a, x)[0] ^ minus, fs2=factors[0])
        for p, q in list(zip(split(a, x), factors, strict=True))[1:]:
            total, raised = perform(f"fmacex.s.{x}", fs1=p ^ minus, fs2=q, fd=total)
            flags |= raised
        total, raised = perform("fadd.s", fs1=c, fs2=total)
        got = perform(f"{name}{dot}.{x}", fs1=a, fs2=b, fd=c, rm=rm)
        assert got == (total, flags | raised), f"{a:x} {b:x} {c:x}"


@pytest.mark.parametrize("x", SMALL)
@pytest.mark.parametrize("dot", ["", ".r"], ids=["elements", "replicated"])
def test_dot_products_round_after_each_element_to_nearest(dot: str, x: str) -> None:
    for a, b, c, rm in words(x, seed=9):
        factors = [split(b, x)[0]] * len(split(b, x)) if dot else split(b, x)
        total, flags = perform(f"fmul.{x}", fs1=split(a, x)[0], fs2=factors[0])
        for p, q in list(zip(split(a, x), factors, strict=True))[1:]:
            total, raised = perform(f"fmadd.{x}", fs1=p, fs2=q, fs3=total)
            flags |= raised
        total, raised = perform(f"fadd.{x}", fs1=c, fs2=total)
        got = perform(f"vfdotp{dot}.{x}", fs1=a, fs2=b, fd=c, rm=rm)
        assert got == (total, flags | raised), f"{a:x} {b:x} {c:x}"


def test_a_dot_product_is_accumulated() -> None:
    one_two, three_four = 0x40003C00, 0x44004200
    assert perform("vfdotpex.s.h", fs1=one_two, fs2=three_four, fd=0x41200000) == (0x41A80000, 0)
    assert perform("vfndotpex.s.h", fs1=one_two, fs2=three_four, fd=0x41200000) == (0xBF800000, 0)
    assert perform("vfdotp.h", fs1=one_two, fs2=three_four, fd=0x4900) == (0xFFFF4D40, 0)


def test_a_narrow_dot_product_is_a_boxed_scalar() -> None:
    result, flags = ISA["vfdotp_b"].function(0, 0x3C, 0x3C)
    assert (result & 0xFFFFFFFF, flags) == (0xFFFFFF3C, 0)


@pytest.mark.parametrize("x", SMALL)
@pytest.mark.parametrize("dot", ["", ".r"], ids=["elements", "replicated"])
def test_averages_round_the_sum_and_its_half(dot: str, x: str) -> None:
    two = 0x40 << WIDTHS[x] - 8
    for a, b, _, rm in words(x, seed=10):
        results, flags = [], 0
        for p, q in zip(split(a, x), split(b, x), strict=True):
            second = split(b, x)[0] if dot else q
            total, raised = perform(f"fadd.{x}", fs1=p, fs2=second, rm=rm)
            half, raised_by_half = perform(f"fdiv.{x}", fs1=total, fs2=two, rm=rm)
            results.append(half)
            flags |= raised | raised_by_half
        got = perform(f"vfavg{dot}.{x}", fs1=a, fs2=b, rm=rm)
        assert got == (pack(results, WIDTHS[x]), flags)


@pytest.mark.parametrize("x", SMALL)
def test_vector_moves_copy_the_whole_register(x: str) -> None:
    assert perform(f"vfmv.x.{x}", fs1=0x87654321) == (0x87654321, 0)
    assert perform(f"vfmv.{x}.x", rs1=0x87654321) == (0x87654321, 0)


def test_vector_instructions_round_by_frm() -> None:
    for insn in ISA.insns:
        if insn.extension == "xfvec":
            assert "rm" not in insn.reads
            assert "rm" not in insn.encoding.fields
    assert ISA["vfadd_h"].reads == ("fs1", "fs2", "frm")


def test_vector_divisions_and_roots_have_timing_classes_of_their_own() -> None:
    timings = {insn.name: insn.timing for insn in ISA.insns if insn.extension == "xfvec"}
    divisions = {name for name, timing in timings.items() if timing == "fdiv"}
    assert divisions == {f"vfdiv{dot}.{x}" for dot in ("", ".r") for x in SMALL}
    assert {name for name, timing in timings.items() if timing == "fsqrt"} == {
        f"vfsqrt.{x}" for x in SMALL
    }
    assert set(timings.values()) == {"fpu", "fdiv", "fsqrt"}
