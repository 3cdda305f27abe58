"""Xpulp SIMD: two half-words (.h) or four bytes (.b) in an x register.

Most instructions come in three forms: the second operand is a vector, element 0 of rs2 for every
element (.sc), or an immediate for every element (.sci).

    pv.add.h rd, rs1, rs2        rd[i] = rs1[i] + rs2[i]
    pv.add.sc.h rd, rs1, rs2     rd[i] = rs1[i] + rs2[0]
    pv.add.sci.h rd, rs1, imm    rd[i] = rs1[i] + imm

Element 0 is the lowest; results are cut to the element's width. An immediate is element 0 of
itself, so .sc and .sci have one meaning, applied to rs2 or to the immediate.

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "Vectorial Operations".
"""

from typing import NamedTuple

from isa.declare import Extension
from isa.words import bits, jitable, lane, pack_b, pack_h, sext, ulane, zext

XPULPVECT = Extension("xpulpvect")
insn = XPULPVECT.insn


# Operations on two elements of a width


@jitable
def add(a, b, width):
    return a + b


@jitable
def sub(a, b, width):
    return a - b


@jitable
def avg(a, b, width):
    return sext(a + b, width) >> 1


@jitable
def avgu(a, b, width):
    return zext(a + b, width) >> 1


@jitable
def minimum(a, b, width):
    return min(a, b)


@jitable
def maximum(a, b, width):
    return max(a, b)


@jitable
def shift_right(a, b, width):
    return a >> (b & width - 1)


@jitable
def shift_left(a, b, width):
    return a << (b & width - 1)


@jitable
def or_(a, b, width):
    return a | b


@jitable
def xor(a, b, width):
    return a ^ b


@jitable
def and_(a, b, width):
    return a & b


@jitable
def equal(a, b, width):
    return -int(a == b)


@jitable
def not_equal(a, b, width):
    return -int(a != b)


@jitable
def greater(a, b, width):
    return -int(a > b)


@jitable
def greater_equal(a, b, width):
    return -int(a >= b)


@jitable
def less(a, b, width):
    return -int(a < b)


@jitable
def less_equal(a, b, width):
    return -int(a <= b)


# Vectors of two and of four elements. `element` reads one of them as signed or unsigned. What meets
# element i of rs1 is element i * stride of the second operand: stride 0 repeats element 0.


def elementwise_h(operation, element, stride):
    """The operation on each pair of half-words."""

    def meaning(rs1, second):
        return pack_h(
            operation(element(rs1, 1, 16), element(second, stride, 16), 16),
            operation(element(rs1, 0, 16), element(second, 0, 16), 16),
        )

    return meaning


def elementwise_b(operation, element, stride):
    """The operation on each pair of bytes."""

    def meaning(rs1, second):
        return pack_b(
            operation(element(rs1, 3, 8), element(second, 3 * stride, 8), 8),
            operation(element(rs1, 2, 8), element(second, 2 * stride, 8), 8),
            operation(element(rs1, 1, 8), element(second, stride, 8), 8),
            operation(element(rs1, 0, 8), element(second, 0, 8), 8),
        )

    return meaning


def dot_h(left, right, stride):
    """Sum of the products of half-words, alone and added to rd."""

    def dot(rs1, second):
        high = left(rs1, 1, 16) * right(second, stride, 16)
        return high + left(rs1, 0, 16) * right(second, 0, 16)

    def accumulated(rd, rs1, second):
        high = left(rs1, 1, 16) * right(second, stride, 16)
        return rd + high + left(rs1, 0, 16) * right(second, 0, 16)

    return dot, accumulated


def dot_b(left, right, stride):
    """Sum of the products of bytes, alone and added to rd."""

    def dot(rs1, second):
        high = left(rs1, 3, 8) * right(second, 3 * stride, 8)
        high += left(rs1, 2, 8) * right(second, 2 * stride, 8)
        low = left(rs1, 1, 8) * right(second, stride, 8)
        return high + low + left(rs1, 0, 8) * right(second, 0, 8)

    def accumulated(rd, rs1, second):
        high = left(rs1, 3, 8) * right(second, 3 * stride, 8)
        high += left(rs1, 2, 8) * right(second, 2 * stride, 8)
        low = left(rs1, 1, 8) * right(second, stride, 8)
        return rd + high + low + left(rs1, 0, 8) * right(second, 0, 8)

    return dot, accumulated


class Width(NamedTuple):
    """One width of elements."""

    suffix: str
    funct3: str  # its lowest bit
    shift_imm: str  # immediates of shifts: bits above the shift amount are ignored
    indices: str


HALVES = Width(".h", "0", "uimm[0] -- uimm[3:1]", "i = 0, 1")
BYTES = Width(".b", "1", "uimm[0] --- uimm[2:1]", "i = 0..3")
SIGNED_IMM = "imm[0] imm[5:1]"
UNSIGNED_IMM = "uimm[0] uimm[5:1]"


def declare_forms(name, code, width, vector, scalar, imm, timing, doc, accumulator=""):
    """Declare the three forms: second operand a vector, element 0 of rs2, an immediate.

    vector, scalar    meanings for a second operand of stride 1 and of stride 0
    doc               a formula with {b} for the second operand
    """
    imm_name = imm.partition("[")[0]
    for infix, funct3, row, second, formula, function in (
        ("", "00", "0 rs2", "rs2", "rs2[i]", vector),
        (".sc", "10", "0 rs2", "rs2", "rs2[0]", scalar),
        (".sci", "11", imm, imm_name, imm_name, scalar),
    ):
        insn(
            f"{code} {row} rs1 {funct3}{width.funct3} rd 1010111",
            f"pv.{name}{infix}{width.suffix} rd, rs1, {second}",
            timing,
            reads=f"{accumulator} rs1 {second}",
            doc=doc.format(b=formula),
        )(function)


# mnemonic, bits 31:26, operation, elements read as, formula
ELEMENTWISE = (
    ("add", "000000", add, lane, "rs1[i] + {b}"),
    ("sub", "000010", sub, lane, "rs1[i] - {b}"),
    ("avg", "000100", avg, lane, "(rs1[i] + {b}) >> 1, of the truncated sum, arithmetic"),
    ("avgu", "000110", avgu, ulane, "(rs1[i] + {b}) >> 1, of the truncated sum, logical"),
    ("min", "001000", minimum, lane, "min(rs1[i], {b}), signed"),
    ("minu", "001010", minimum, ulane, "min(rs1[i], {b}), unsigned"),
    ("max", "001100", maximum, lane, "max(rs1[i], {b}), signed"),
    ("maxu", "001110", maximum, ulane, "max(rs1[i], {b}), unsigned"),
    ("or", "010110", or_, lane, "rs1[i] | {b}"),
    ("xor", "011000", xor, lane, "rs1[i] ^ {b}"),
    ("and", "011010", and_, lane, "rs1[i] & {b}"),
    ("cmpeq", "000001", equal, lane, "ones if rs1[i] == {b}, else 0"),
    ("cmpne", "000011", not_equal, lane, "ones if rs1[i] != {b}, else 0"),
    ("cmpgt", "000101", greater, lane, "ones if rs1[i] > {b}, else 0, signed"),
    ("cmpge", "000111", greater_equal, lane, "ones if rs1[i] >= {b}, else 0, signed"),
    ("cmplt", "001001", less, lane, "ones if rs1[i] < {b}, else 0, signed"),
    ("cmple", "001011", less_equal, lane, "ones if rs1[i] <= {b}, else 0, signed"),
    ("cmpgtu", "001101", greater, ulane, "ones if rs1[i] > {b}, else 0, unsigned"),
    ("cmpgeu", "001111", greater_equal, ulane, "ones if rs1[i] >= {b}, else 0, unsigned"),
    ("cmpltu", "010001", less, ulane, "ones if rs1[i] < {b}, else 0, unsigned"),
    ("cmpleu", "010011", less_equal, ulane, "ones if rs1[i] <= {b}, else 0, unsigned"),
)
# the same; shift amounts are taken modulo the width
SHIFTS = (
    ("srl", "010000", shift_right, ulane, "rs1[i] >> {b}, zeros shifted in"),
    ("sra", "010010", shift_right, lane, "rs1[i] >> {b}, sign bits shifted in"),
    ("sll", "010100", shift_left, ulane, "rs1[i] << {b}"),
)
# mnemonic, bits 31:26 of product and of accumulating product, elements of rs1 and of rs2 read as
DOT_PRODUCTS = (
    ("dotup", "100000", "101000", ulane, ulane, "unsigned"),
    ("dotusp", "100010", "101010", ulane, lane, "unsigned by signed"),
    ("dotsp", "100110", "101110", lane, lane, "signed"),
)

for width, elementwise in ((HALVES, elementwise_h), (BYTES, elementwise_b)):
    for name, code, operation, element, formula in (*ELEMENTWISE, *SHIFTS):
        imm = UNSIGNED_IMM if element is ulane else SIGNED_IMM
        if operation in (shift_left, shift_right):
            imm = width.shift_imm
        vector, scalar = elementwise(operation, element, 1), elementwise(operation, element, 0)
        doc = f"rd[i] = {formula}; {width.indices}."
        declare_forms(name, code, width, vector, scalar, imm, "alu", doc)

for width, dot in ((HALVES, dot_h), (BYTES, dot_b)):
    for name, code, sum_code, left, right, how in DOT_PRODUCTS:
        imm = UNSIGNED_IMM if right is ulane else SIGNED_IMM
        vector, vector_sum = dot(left, right, 1)
        scalar, scalar_sum = dot(left, right, 0)
        doc = f"Dot product, {how}: rd = sum of rs1[i] * {{b}}; {width.indices}."
        declare_forms(name, code, width, vector, scalar, imm, "mul", doc)
        doc = f"Accumulated dot product, {how}: rd += sum of rs1[i] * {{b}}; {width.indices}."
        name = f"s{name}"
        declare_forms(name, sum_code, width, vector_sum, scalar_sum, imm, "mul", doc, "rd")


@insn("0111000 00000 rs1 000 rd 1010111", "pv.abs.h rd, rs1", "alu")
def pv_abs_h(rs1):
    """rd[i] = |rs1[i]|; that of -2^15 is -2^15; i = 0, 1."""
    return pack_h(abs(lane(rs1, 1, 16)), abs(lane(rs1, 0, 16)))


@insn("0111000 00000 rs1 001 rd 1010111", "pv.abs.b rd, rs1", "alu")
def pv_abs_b(rs1):
    """rd[i] = |rs1[i]|; that of -2^7 is -2^7; i = 0..3."""
    return pack_b(
        abs(lane(rs1, 3, 8)), abs(lane(rs1, 2, 8)), abs(lane(rs1, 1, 8)), abs(lane(rs1, 0, 8))
    )


# One element


@insn("011110 uimm[0] ----- rs1 110 rd 1010111", "pv.extract.h rd, rs1, uimm", "alu")
def pv_extract_h(rs1, uimm):
    """rd = rs1[uimm], sign-extended."""
    return lane(rs1, uimm, 16)


@insn("011110 uimm[0] ---- uimm[1] rs1 111 rd 1010111", "pv.extract.b rd, rs1, uimm", "alu")
def pv_extract_b(rs1, uimm):
    """rd = rs1[uimm], sign-extended."""
    return lane(rs1, uimm, 8)


@insn("100100 uimm[0] ----- rs1 110 rd 1010111", "pv.extractu.h rd, rs1, uimm", "alu")
def pv_extractu_h(rs1, uimm):
    """rd = rs1[uimm], zero-extended."""
    return ulane(rs1, uimm, 16)


@insn("100100 uimm[0] ---- uimm[1] rs1 111 rd 1010111", "pv.extractu.b rd, rs1, uimm", "alu")
def pv_extractu_b(rs1, uimm):
    """rd = rs1[uimm], zero-extended."""
    return ulane(rs1, uimm, 8)


@insn("101100 uimm[0] ----- rs1 110 rd 1010111", "pv.insert.h rd, rs1, uimm", "alu")
def pv_insert_h(rd, rs1, uimm):
    """rd[uimm] = rs1[0]; the other element of rd stays."""
    return rd & ~(0xFFFF << 16 * uimm) | (rs1 & 0xFFFF) << 16 * uimm


@insn("101100 uimm[0] ---- uimm[1] rs1 111 rd 1010111", "pv.insert.b rd, rs1, uimm", "alu")
def pv_insert_b(rd, rs1, uimm):
    """rd[uimm] = rs1[0]; the other elements of rd stay."""
    return rd & ~(0xFF << 8 * uimm) | (rs1 & 0xFF) << 8 * uimm


# Shuffling


@insn("1100000 rs2 rs1 000 rd 1010111", "pv.shuffle.h rd, rs1, rs2", "alu")
def pv_shuffle_h(rs1, rs2):
    """rd[1] = rs1[rs2[16]]; rd[0] = rs1[rs2[0]]."""
    return pack_h(ulane(rs1, bits(rs2, 16, 16), 16), ulane(rs1, bits(rs2, 0, 0), 16))


@insn("110000 uimm[0] uimm[5:1] rs1 110 rd 1010111", "pv.shuffle.sci.h rd, rs1, uimm", "alu")
def pv_shuffle_sci_h(rs1, uimm):
    """rd[1] = rs1[uimm[1]]; rd[0] = rs1[uimm[0]]."""
    return pack_h(ulane(rs1, bits(uimm, 1, 1), 16), ulane(rs1, bits(uimm, 0, 0), 16))


@insn("1100000 rs2 rs1 001 rd 1010111", "pv.shuffle.b rd, rs1, rs2", "alu")
def pv_shuffle_b(rs1, rs2):
    """rd[i] = rs1[rs2[8i+1:8i]]; i = 0..3."""
    return pack_b(
        ulane(rs1, bits(rs2, 25, 24), 8),
        ulane(rs1, bits(rs2, 17, 16), 8),
        ulane(rs1, bits(rs2, 9, 8), 8),
        ulane(rs1, bits(rs2, 1, 0), 8),
    )


def shuffle_immediate(top):
    """Bytes selected by uimm, below a fixed one."""

    def shuffle(rs1, uimm):
        return pack_b(
            ulane(rs1, top, 8),
            ulane(rs1, bits(uimm, 5, 4), 8),
            ulane(rs1, bits(uimm, 3, 2), 8),
            ulane(rs1, bits(uimm, 1, 0), 8),
        )

    return shuffle


for top, code in ((0, "110000"), (1, "111010"), (2, "111100"), (3, "111110")):
    insn(
        f"{code} uimm[0] uimm[5:1] rs1 111 rd 1010111",
        f"pv.shufflei{top}.sci.b rd, rs1, uimm",
        "alu",
        doc=f"rd[3] = rs1[{top}]; rd[i] = rs1[uimm[2i+1:2i]]; i = 0..2.",
    )(shuffle_immediate(top))


@insn("1100100 rs2 rs1 000 rd 1010111", "pv.shuffle2.h rd, rs1, rs2", "alu")
def pv_shuffle2_h(rd, rs1, rs2):
    """rd[i] = (rs1 if rs2[16i+1], else rd)[rs2[16i]]; i = 0, 1."""
    return pack_h(
        ulane(rs1 if bits(rs2, 17, 17) else rd, bits(rs2, 16, 16), 16),
        ulane(rs1 if bits(rs2, 1, 1) else rd, bits(rs2, 0, 0), 16),
    )


@insn("1100100 rs2 rs1 001 rd 1010111", "pv.shuffle2.b rd, rs1, rs2", "alu")
def pv_shuffle2_b(rd, rs1, rs2):
    """rd[i] = (rs1 if rs2[8i+2], else rd)[rs2[8i+1:8i]]; i = 0..3."""
    return pack_b(
        ulane(rs1 if bits(rs2, 26, 26) else rd, bits(rs2, 25, 24), 8),
        ulane(rs1 if bits(rs2, 18, 18) else rd, bits(rs2, 17, 16), 8),
        ulane(rs1 if bits(rs2, 10, 10) else rd, bits(rs2, 9, 8), 8),
        ulane(rs1 if bits(rs2, 2, 2) else rd, bits(rs2, 1, 0), 8),
    )


@insn("1101000 rs2 rs1 000 rd 1010111", "pv.pack.h rd, rs1, rs2", "alu")
def pv_pack_h(rs1, rs2):
    """rd[1] = rs1[0]; rd[0] = rs2[0]."""
    return pack_h(rs1, rs2)


@insn("1101100 rs2 rs1 001 rd 1010111", "pv.packhi.b rd, rs1, rs2", "alu")
def pv_packhi_b(rd, rs1, rs2):
    """rd[3] = rs1[0]; rd[2] = rs2[0]; the low elements of rd stay."""
    return pack_b(rs1, rs2, 0, 0) | rd & 0xFFFF


@insn("1110000 rs2 rs1 001 rd 1010111", "pv.packlo.b rd, rs1, rs2", "alu")
def pv_packlo_b(rd, rs1, rs2):
    """rd[1] = rs1[0]; rd[0] = rs2[0]; the high elements of rd stay."""
    return rd & ~0xFFFF | pack_b(0, 0, rs1, rs2)
