"""The scalar instructions of all four formats: by vectors, and how registers hold narrow values."""

from collections.abc import Iterator

import pytest

from isa.declare import Insn
from isa.extensions.profiles import profile
from isa.words import i32
from tests.isa.floats.float_vectors import MODES, file_names, read_vectors

ISA = profile("ri5cy", "f", small_floats=True, dot_products=True)

FORMATS = {"s": "f32", "h": "f16", "ah": "bf16", "b": "f8"}
WIDTHS = {"s": 32, "h": 16, "ah": 16, "b": 8}
NANS = {"h": 0x7E00, "ah": 0x7FC0, "b": 0x7E}
SMALL = tuple(NANS)

UNROUNDED = {"feq": "eq", "flt": "lt", "fle": "le", "fmin": "min", "fmax": "max", "fclass": "class"}
ROUNDED = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div", "fsqrt": "sqrt"}
FUSED = {  # which operands are negated with respect to a * b + c
    "fmadd": (0, 0),
    "fmsub": (0, 1),
    "fnmsub": (1, 0),
    "fnmadd": (1, 1),
}
INTEGERS = {"w": "i32", "wu": "ui32"}
KEYS = {
    name.partition("/")[2].removesuffix(f"_{mode}") for name in file_names(None) for mode in MODES
}


def cases() -> Iterator[tuple[str, str]]:
    """Mnemonics, and the files of vectors that say what they do."""
    for x, f in FORMATS.items():
        yield from ((f"{name}.{x}", f"{f}_{key}") for name, key in UNROUNDED.items())
        yield from ((f"{name}.{x}", f"{f}_{key}") for name, key in ROUNDED.items())
        yield from ((f"{name}.{x}", f"{f}_mulAdd") for name in FUSED)
        yield from ((f"fcvt.{name}.{x}", f"{f}_to_{key}") for name, key in INTEGERS.items())
        yield from ((f"fcvt.{x}.{name}", f"{key}_to_{f}") for name, key in INTEGERS.items())
        yield from ((f"fcvt.{x}.{y}", f"{g}_to_{f}") for y, g in FORMATS.items() if x != y)
        yield from ((f"{name}ex.s.{x}", f"{f}_{name[1:]}ex_s") for name in ("fmul", "fmac"))


CASES = [(name, key) for name, key in cases() if key in KEYS and ISA.by_name(name)]
WITHOUT_VECTORS = {"fcvt.ah.wu", "fcvt.b.wu", "fcvt.ah.b", "fcvt.b.ah", "fmulex.s.b", "fmacex.s.b"}


def values(insn: Insn, a: int, b: int, c: int, rm: int, boxed: int) -> dict[str, int]:
    """Parameters of an instruction whose operands in the vectors are a, b, c."""
    x = insn.name.rpartition(".")[2]
    negate_product, negate_addend = FUSED.get(insn.name.partition(".")[0], (0, 0))
    sign = 1 << WIDTHS.get(x, 32) - 1
    a ^= negate_product * sign
    c ^= negate_addend * sign
    if x in SMALL and boxed:
        a, b = (operand | -1 << WIDTHS[x] for operand in (a, b))
        c = c if insn.name.startswith("fmacex") else c | -1 << WIDTHS[x]
    return {"fs1": i32(a), "fs2": i32(b), "fs3": i32(c), "fd": i32(c), "rs1": i32(a)} | {
        "rm": rm,
        "frm": rm,
        "boxed": boxed,
    }


def perform(insn: Insn, parameters: dict[str, int]) -> tuple[int, int]:
    """Result as a word, and flags."""
    result = insn.function(*(parameters[name] for name in insn.reads))
    value, flags = result if len(insn.writes) == 2 else (result, 0)
    return value & 0xFFFFFFFF, flags


def in_register(insn: Insn, expected: int) -> int:
    """The register that holds an expected result."""
    x = insn.name.split(".")[1]
    if insn.writes[0] != "fd" or x not in SMALL:
        return expected
    return (expected | -1 << WIDTHS[x]) & 0xFFFFFFFF


def files_about(key: str) -> list[str]:
    names = {f"{folder}/{key}" for folder in ("testfloat", "smallfloat")}
    names |= {f"{name}_{mode}" for name in names for mode in MODES}
    return sorted(names & set(file_names(None)))


@pytest.mark.parametrize("boxed", [1, 0], ids=["f registers", "x registers"])
@pytest.mark.parametrize(("name", "key"), CASES)
def test_results_and_flags_are_those_of_the_vectors(name: str, key: str, boxed: int) -> None:
    (insn,) = ISA.by_name(name)
    for file in files_about(key):
        _, rm, rows = read_vectors(file, None)
        for a, b, c, expected, flags in rows:
            got = perform(insn, values(insn, a, b, c, rm, boxed))
            assert got == (in_register(insn, expected), flags), f"{a:x} {b:x} {c:x} {rm}"


def test_nearly_all_rounding_comparing_and_converting_instructions_have_vectors() -> None:
    scalar = {
        insn.name
        for insn in ISA.insns
        if insn.extension in ("rv32f", "xf16", "xf16alt", "xf8", "xfaux")
        and not insn.name.startswith("vf")
        and "flags" in insn.writes
    }
    assert scalar - {name for name, _ in CASES} == WITHOUT_VECTORS


@pytest.mark.parametrize("boxed", [1, 0])
@pytest.mark.parametrize(
    ("name", "operand", "expected", "flags"),
    [
        ("fcvt.ah.wu", 0xFFFFFFFF, 0x4F80, 1),
        ("fcvt.ah.wu", 0x80000000, 0x4F00, 0),
        ("fcvt.b.wu", 0xFFFFFFFF, 0x7C, 5),
        ("fcvt.b.wu", 0x00000005, 0x45, 0),
        ("fcvt.ah.b", 0x01, 0x3780, 0),
        ("fcvt.ah.b", 0xFC, 0xFF80, 0),
        ("fcvt.ah.b", 0x7D, 0x7FC0, 16),
        ("fcvt.b.ah", 0x3FC0, 0x3E, 0),
        ("fcvt.b.ah", 0x3FA1, 0x3D, 1),
        ("fcvt.b.ah", 0xC780, 0xFC, 5),
        ("fcvt.b.ah", 0x3700, 0x00, 3),
    ],
)
def test_conversions_without_vectors(
    name: str, operand: int, expected: int, flags: int, boxed: int
) -> None:
    (insn,) = ISA.by_name(name)
    parameters = values(insn, operand, 0, 0, MODES["rne"], boxed)
    assert perform(insn, parameters) == (in_register(insn, expected), flags)


@pytest.mark.parametrize("boxed", [1, 0])
def test_products_of_f8_are_exact_in_single_precision(boxed: int) -> None:
    (product,), (sum_of_products,) = ISA.by_name("fmulex.s.b"), ISA.by_name("fmacex.s.b")
    largest, smallest = 0x7B, 0x01  # 57344 and 2^-16
    parameters = values(product, largest, largest, 0, 0, boxed)
    assert perform(product, parameters) == (0x4F440000, 0)  # 57344^2
    parameters = values(sum_of_products, smallest, smallest, 0x3F800000, MODES["rup"], boxed)
    assert perform(sum_of_products, parameters) == (0x3F800001, 1)


@pytest.mark.parametrize(
    ("name", "signs"),
    [("fsgnj", (0, 1, 0, 1)), ("fsgnjn", (1, 0, 1, 0)), ("fsgnjx", (0, 1, 1, 0))],
)
@pytest.mark.parametrize("x", FORMATS)
@pytest.mark.parametrize("boxed", [1, 0])
def test_sign_injection_changes_the_sign_alone(
    name: str, signs: tuple[int, ...], x: str, boxed: int
) -> None:
    (insn,) = ISA.by_name(f"{name}.{x}")
    width = WIDTHS[x]
    magnitude = (1 << width - 1) - 3  # a signaling NaN is left as it is
    operands = [(magnitude | i << width - 1, 5 | j << width - 1) for i in (0, 1) for j in (0, 1)]
    for (a, b), sign in zip(operands, signs, strict=True):
        expected = in_register(insn, magnitude | sign << width - 1)
        assert perform(insn, values(insn, a, b, 0, 0, boxed)) == (expected, 0)


@pytest.mark.parametrize("x", SMALL)
def test_an_operand_that_is_not_boxed_is_read_as_the_canonical_nan(x: str) -> None:
    one = {"h": 0x3C00, "ah": 0x3F80, "b": 0x3C}[x]
    unboxed = {"fs1": one, "fs2": one, "fs3": one, "rm": 0, "frm": 0, "boxed": 1}
    boxed_nan = 0xFFFFFFFF & (-1 << WIDTHS[x] | NANS[x])
    for name in ("fadd", "fmadd", "fsqrt", "fmin", "fsgnj"):
        (insn,) = ISA.by_name(f"{name}.{x}")
        assert perform(insn, unboxed) == (boxed_nan, 0)
    (fclass,), (feq,), (flt,) = (ISA.by_name(f"{name}.{x}") for name in ("fclass", "feq", "flt"))
    assert perform(fclass, unboxed) == (1 << 9, 0)
    assert perform(feq, unboxed) == (0, 0)
    assert perform(flt, unboxed) == (0, 16)


@pytest.mark.parametrize("x", SMALL)
def test_x_registers_ignore_what_is_above_an_operand(x: str) -> None:
    (insn,) = ISA.by_name(f"fadd.{x}")
    one, two = {"h": (0x3C00, 0x4000), "ah": (0x3F80, 0x4000), "b": (0x3C, 0x40)}[x]
    above = 0x12345678 & -1 << WIDTHS[x]
    parameters = {"fs1": one | above, "fs2": one, "rm": 0, "frm": 0, "boxed": 0}
    assert perform(insn, parameters) == (in_register(insn, two), 0)


@pytest.mark.parametrize(
    ("name", "word", "expected"),
    [
        ("fmv.x.w", 0x7F800001, 0x7F800001),
        ("fmv.w.x", 0x7F800001, 0x7F800001),
        ("fmv.x.h", 0x1234FC01, 0xFFFFFC01),
        ("fmv.h.x", 0x12347C01, 0xFFFF7C01),
        ("fmv.x.ah", 0x12347F81, 0x00007F81),
        ("fmv.ah.x", 0x1234FF81, 0xFFFFFF81),
        ("fmv.x.b", 0x12347CFD, 0xFFFFFFFD),
        ("fmv.b.x", 0x12347C7D, 0xFFFFFF7D),
    ],
)
def test_moves_take_the_low_bits_and_check_nothing(name: str, word: int, expected: int) -> None:
    (insn,) = ISA.by_name(name)
    assert perform(insn, {"fs1": i32(word), "rs1": i32(word), "boxed": 1}) == (expected, 0)


@pytest.mark.parametrize(
    ("name", "timing", "access", "data"),
    [
        ("flw", "load", "i32", "fd"),
        ("fsw", "store", "i32", "fs2"),
        ("flh", "load", "f16", "fd"),
        ("fsh", "store", "i16", "fs2"),
        ("flb", "load", "f8", "fd"),
        ("fsb", "store", "i8", "fs2"),
    ],
)
def test_loads_and_stores_of_floats(name: str, timing: str, access: str, data: str) -> None:
    insn = ISA[name]
    assert (insn.timing, insn.access, insn.writes) == (timing, access, ("addr",))
    assert data in insn.encoding.fields
    assert insn.function(1000, -4) == 996


def test_zfinx_has_no_loads_stores_and_moves_of_its_own() -> None:
    separate, shared = (profile("cv32e40p", file, small_floats=True) for file in "fx")
    without = {insn.name for insn in separate.insns} - {insn.name for insn in shared.insns}
    moves = "fmv.x.w fmv.w.x fmv.x.h fmv.h.x fmv.x.ah fmv.ah.x fmv.x.b fmv.b.x".split()
    vector_moves = [f"v{name}" for name in moves if "w" not in name]
    assert without == {*"flw fsw flh fsh flb fsb".split(), *moves, *vector_moves}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (0x00007053, "fadd.s"),  # rm = 7, dynamic
        (0x00005053, None),  # rm = 5 and 6 are reserved
        (0x00006053, None),
        (0x04004053, "fadd.h"),
        (0x04005053, "fadd.ah"),  # rm = 5 selects bfloat16
        (0x04006053, None),
        (0x06004053, "fadd.b"),
        (0x06005053, None),
        (0xC0005053, None),
        (0xC4005053, "fcvt.w.ah"),
        (0xD0006053, None),
        (0x58005053, None),
        (0x40205053, "fcvt.s.h"),  # exact: any rm
        (0x44300053, "fcvt.h.b"),
        (0x44305053, "fcvt.ah.b"),
        (0x00006043, None),
        (0x04005043, "fmadd.ah"),
    ],
)
def test_reserved_rounding_modes_are_illegal(word: int, name: str | None) -> None:
    decoded = ISA.decode(word)
    assert (decoded.insn.name if decoded else None) == name


def test_bfloat16_rounds_by_frm_having_no_rounding_mode_of_its_own() -> None:
    assert ISA["fadd_h"].reads == ("fs1", "fs2", "rm", "boxed")
    assert ISA["fadd_ah"].reads == ("fs1", "fs2", "frm", "boxed")


def test_timing_classes_of_floating_point() -> None:
    timings = {insn.name: insn.timing for insn in ISA.insns if insn.extension != "xfvec"}
    for x in FORMATS:
        assert timings.pop(f"fdiv.{x}") == "fdiv"
        assert timings.pop(f"fsqrt.{x}") == "fsqrt"
        for name in ("fmadd", "fsgnjx", "feq", "fclass", "fcvt.w", "fmin"):
            assert timings[f"{name}.{x}"] == "fpu"
    assert not {"fdiv", "fsqrt"} & set(timings.values())
