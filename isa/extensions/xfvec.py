"""Xfvec: small floats as packed vectors, two of 16 bits or four of 8 bits in a register.

Element 0 is the lowest. Forms `.r` take element 0 of fs2 for all elements. All round by frm and set
the flags of all elements. XFVEC_REGISTERS exists only where floats have registers of their own.

Sources: smallFloat extensions, encodings of the PULP toolchain; cvfpu, modules
`fpnew_opgroup_multifmt_slice` (conversions between widths) and `fpnew_opgroup_fmt_slice` (classes).
"""

from collections.abc import Callable

from isa.declare import Extension
from isa.extensions.smallfloat import AH, B, H, Small
from isa.floats.format import F32, signed_zero
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
from isa.words import jitable, lane, ulane

XFVEC = Extension("xfvec")
XFVEC_REGISTERS = Extension("xfvec")

BINARY: tuple[tuple[str, str, Callable, str, str], ...] = (
    ("vfadd", "1000001", add, "fpu", "fs1 + fs2"),
    ("vfsub", "1000010", subtract, "fpu", "fs1 - fs2"),
    ("vfmul", "1000011", multiply, "fpu", "fs1 * fs2"),
    ("vfdiv", "1000100", divide, "fdiv", "fs1 / fs2"),
)
SELECTIONS: tuple[tuple[str, str, Callable, str], ...] = (
    ("vfmin", "1000101", minimum, "smaller"),
    ("vfmax", "1000110", maximum, "larger"),
)
FUSED = (  # is the addend negated
    ("vfmac", "1001000", 0, "fs1 * fs2 + fd"),
    ("vfmre", "1001001", 1, "fs1 * fs2 - fd"),
)
SIGNS = (  # what of fs1 and of ones goes into the sign besides that of fs2
    ("vfsgnj", "1001101", 0, 0, "the sign of fs2"),
    ("vfsgnjn", "1001110", 0, -1, "the opposite of the sign of fs2"),
    ("vfsgnjx", "1001111", -1, 0, "its sign times that of fs2"),
)
COMPARISONS: tuple[
    tuple[str, str, Callable, bool, int, str, str], ...
] = (  # are the operands swapped, is the result inverted
    ("vfeq", "1010000", equal, False, 0, "fs1 == fs2", "signaling NaNs"),
    ("vfne", "1010001", equal, False, 1, "fs1 != fs2", "signaling NaNs"),
    ("vflt", "1010010", less, False, 0, "fs1 < fs2", "NaNs"),
    ("vfge", "1010011", less_equal, True, 0, "fs1 >= fs2", "NaNs"),
    ("vfle", "1010100", less_equal, False, 0, "fs1 <= fs2", "NaNs"),
    ("vfgt", "1010101", less, True, 0, "fs1 > fs2", "NaNs"),
)


@jitable
def class_byte(f, a):
    """The class as vfclass gives it: sign, not sign, quiet NaN, signaling NaN, zero, subnormal,
    normal, infinity (bits 7..0). NaNs have no sign."""
    kind = classify(f, a)
    if kind >= 1 << 8:
        return 1 << 6 | kind >> 4
    if kind >= 1 << 4:
        return 1 << 6 | (1 << 7) // kind
    return 1 << 7 | kind


def binary(f, operation, step):
    """step: distance of the elements of fs2, 0 to repeat the first."""
    width, count = f.width, 32 // f.width

    def meaning(fs1, fs2, rm):
        result = flags = 0
        for i in range(count):
            pattern, raised = operation(f, fs1 >> i * width, fs2 >> i * step, rm)
            result |= pattern << i * width
            flags |= raised
        return result, flags

    return meaning


def selection(f, operation, step):
    width, count = f.width, 32 // f.width

    def meaning(fs1, fs2):
        result = flags = 0
        for i in range(count):
            pattern, raised = operation(f, fs1 >> i * width, fs2 >> i * step)
            result |= pattern << i * width
            flags |= raised
        return result, flags

    return meaning


def fused(f, negate_addend, step):
    width, count = f.width, 32 // f.width
    sign = signed_zero(f, negate_addend)

    def meaning(fd, fs1, fs2, rm):
        result = flags = 0
        for i in range(count):
            addend = fd >> i * width ^ sign
            pattern, raised = multiply_add(f, fs1 >> i * width, fs2 >> i * step, addend, rm)
            result |= pattern << i * width
            flags |= raised
        return result, flags

    return meaning


def root(f, operation=square_root):
    width, count = f.width, 32 // f.width

    def meaning(fs1, rm):
        result = flags = 0
        for i in range(count):
            pattern, raised = operation(f, fs1 >> i * width, rm)
            result |= pattern << i * width
            flags |= raised
        return result, flags

    return meaning


def sign_injection(f, first, ones, step):
    width, count = f.width, 32 // f.width

    def meaning(fs1, fs2):
        result = 0
        for i in range(count):
            a = fs1 >> i * width
            result |= copy_sign(f, a, fs2 >> i * step ^ ones ^ a & first) << i * width
        return result

    return meaning


def comparison(f, operation, is_swapped, inverted, step):
    width, count = f.width, 32 // f.width

    def meaning(fs1, fs2):
        result = flags = 0
        for i in range(count):
            a, b = fs1 >> i * width, fs2 >> i * step
            holds, raised = operation(f, b, a) if is_swapped else operation(f, a, b)
            result |= (holds ^ inverted) << i * width
            flags |= raised
        return result, flags

    return meaning


def classification(f):
    width, count = f.width, 32 // f.width

    def meaning(fs1):
        result = 0
        for i in range(count):
            result |= class_byte(f, fs1 >> i * width) << 8 * i
        return result

    return meaning


def to_lanes(f, is_signed):
    """Integers as wide as the floats."""
    width, count = f.width, 32 // f.width
    lowest = -(1 << width - 1) if is_signed else 0
    highest = lowest + (1 << width) - 1

    def meaning(fs1, rm):
        result = flags = 0
        for i in range(count):
            value, raised = to_integer(f, fs1 >> i * width, lowest, highest, rm)
            result |= ulane(value, 0, width) << i * width
            flags |= raised
        return result, flags

    return meaning


def from_lanes(f, is_signed):
    width, count = f.width, 32 // f.width
    element = lane if is_signed else ulane

    def meaning(rs1, rm):
        result = flags = 0
        for i in range(count):
            pattern, raised = from_integer(f, element(rs1, i, width), rm)
            result |= pattern << i * width
            flags |= raised
        return result, flags

    return meaning


def conversion(f, g, operation=convert):
    """As many elements as both vectors have; those above them in the result are zero."""
    width, target_width, count = f.width, g.width, 32 // max(f.width, g.width)

    def meaning(fs1, rm):
        result = flags = 0
        for i in range(count):
            pattern, raised = operation(f, g, fs1 >> i * width, rm)
            result |= pattern << i * target_width
            flags |= raised
        return result, flags

    return meaning


@jitable
def convert_pair(f, fs1, fs2, rm):
    """Two binary32 values as neighbouring elements, and flags."""
    low, low_flags = convert(F32, f, fs1, rm)
    high, high_flags = convert(F32, f, fs2, rm)
    return high << f.width | low, low_flags | high_flags


def packing(f):
    def meaning(fs1, fs2, rm):
        return convert_pair(f, fs1, fs2, rm)

    return meaning


def partial_packing(f, position):
    replaced = (1 << 2 * f.width) - 1 << position

    def meaning(fd, fs1, fs2, rm):
        pair, flags = convert_pair(f, fs1, fs2, rm)
        return fd & ~replaced | pair << position, flags

    return meaning


def move(fs1):
    return fs1


def move_back(rs1):
    return rs1


def declare_operations(small: Small) -> None:
    """Declare what computes within a format, in two forms where there is a second operand."""
    f, insn = small.format, XFVEC.insn
    for replicated in ("0", "1"):
        dot, funct3 = ".r" if replicated == "1" else "", replicated + small.vector
        step = 0 if replicated == "1" else f.width
        last = ", element 0 of fs2 for all" if replicated == "1" else ""

        def row(
            name: str, funct7: str, destination: str, dot: str = dot, funct3: str = funct3
        ) -> tuple[str, str]:
            """Encoding and syntax."""
            return (
                f"{funct7} fs2 fs1 {funct3} {destination} 0110011",
                f"{name}{dot}.{small.letter} {destination}, fs1, fs2",
            )

        for name, funct7, operation, timing, formula in BINARY:
            insn(
                *row(name, funct7, "fd"),
                timing,
                writes="fd flags",
                doc=f"fd = {formula} in each element{last}.",
            )(binary(f, operation, step))
        for name, funct7, operation, which in SELECTIONS:
            insn(
                *row(name, funct7, "fd"),
                "fpu",
                writes="fd flags",
                doc=f"The {which} number in each element{last}; -0 is less than +0.",
            )(selection(f, operation, step))
        for name, funct7, negated, formula in FUSED:
            insn(
                *row(name, funct7, "fd"),
                "fpu",
                writes="fd flags",
                doc=f"fd = {formula} in each element, rounded once{last}.",
            )(fused(f, negated, step))
        for name, funct7, first, ones, sign in SIGNS:
            insn(
                *row(name, funct7, "fd"),
                "fpu",
                writes="fd",
                doc=f"fd = fs1 with {sign}, in each element{last}.",
            )(sign_injection(f, first, ones, step))
        for name, funct7, operation, is_swapped, inverted, formula, invalid in COMPARISONS:
            insn(
                *row(name, funct7, "rd"),
                "fpu",
                writes="rd flags",
                doc=f"1 where {formula}, else 0, in each element of rd{last}; invalid: {invalid}.",
            )(comparison(f, operation, is_swapped, inverted, step))
    insn(
        f"1000111 00000 fs1 0{small.vector} fd 0110011",
        f"vfsqrt.{small.letter} fd, fs1",
        "fsqrt",
        writes="fd flags",
        doc="fd = sqrt(fs1) in each element.",
    )(root(f))
    insn(
        f"1001100 00001 fs1 0{small.vector} rd 0110011",
        f"vfclass.{small.letter} rd, fs1",
        "fpu",
        doc=" ".join((class_byte.__doc__ or "").split()) + " One byte of rd for each element.",
    )(classification(f))


def declare_integer_conversions(small: Small) -> None:
    """Declare the conversions to and from integers of the elements' width."""
    x, f, insn = small.letter, small.format, XFVEC.insn
    for name, funct3, is_signed in (("x", "0", True), ("xu", "1", False)):
        what = f"{'signed' if is_signed else 'unsigned'} {f.width}-bit integers"
        insn(
            f"1001100 00010 fs1 {funct3}{small.vector} rd 0110011",
            f"vfcvt.{name}.{x} rd, fs1",
            "fpu",
            writes="rd flags",
            doc=f"Convert to {what}; out of range: the nearest one, of a NaN the highest.",
        )(to_lanes(f, is_signed))
        insn(
            f"1001100 00011 rs1 {funct3}{small.vector} fd 0110011",
            f"vfcvt.{x}.{name} fd, rs1",
            "fpu",
            writes="fd flags",
            doc=f"Convert from {what}.",
        )(from_lanes(f, is_signed))


def declare_conversion(target: Small, source: Small) -> None:
    XFVEC.insn(
        f"1001100 001{source.vector} fs1 0{target.vector} fd 0110011",
        f"vfcvt.{target.letter}.{source.letter} fd, fs1",
        "fpu",
        writes="fd flags",
        doc=f"Convert each element from {source.letter} to {target.letter}, from the lowest on; "
        "elements of fd without a source become 0.",
    )(conversion(source.format, target.format))


def declare_packing(small: Small, name: str, funct3: str, meaning, elements: str) -> None:
    XFVEC.insn(
        f"1011000 fs2 fs1 {funct3}{small.vector} fd 0110011",
        f"{name}.{small.letter}.s fd, fs1, fs2",
        "fpu",
        writes="fd flags",
        doc=f"Elements {elements} of fd = single-precision fs1 and fs2; others are kept.",
    )(meaning)


def declare_moves(small: Small) -> None:
    XFVEC_REGISTERS.insn(
        f"1001100 00000 fs1 0{small.vector} rd 0110011",
        f"vfmv.x.{small.letter} rd, fs1",
        "fpu",
        doc="Move a vector to an x register.",
    )(move)
    XFVEC_REGISTERS.insn(
        f"1001100 00000 rs1 1{small.vector} fd 0110011",
        f"vfmv.{small.letter}.x fd, rs1",
        "fpu",
        writes="fd",
        doc="Move a vector from an x register.",
    )(move_back)


for small in (H, AH, B):
    declare_operations(small)
    declare_integer_conversions(small)
    declare_moves(small)
for one, other in ((H, AH), (H, B), (AH, B)):
    declare_conversion(one, other)
    declare_conversion(other, one)
declare_packing(H, "vfcpka", "0", packing(H.format), "0 and 1")
declare_packing(AH, "vfcpka", "0", packing(AH.format), "0 and 1")
declare_packing(B, "vfcpka", "0", partial_packing(B.format, 0), "0 and 1")
declare_packing(B, "vfcpkb", "1", partial_packing(B.format, 16), "2 and 3")
