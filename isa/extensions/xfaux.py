"""Xfaux: products of small floats in binary32, dot products, averages.

RI5CY decodes the scalar ones of .h and .b. The others (XFAUX_UNDECODED) no core here has: their
roundings are those of GVSoC, the only model of them. Its dot products round each step to nearest,
ties to even, whatever frm says: first the product of elements 0, then a multiply-add for each
further element, last the sum with fd.

NOTE: GVSoC's vfdotp leaves out that last sum, and vfavg's two roundings follow frm here.

Sources: smallFloat extensions, encodings of the PULP toolchain; riscv_decoder.sv, which checks
rm = 101 against the format of the result, so that fmulex.s.ah is illegal; GVSoC, `rv32Xfaux.hpp`.
"""

from isa.declare import Extension
from isa.extensions.smallfloat import AH, B, H, Small, box, unbox
from isa.floats.format import F32, RNE, Format, signed_zero
from isa.floats.softfloat import add, divide, from_integer, multiply_add_to, multiply_to

XFAUX, XFAUX_UNDECODED = Extension("xfaux"), Extension("xfaux")


def product(f):
    def meaning(fs1, fs2, rm, boxed):
        return multiply_to(f, F32, unbox(f, fs1, boxed), unbox(f, fs2, boxed), rm)

    return meaning


def multiply_accumulate(f):
    def meaning(fd, fs1, fs2, rm, boxed):
        return multiply_add_to(f, F32, unbox(f, fs1, boxed), unbox(f, fs2, boxed), fd, rm)

    return meaning


def dot_product(f, g, negated, step):
    """fd + or - the sum of products, in format g; step: distance of the elements of fs2."""
    width, count, sign = f.width, 32 // f.width, signed_zero(f, negated)

    def meaning(fd, fs1, fs2):
        total, flags = multiply_to(f, g, fs1 ^ sign, fs2, RNE)
        for i in range(1, count):
            a, b = fs1 >> i * width ^ sign, fs2 >> i * step
            total, raised = multiply_add_to(f, g, a, b, total, RNE)
            flags |= raised
        total, raised = add(g, fd, total, RNE)
        return box(g, total), flags | raised

    return meaning


def average(f, step):
    width, count = f.width, 32 // f.width
    two = from_integer(f, 2, RNE)[0]

    def meaning(fs1, fs2, rm):
        result = flags = 0
        for i in range(count):
            total, raised = add(f, fs1 >> i * width, fs2 >> i * step, rm)
            half, raised_by_half = divide(f, total, two, rm)
            result |= half << i * width
            flags |= raised | raised_by_half
        return result, flags

    return meaning


def declare_scalars(extension: Extension, small: Small) -> None:
    """Declare the widening products, which round once."""
    for name, funct5, meaning, formula in (
        ("fmulex", "01001", product, "fs1 * fs2"),
        ("fmacex", "01010", multiply_accumulate, "fd + fs1 * fs2"),
    ):
        extension.insn(
            f"{funct5}{small.fmt} fs2 fs1 {small.rm} fd 1010011",
            f"{name}.s.{small.letter} fd, fs1, fs2{small.rm_operand}",
            "fpu",
            writes="fd flags",
            doc=f"Single-precision fd = {formula} of {small.letter} operands, rounded once.",
        )(meaning(small.format))


def declare_dot_product(
    small: Small, name: str, row: tuple[str, str], g: Format, negated: int
) -> None:
    funct7, funct3 = row
    for replicated, dot in (("0", ""), ("1", ".r")):
        XFAUX_UNDECODED.insn(
            f"{funct7} fs2 fs1 {replicated}{funct3} fd 0110011",
            f"{name}{dot}.{small.letter} fd, fs1, fs2",
            "fpu",
            writes="fd flags",
            doc=f"fd {'-' if negated else '+'}= dot product of {small.letter} vectors, in "
            f"{g.width} bits{', element 0 of fs2 for all' if dot else ''}.",
        )(dot_product(small.format, g, negated, 0 if dot else small.format.width))


def declare_averages(small: Small) -> None:
    for replicated, dot in (("0", ""), ("1", ".r")):
        XFAUX_UNDECODED.insn(
            f"1010110 fs2 fs1 {replicated}{small.vector} fd 0110011",
            f"vfavg{dot}.{small.letter} fd, fs1, fs2",
            "fpu",
            writes="fd flags",
            doc="fd = (fs1 + fs2) / 2 in each element, rounded after each step"
            f"{', element 0 of fs2 for all' if dot else ''}.",
        )(average(small.format, 0 if dot else small.format.width))


WIDENING = {H: "00", AH: "01", B: "11"}  # low bits of funct3 of dot products in binary32

for small in (H, AH, B):
    declare_scalars(XFAUX_UNDECODED if small is AH else XFAUX, small)
    declare_dot_product(small, "vfdotp", ("1001010", small.vector), small.format, 0)
    declare_dot_product(small, "vfdotpex.s", ("1001011", WIDENING[small]), F32, 0)
    declare_averages(small)
declare_dot_product(H, "vfndotpex.s", ("1011101", WIDENING[H]), F32, 1)
