"""Xpulp instructions that RI5CY gained in 2020: complex numbers in half-words, bit reversal.

A complex number has its real part in element 0 and its imaginary part in element 1, both of 1.15
fixed-point format. Products are sums of two, taken modulo 2^32, and shifted right arithmetically by
15, 16, 17 or 18 (plain, .div2, .div4, .div8).

Source: RI5CY's RTL (riscv_decoder, riscv_alu, riscv_mult); the GAP9 assembler's names.
"""

from isa.declare import Extension
from isa.extensions.xpulp.vect import elementwise_h
from isa.words import i32, jitable, lane, pack_h, sext, u32

XPULPLATE = Extension("xpulplate")
insn = XPULPLATE.insn


@insn("1101001 rs2 rs1 000 rd 1010111", "pv.pack.h.h rd, rs1, rs2", "alu")
def pv_pack_h_h(rs1, rs2):
    """rd[1] = rs1[1]; rd[0] = rs2[1]."""
    return pack_h(rs1 >> 16, rs2 >> 16)


@insn("0101110 00000 rs1 000 rd 1010111", "pv.cplxconj.h rd, rs1", "alu")
def pv_cplxconj_h(rs1):
    """Complex conjugate: rd[1] = -rs1[1]; rd[0] = rs1[0]."""
    return pack_h(-lane(rs1, 1, 16), rs1)


@jitable
def real_product(rs1, rs2):
    return i32(lane(rs1, 0, 16) * lane(rs2, 0, 16) - lane(rs1, 1, 16) * lane(rs2, 1, 16))


@jitable
def imaginary_product(rs1, rs2):
    return i32(lane(rs1, 0, 16) * lane(rs2, 1, 16) + lane(rs1, 1, 16) * lane(rs2, 0, 16))


def scaled(shift):
    """Meanings of the instructions that divide by 2^shift."""

    @jitable
    def add(a, b, width):
        return sext(a + b, width) >> shift

    @jitable
    def sub(a, b, width):
        return sext(a - b, width) >> shift

    def cplxmul_r(rd, rs1, rs2):
        return rd & ~0xFFFF | real_product(rs1, rs2) >> 15 + shift & 0xFFFF

    def cplxmul_i(rd, rs1, rs2):
        return pack_h(imaginary_product(rs1, rs2) >> 15 + shift, rd)

    def subrotmj(rs1, rs2):
        return pack_h(
            sub(lane(rs2, 0, 16), lane(rs1, 0, 16), 16),
            sub(lane(rs1, 1, 16), lane(rs2, 1, 16), 16),
        )

    return cplxmul_r, cplxmul_i, subrotmj, elementwise_h(add, lane, 1), elementwise_h(sub, lane, 1)


for suffix, shift, funct3 in (
    ("", 0, "000"),
    (".div2", 1, "010"),
    (".div4", 2, "100"),
    (".div8", 3, "110"),
):
    cplxmul_r, cplxmul_i, subrotmj, add, sub = scaled(shift)
    insn(
        f"0101010 rs2 rs1 {funct3} rd 1010111",
        f"pv.cplxmul.h.r{suffix} rd, rs1, rs2",
        "mul",
        doc=f"Complex product, real part: rd[0] = "
        f"(rs1[0] * rs2[0] - rs1[1] * rs2[1]) >> {15 + shift}; rd[1] stays.",
    )(cplxmul_r)
    insn(
        f"0101011 rs2 rs1 {funct3} rd 1010111",
        f"pv.cplxmul.h.i{suffix} rd, rs1, rs2",
        "mul",
        doc=f"Complex product, imaginary part: rd[1] = "
        f"(rs1[0] * rs2[1] + rs1[1] * rs2[0]) >> {15 + shift}; rd[0] stays.",
    )(cplxmul_i)
    insn(
        f"0110110 rs2 rs1 {funct3} rd 1010111",
        f"pv.subrotmj.h{suffix} rd, rs1, rs2",
        "alu",
        doc=f"Complex difference times -j: rd[1] = (rs2[0] - rs1[0]) >> {shift}; "
        f"rd[0] = (rs1[1] - rs2[1]) >> {shift}.",
    )(subrotmj)
    if shift:
        insn(
            f"0111010 rs2 rs1 {funct3} rd 1010111",
            f"pv.add.h{suffix} rd, rs1, rs2",
            "alu",
            reads="rs1 rs2",
            doc=f"rd[i] = (rs1[i] + rs2[i]) >> {shift}, arithmetic, of the truncated sum.",
        )(add)
        insn(
            f"0110010 rs2 rs1 {funct3} rd 1010111",
            f"pv.sub.h{suffix} rd, rs1, rs2",
            "alu",
            reads="rs1 rs2",
            doc=f"rd[i] = (rs1[i] - rs2[i]) >> {shift}, arithmetic, of the truncated difference.",
        )(sub)


@insn("11000 Is3[1:0] Is2 rs1 101 rd 0110011", "p.bitrev rd, rs1, Is2, Is3", "alu")
def p_bitrev(rs1, Is2, Is3):
    """Reverse the order of groups of 1, 2 or 3 bits (Is3 = 0, 1, 2; 3 as 0) of rs1 << Is2.

    Groups are counted from bit 31; of three bits there are ten, and the two bits left are lost.
    """
    word = u32(rs1 << Is2)
    width = Is3 + 1 if Is3 < 3 else 1
    group = (1 << width) - 1
    reverse = 0
    for low in range(32 - width, -1, -width):
        reverse |= (word >> low & group) << 32 - width - low
    return reverse
