"""Xf16, Xf16alt, Xf8: the scalar instructions of the small formats, each set shaped like RV32F.

Those of *_REGISTERS exist only where floats have registers of their own.

Source: smallFloat extensions, encodings of the PULP toolchain.
"""

from collections.abc import Callable

from isa.declare import Extension
from isa.extensions.smallfloat import AH, B, H, S, Small, box, unbox
from isa.floats.format import RNE, signed_zero
from isa.floats.softfloat import (
    add,
    classify,
    convert,
    copy_sign,
    divide,
    equal,
    from_integer,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    multiply_add,
    square_root,
    subtract,
    to_integer,
)
from isa.words import sext

XF16, XF16_REGISTERS = Extension("xf16"), Extension("xf16")
XF16ALT, XF16ALT_REGISTERS = Extension("xf16alt"), Extension("xf16alt")
XF8, XF8_REGISTERS = Extension("xf8"), Extension("xf8")

FUSED = (  # opcode, is the product negated, is the addend
    ("fmadd", "1000011", 0, 0, "fs1 * fs2 + fs3"),
    ("fmsub", "1000111", 0, 1, "fs1 * fs2 - fs3"),
    ("fnmsub", "1001011", 1, 0, "-(fs1 * fs2) + fs3"),
    ("fnmadd", "1001111", 1, 1, "-(fs1 * fs2) - fs3"),
)
BINARY: tuple[tuple[str, str, Callable, str, str], ...] = (
    ("fadd", "00000", add, "fpu", "fs1 + fs2"),
    ("fsub", "00001", subtract, "fpu", "fs1 - fs2"),
    ("fmul", "00010", multiply, "fpu", "fs1 * fs2"),
    ("fdiv", "00011", divide, "fdiv", "fs1 / fs2"),
)
SIGNS = (  # funct3, what of fs1 and of ones goes into the sign besides that of fs2
    ("fsgnj", "00", 0, 0, "the sign of fs2"),
    ("fsgnjn", "01", 0, -1, "the opposite of the sign of fs2"),
    ("fsgnjx", "10", -1, 0, "its sign times that of fs2"),
)
SELECTIONS: tuple[tuple[str, str, Callable, str], ...] = (
    ("fmin", "00", minimum, "smaller"),
    ("fmax", "01", maximum, "larger"),
)
COMPARISONS: tuple[tuple[str, str, Callable, str, str], ...] = (
    ("feq", "10", equal, "fs1 == fs2", "a signaling NaN"),
    ("flt", "01", less, "fs1 < fs2", "a NaN"),
    ("fle", "00", less_equal, "fs1 <= fs2", "a NaN"),
)
INTEGERS = (  # rs2, lowest, highest, mask that makes a register such an integer
    ("w", "00000", -(1 << 31), (1 << 31) - 1, -1, "a signed integer"),
    ("wu", "00001", 0, (1 << 32) - 1, (1 << 32) - 1, "an unsigned integer"),
)


def fused(f, negate_product, negate_addend):
    product_sign, addend_sign = signed_zero(f, negate_product), signed_zero(f, negate_addend)

    def meaning(fs1, fs2, fs3, rm, boxed):
        a = unbox(f, fs1, boxed) ^ product_sign
        c = unbox(f, fs3, boxed) ^ addend_sign
        pattern, flags = multiply_add(f, a, unbox(f, fs2, boxed), c, rm)
        return box(f, pattern), flags

    return meaning


def binary(f, operation):
    def meaning(fs1, fs2, rm, boxed):
        pattern, flags = operation(f, unbox(f, fs1, boxed), unbox(f, fs2, boxed), rm)
        return box(f, pattern), flags

    return meaning


def root(f, operation=square_root):
    def meaning(fs1, rm, boxed):
        pattern, flags = operation(f, unbox(f, fs1, boxed), rm)
        return box(f, pattern), flags

    return meaning


def sign_injection(f, first, ones):
    def meaning(fs1, fs2, boxed):
        a = unbox(f, fs1, boxed)
        return box(f, copy_sign(f, a, unbox(f, fs2, boxed) ^ ones ^ a & first))

    return meaning


def selection(f, operation):
    def meaning(fs1, fs2, boxed):
        pattern, flags = operation(f, unbox(f, fs1, boxed), unbox(f, fs2, boxed))
        return box(f, pattern), flags

    return meaning


def comparison(f, operation):
    def meaning(fs1, fs2, boxed):
        return operation(f, unbox(f, fs1, boxed), unbox(f, fs2, boxed))

    return meaning


def classification(f):
    def meaning(fs1, boxed):
        return classify(f, unbox(f, fs1, boxed))

    return meaning


def to_word(f, lowest, highest):
    def meaning(fs1, rm, boxed):
        return to_integer(f, unbox(f, fs1, boxed), lowest, highest, rm)

    return meaning


def from_word(f, mask):
    def meaning(rs1, rm):
        pattern, flags = from_integer(f, rs1 & mask, rm)
        return box(f, pattern), flags

    return meaning


def conversion(f, g, operation=convert):
    def meaning(fs1, rm, boxed):
        pattern, flags = operation(f, g, unbox(f, fs1, boxed), rm)
        return box(g, pattern), flags

    return meaning


def exact_conversion(f, g):
    def meaning(fs1, boxed):
        pattern, flags = convert(f, g, unbox(f, fs1, boxed), RNE)
        return box(g, pattern), flags

    return meaning


def move_to_x(f):
    def meaning(fs1):
        return sext(fs1, f.width)

    return meaning


def move_from_x(f):
    def meaning(rs1):
        return box(f, rs1 & (1 << f.width) - 1)

    return meaning


def address(rs1, imm):
    return rs1 + imm


def declare_operations(extension: Extension, small: Small) -> None:
    """Declare what computes within a format, and to and from integers."""
    x, f, fmt, alt = small.letter, small.format, small.fmt, small.alternative
    rm, tail = small.rm, small.rm_operand
    insn = extension.insn
    for name, opcode, product, addend, formula in FUSED:
        insn(
            f"fs3 {fmt} fs2 fs1 {rm} fd {opcode}",
            f"{name}.{x} fd, fs1, fs2, fs3{tail}",
            "fpu",
            writes="fd flags",
            doc=f"fd = {formula}, rounded once.",
        )(fused(f, product, addend))
    for name, funct5, operation, timing, formula in BINARY:
        insn(
            f"{funct5}{fmt} fs2 fs1 {rm} fd 1010011",
            f"{name}.{x} fd, fs1, fs2{tail}",
            timing,
            writes="fd flags",
            doc=f"fd = {formula}.",
        )(binary(f, operation))
    insn(
        f"01011{fmt} 00000 fs1 {rm} fd 1010011",
        f"fsqrt.{x} fd, fs1{tail}",
        "fsqrt",
        writes="fd flags",
        doc="fd = sqrt(fs1).",
    )(root(f))
    for name, funct3, first, ones, sign in SIGNS:
        insn(
            f"00100{fmt} fs2 fs1 {alt}{funct3} fd 1010011",
            f"{name}.{x} fd, fs1, fs2",
            "fpu",
            writes="fd",
            doc=f"fd = fs1 with {sign}.",
        )(sign_injection(f, first, ones))
    for name, funct3, operation, which in SELECTIONS:
        insn(
            f"00101{fmt} fs2 fs1 {alt}{funct3} fd 1010011",
            f"{name}.{x} fd, fs1, fs2",
            "fpu",
            writes="fd flags",
            doc=f"The {which} number; -0 is less than +0, a NaN loses against a number.",
        )(selection(f, operation))
    for name, funct3, operation, formula, what in COMPARISONS:
        insn(
            f"10100{fmt} fs2 fs1 {alt}{funct3} rd 1010011",
            f"{name}.{x} rd, fs1, fs2",
            "fpu",
            writes="rd flags",
            doc=f"rd = 1 if {formula}, else 0; invalid if either is {what}.",
        )(comparison(f, operation))
    insn(
        f"11100{fmt} 00000 fs1 {alt}01 rd 1010011",
        f"fclass.{x} rd, fs1",
        "fpu",
        doc="Class of fs1, one bit as in fclass.s.",
    )(classification(f))
    for name, rs2, lowest, highest, mask, what in INTEGERS:
        insn(
            f"11000{fmt} {rs2} fs1 {rm} rd 1010011",
            f"fcvt.{name}.{x} rd, fs1{tail}",
            "fpu",
            writes="rd flags",
            doc=f"Convert to {what}; out of range: the nearest one, of a NaN the highest.",
        )(to_word(f, lowest, highest))
        insn(
            f"11010{fmt} {rs2} rs1 {rm} fd 1010011",
            f"fcvt.{x}.{name} fd, rs1{tail}",
            "fpu",
            writes="fd flags",
            doc=f"Convert from {what}.",
        )(from_word(f, mask))


def declare_conversions(extension: Extension, small: Small, other: Small) -> None:
    """Declare the conversions between two formats.

    Those to a wider format are exact and ignore the field rm, unless it selects the format.
    """
    for source, target in ((small, other), (other, small)):
        is_exact = target.format.width > source.format.width and target.rm == "rm"
        rm, tail = ("---", "") if is_exact else (target.rm, target.rm_operand)
        meaning = exact_conversion if is_exact else conversion
        extension.insn(
            f"01000{target.fmt} {source.source} fs1 {rm} fd 1010011",
            f"fcvt.{target.letter}.{source.letter} fd, fs1{tail}",
            "fpu",
            writes="fd flags",
            doc=f"Convert from format {source.letter} to {target.letter}.",
        )(meaning(source.format, target.format))


def declare_transfers(registers: Extension, small: Small, funct3: str | None) -> None:
    """Declare moves between the register files, and loads and stores unless funct3 is None."""
    x, f, fmt, alt = small.letter, small.format, small.fmt, small.alternative
    insn = registers.insn
    if funct3 is not None:
        insn(
            f"imm[11:0] rs1 {funct3} fd 0000111",
            f"fl{x} fd, imm(rs1)",
            "load",
            access=f"f{f.width}",
            writes="addr",
            doc=f"Load {f.width}-bit float: fd = M[rs1 + imm], bits above it all ones.",
        )(address)
        insn(
            f"imm[11:5] fs2 rs1 {funct3} imm[4:0] 0100111",
            f"fs{x} fs2, imm(rs1)",
            "store",
            access=f"i{f.width}",
            writes="addr",
            doc=f"Store {f.width}-bit float: M[rs1 + imm] = low bits of fs2.",
        )(address)
    insn(
        f"11100{fmt} 00000 fs1 {alt}00 rd 1010011",
        f"fmv.x.{x} rd, fs1",
        "fpu",
        doc="Move a pattern to an x register, sign-extended.",
    )(move_to_x(f))
    insn(
        f"11110{fmt} 00000 rs1 {alt}00 fd 1010011",
        f"fmv.{x}.x fd, rs1",
        "fpu",
        writes="fd",
        doc="Move a pattern from an x register.",
    )(move_from_x(f))


for extension, registers, small, funct3, others in (
    (XF16, XF16_REGISTERS, H, "001", (S,)),
    (XF16ALT, XF16ALT_REGISTERS, AH, None, (S, H)),
    (XF8, XF8_REGISTERS, B, "000", (S, H, AH)),
):
    declare_operations(extension, small)
    for other in others:
        declare_conversions(extension, small, other)
    declare_transfers(registers, small, funct3)
